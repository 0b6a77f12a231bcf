//! The name of a file, from a URL that anybody may have made.

use percent_encoding::percent_decode_str;
use url::Url;

/// As long as a name can be on all file systems in use, less the room that a number and the
/// temporary name's suffix need.
const MAX_BYTES: usize = 255 - 55;

/// The last segment of the URL's path, percent-decoded once and made safe: it names a file in
/// the directory that it is joined to, on Linux, macOS and Windows alike.
pub(super) fn of(url: &Url) -> String {
    let segments = url.path_segments();
    let last = segments.and_then(|mut s| s.next_back()).unwrap_or_default();
    let decoded = percent_decode_str(last).decode_utf8_lossy();
    let name = safe(&decoded);
    if name.is_empty() {
        "index.html".to_owned()
    } else {
        name
    }
}

/// The name while the body is not whole: hidden, and not taken for the real thing.
pub(super) fn temporary(name: &str, unique: &str) -> String {
    format!(".{name}.{unique}.part")
}

/// `a.txt`, `a (1).txt`, `a (2).txt` …
pub(super) fn numbered(name: &str, number: u64) -> String {
    if number == 0 {
        return name.to_owned();
    }
    let (stem, extension) = split_extension(name);
    format!("{stem} ({number}){extension}")
}

pub(super) fn of_response(_: &http::HeaderMap) -> Option<String> {
    None
}
pub(super) fn folded(name: &str) -> String {
    name.to_lowercase()
}
pub(super) fn tree(url: &Url) -> std::path::PathBuf {
    of(url).into()
}
pub(super) fn relative(path: &std::path::Path) -> std::path::PathBuf {
    path.into()
}
fn split_extension(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(dot) if dot > 0 && name.len() - dot <= 16 => name.split_at(dot),
        _ => (name, ""),
    }
}

fn safe(name: &str) -> String {
    let replaced: String = name
        .chars()
        .map(|c| match c {
            '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|' => '_',
            c if c.is_control() => '_',
            // Would show the extension in another place than where it is.
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '_',
            c => c,
        })
        .collect();
    // Windows drops dots and spaces at the end; a leading dot hides, a dash is an option.
    let trimmed = replaced.trim_end_matches(['.', ' ']).trim_start();
    let shortened = shorten(trimmed);
    match shortened.chars().next() {
        Some('.' | '-' | '~') => format!("_{shortened}"),
        _ if is_reserved(&shortened) => format!("_{shortened}"),
        _ => shortened,
    }
}

/// Windows' devices, with whatever extension.
fn is_reserved(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end();
    let stem = stem.to_ascii_uppercase();
    let numbered = |device: &str| {
        stem.strip_prefix(device).is_some_and(|number| {
            matches!(number, "¹" | "²" | "³")
                || number.len() == 1 && number.bytes().all(|b| b.is_ascii_digit())
        })
    };
    matches!(
        stem.as_str(),
        "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$"
    ) || numbered("COM")
        || numbered("LPT")
}

/// Cuts the stem, at a character, and keeps the extension.
fn shorten(name: &str) -> String {
    if name.len() <= MAX_BYTES {
        return name.to_owned();
    }
    let (stem, extension) = split_extension(name);
    let mut end = MAX_BYTES - extension.len();
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    let stem = stem[..end].trim_end_matches(['.', ' ']);
    format!("{stem}{extension}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str) -> String {
        of(&Url::parse(&format!("http://h/{path}")).unwrap())
    }

    #[test]
    fn the_last_segment_is_the_name() {
        for (path, name) in [
            ("a/b.txt?q#f", "b.txt"),
            ("", "index.html"),
            ("a/", "index.html"),
            ("a%20b.txt", "a b.txt"),
            ("%C3%BC", "ü"),
            ("100%", "100%"),
            ("%zz%4", "%zz%4"),
            ("%€", "%€"),
        ] {
            assert_eq!(named(path), name, "{path}");
        }
    }

    #[test]
    fn no_name_leaves_the_directory_or_is_special() {
        for (path, name) in [
            ("..%2F..%2Fetc%2Fpasswd", "_.._.._etc_passwd"),
            ("%2e%2e%5Cx", "_.._x"),
            ("%2Fabsolute", "_absolute"),
            ("a%00b", "a_b"),
            ("a%0Ab", "a_b"),
            ("C:%5Cx", "C__x"),
            ("con", "_con"),
            ("COM1.txt", "_COM1.txt"),
            ("aux.h", "_aux.h"),
            ("name.%20.", "name"),
            (".bashrc", "_.bashrc"),
            ("-rf", "_-rf"),
            ("%2E%2E%2E", "index.html"),
        ] {
            assert_eq!(named(path), name, "{path}");
        }
    }

    #[test]
    fn a_long_name_keeps_its_extension_and_leaves_room() {
        let name = named(&format!("{}.tar.gz", "ü".repeat(300)));
        assert!(
            name.ends_with("ü.gz") || name.ends_with(".tar.gz"),
            "{name}"
        );
        let longest = temporary(&numbered(&name, u64::MAX), "4294967295-99999");
        assert!(name.len() <= MAX_BYTES);
        assert!(temporary(&name, "4294967295-18446744073709551615").len() <= 255);
        assert!(numbered(&name, u64::MAX).len() <= 255, "{longest}");
    }
}
