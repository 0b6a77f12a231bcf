//! What may stand in a name.

/// As long as a name can be on all file systems in use, less the room that a number and the
/// temporary name's suffix need.
pub(crate) const MAX_BYTES: usize = 255 - 60;

/// The text as the name of one file in the directory that it is joined to, on Linux, macOS and
/// Windows alike: never a path, a device, an option or something hidden, and shown as what it is.
/// Empty where nothing is left. What is safe already stays as it is.
pub(super) fn safe(text: &str) -> String {
    let replaced = text.replace(is_unfit, "_");
    // Windows drops dots and blanks at the end. Of other blanks nobody sees that they are there.
    let trimmed = replaced
        .trim_end_matches(|c: char| c == '.' || c.is_whitespace())
        .trim_start();
    // Marked twice: a mark needs room, and what is cut may have been what told it from a device.
    marked(shortened(marked(trimmed.to_owned())))
}

fn is_unfit(c: char) -> bool {
    matches!(c, '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|')
        || c.is_control()
        || is_direction(c)
        || is_invisible(c)
}

/// Would show the extension in another place than where it is.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Would make two names of what looks like one, or one line two. Variation selectors are not
/// among them: they are in the names of many an emoji.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}')
        || matches!(
            c,
            '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        )
        || matches!(
            c,
            '\u{ad}' | '\u{34f}' | '\u{180e}' | '\u{e0000}'..='\u{e007f}'
        )
        || matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}')
}

/// A dot hides, a dash is an option, a tilde somebody's home: an underscore goes before them, and
/// before a device.
fn marked(name: String) -> String {
    if name.starts_with(['.', '-', '~']) || is_reserved(&name) {
        format!("_{name}")
    } else {
        name
    }
}

/// Windows' devices, with whatever extension, and with blanks before that.
pub(super) fn is_reserved(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end();
    let stem = stem.to_uppercase();
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
fn shortened(name: String) -> String {
    if name.len() <= MAX_BYTES {
        return name;
    }
    let (stem, extension) = split_extension(&name);
    let mut end = MAX_BYTES - extension.len();
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    let stem = stem[..end].trim_end_matches(|c: char| c == '.' || c.is_whitespace());
    format!("{stem}{extension}")
}

/// What a compressor puts behind the extension that is there.
const COMPRESSIONS: [&str; 11] = [
    "gz", "bz2", "xz", "zst", "z", "br", "lz", "lz4", "lzma", "lzo", "bz",
];

/// `.gz` after `.tar` is of one piece with it, and after any other extension that looks like one.
pub(super) fn split_extension(name: &str) -> (&str, &str) {
    let Some(last) = extension(name) else {
        return (name, "");
    };
    let (stem, compression) = name.split_at(last);
    let is_compression = COMPRESSIONS
        .iter()
        .any(|known| compression[1..].eq_ignore_ascii_case(known));
    let inner = extension(stem).filter(|&dot| is_kind(&stem[dot + 1..]));
    match inner {
        Some(inner) if is_compression => name.split_at(inner),
        _ => (stem, compression),
    }
}

/// Where the extension's dot is. What is long or has blanks is the rest of a sentence.
fn extension(name: &str) -> Option<usize> {
    let dot = name.rfind('.')?;
    let text = &name[dot + 1..];
    let is_extension = text.len() <= 15 && !text.contains(char::is_whitespace);
    (dot > 0 && is_extension).then_some(dot)
}

/// `.tar`, `.json`, and not the `.3` of a version.
fn is_kind(extension: &str) -> bool {
    let is_alphanumeric = extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_a_word = extension.starts_with(|c: char| c.is_ascii_alphabetic());
    extension.len() <= 5 && is_alphanumeric && is_a_word
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{hostile, is_safe};
    use super::*;

    #[test]
    fn what_is_special_anywhere_is_so_no_more() {
        for (text, name) in [
            ("a/b\\c:d*e?f\"g<h>i|j", "a_b_c_d_e_f_g_h_i_j"),
            ("a\0b\nc\u{7f}d\u{85}e", "a_b_c_d_e"),
            ("a\u{202e}txt.exe", "a_txt.exe"),
            ("\u{61c}a\u{2067}", "_a_"),
            ("a\u{200b}\u{200d}\u{2060}\u{feff}b", "a____b"),
            ("a\u{2028}b\u{2029}", "a_b_"),
            ("a\u{ad}\u{3164}\u{e0041}", "a___"),
            ("\u{301}a\u{301}", "\u{301}a\u{301}"),
            ("\u{2764}\u{fe0f}.png", "\u{2764}\u{fe0f}.png"),
            ("con", "_con"),
            ("Con.txt", "_Con.txt"),
            ("con .txt", "_con .txt"),
            ("con. .txt", "_con. .txt"),
            ("aux.tar.gz", "_aux.tar.gz"),
            ("conin$", "_conin$"),
            ("CONOUT$.x", "_CONOUT$.x"),
            ("com¹", "_com¹"),
            ("LPT³.x", "_LPT³.x"),
            ("com0", "_com0"),
            ("nul:", "nul_"),
            ("com10", "com10"),
            ("console", "console"),
            ("con_.txt", "con_.txt"),
            ("name. .", "name"),
            ("name\u{3000}.\u{a0}", "name"),
            ("  name", "name"),
            ("\u{3000} .name", "_.name"),
            ("~name", "_~name"),
            ("-", "_-"),
            ("", ""),
            (" ", ""),
            ("..", ""),
            (". .", ""),
        ] {
            assert_eq!(safe(text), name, "{text:?}");
        }
    }

    #[test]
    fn the_extension_is_what_says_the_kind() {
        for (name, extension) in [
            ("a.txt", ".txt"),
            ("a.b.txt", ".txt"),
            ("a.tar.gz", ".tar.gz"),
            ("a.b.TAR.Gz", ".TAR.Gz"),
            ("a.json.zst", ".json.zst"),
            ("linux-6.1.3.gz", ".gz"),
            ("tar.gz", ".gz"),
            ("a.gz", ".gz"),
            (".gz", ""),
            ("a", ""),
            ("Dr. Who", ""),
            ("a.0123456789012345", ""),
            ("a.012345678901234", ".012345678901234"),
        ] {
            let (stem, found) = split_extension(name);
            assert_eq!(found, extension, "{name}");
            assert_eq!(format!("{stem}{found}"), name);
        }
    }

    #[test]
    fn a_long_name_is_cut_before_its_extension() {
        let long = "ü".repeat(300);
        let name = safe(&format!("{long}.tar.gz"));
        assert!(name.ends_with("ü.tar.gz"), "{name}");
        assert!(name.len() > MAX_BYTES - 2);
        // What is cut off told these from something else.
        assert_eq!(safe(&format!("con{}x.txt", " ".repeat(300))), "_con.txt");
        assert_eq!(safe(&format!("{}.gz", ". ".repeat(300))), "_.gz");
        assert_eq!(
            safe(&format!("-{}", "a".repeat(MAX_BYTES - 1))).len(),
            MAX_BYTES
        );
    }

    proptest! {
        #[test]
        fn whatever_is_made_safe_is_safe_and_stays_as_it_is(text in hostile()) {
            let name = safe(&text);
            prop_assert!(name.is_empty() || is_safe(&name), "{:?}", name);
            prop_assert!(name.len() <= MAX_BYTES);
            prop_assert_eq!(safe(&name), name);
        }
    }
}
