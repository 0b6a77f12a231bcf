//! The name of a file, from a URL or a text that anybody may have made.

mod safe;
mod tree;

use std::path::{Component, Path, PathBuf};

use http::HeaderMap;
use percent_encoding::percent_decode_str;
use url::Url;

use super::disposition;
use safe::{safe, split_extension};
pub(super) use tree::tree;

/// Where nothing else tells a name.
const NAMELESS: &str = "index.html";

/// The last segment of the URL's path, percent-decoded once and made safe. `index.html` where
/// that is nothing.
pub(super) fn of(url: &Url) -> String {
    let segments = url.path_segments();
    let last = segments.and_then(|mut s| s.next_back()).unwrap_or_default();
    let decoded = percent_decode_str(last).decode_utf8_lossy();
    of_text(&decoded).unwrap_or_else(|| NAMELESS.to_owned())
}

/// What the server calls it, made safe.
pub(super) fn of_response(headers: &HeaderMap) -> Option<String> {
    of_text(&disposition::file_name(headers)?)
}

/// The text made safe: a path's separators are no more than characters that names cannot have.
/// `None` where nothing is left.
pub(super) fn of_text(text: &str) -> Option<String> {
    Some(safe(text)).filter(|name| !name.is_empty())
}

/// The path without what would lead out of the directory that it is joined to: a root, a drive,
/// `..`. Each component of it is made safe.
pub(super) fn relative(path: &Path) -> PathBuf {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => of_text(&name.to_string_lossy()),
        _ => None,
    });
    let relative: PathBuf = names.collect();
    match relative.file_name() {
        Some(_) => relative,
        None => NAMELESS.into(),
    }
}

/// The name while the body is not whole: hidden, and not taken for the real thing.
pub(super) fn temporary(name: &str, unique: &str) -> String {
    format!(".{name}.{unique}.part")
}

/// `a.txt`, `a (1).txt`, `a (2).txt` …; `a.tar.gz`, `a (1).tar.gz` …
pub(super) fn numbered(name: &str, number: u64) -> String {
    if number == 0 {
        return name.to_owned();
    }
    let (stem, extension) = split_extension(name);
    format!("{stem} ({number}){extension}")
}

/// Equal for names that are one to a file system which ignores case, whichever way it does that:
/// to lower case alone, `ΑΣ`, `ας` and `ασ` would be two. Equal for a few more, which costs a
/// number.
///
/// Not so for names that are one in Unicode's normal forms alone, `é` and `e` with an accent, as
/// HFS+ and APFS have it: std has no tables for that, and nothing coarser tells an `é` from any
/// other letter. There a name that is taken is seen when it is given.
pub(super) fn folded(name: &str) -> String {
    name.chars()
        .flat_map(char::to_lowercase)
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::safe::{MAX_BYTES, is_reserved};
    use super::*;

    /// As a name has to be, told without the code that makes it so.
    pub(super) fn is_safe(name: &str) -> bool {
        let base = Path::new("/base");
        let is_below = base.join(name).parent() == Some(base);
        let is_last = Path::new(name).file_name().is_some_and(|last| last == name);
        let is_unfit =
            |c: char| "/\\:*?\"<>|\u{202e}\u{200b}\u{feff}".contains(c) || c.is_control();
        is_below
            && is_last
            && !name.contains(is_unfit)
            && !name.starts_with(['.', '-', '~', ' '])
            && !name.ends_with(['.', ' '])
            && !is_reserved(name)
            && name.len() <= 255
    }

    /// Percent-encoded, every byte of it.
    pub(super) fn encoded(text: &str) -> String {
        text.bytes().map(|byte| format!("%{byte:02X}")).collect()
    }

    /// Texts of what has a meaning somewhere, and texts of anything.
    pub(super) fn hostile() -> impl Strategy<Value = String> {
        let pieces = prop::sample::select(vec![
            "..",
            ".",
            "/",
            "\\",
            ":",
            " ",
            "\u{3000}",
            "\0",
            "\n",
            "-",
            "~",
            "con",
            "CONIN$",
            "COM",
            "¹",
            "9",
            "nul",
            "aux",
            ".txt",
            ".tar.gz",
            "a",
            "ü",
            "İ",
            "Σ",
            "\u{301}",
            "\u{202e}",
            "\u{200b}",
            "\u{feff}",
            "C:",
            "%2e",
            "%",
            "_",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "                                                                        ",
        ]);
        prop_oneof![
            prop::collection::vec(pieces, 0..12).prop_map(|pieces| pieces.concat()),
            any::<String>(),
            "[a-zü. ]{180,260}",
        ]
    }

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
    fn a_text_is_a_name_if_something_is_left_of_it() {
        assert_eq!(of_text("../a").as_deref(), Some("_.._a"));
        assert_eq!(of_text(". "), None);
        assert_eq!(of_text(""), None);
    }

    #[test]
    fn a_path_that_somebody_chose_stays_below_the_directory() {
        for (path, relative_path) in [
            ("a/b.txt", "a/b.txt"),
            ("/etc/passwd", "etc/passwd"),
            ("../../x", "x"),
            ("a/../../x", "a/x"),
            ("./a//b/.", "a/b"),
            ("a/.../con", "a/_con"),
            (".git/-x", "_.git/_-x"),
            ("C:x/y", if cfg!(windows) { "x/y" } else { "C_x/y" }),
            ("", "index.html"),
            ("..", "index.html"),
            ("/", "index.html"),
        ] {
            assert_eq!(
                relative(Path::new(path)),
                Path::new(relative_path),
                "{path}"
            );
        }
    }

    #[test]
    fn the_name_of_a_response_is_safe() {
        let named = |value: &'static str| {
            let name = http::header::CONTENT_DISPOSITION;
            let value = http::HeaderValue::from_static(value);
            of_response(&HeaderMap::from_iter([(name, value)]))
        };
        let told = named("attachment; filename*=UTF-8''..%2F..%2F.bashrc");
        assert_eq!(told.as_deref(), Some("_.bashrc"));
        assert_eq!(named("attachment; filename=\"..\""), None);
        assert_eq!(of_response(&HeaderMap::new()), None);
    }

    #[test]
    fn numbers_go_before_the_extension() {
        for (name, second) in [
            ("a.txt", "a (2).txt"),
            ("a", "a (2)"),
            ("a.tar.gz", "a (2).tar.gz"),
            ("a (2).txt", "a (2) (2).txt"),
            ("_.txt", "_ (2).txt"),
            ("_.tar.gz", "_ (2).tar.gz"),
        ] {
            assert_eq!(numbered(name, 2), second);
            assert_eq!(numbered(name, 0), name);
        }
    }

    #[test]
    fn a_name_leaves_room_for_what_is_added_to_it() {
        let name = named(&format!("{}.tar.gz", "ü".repeat(300)));
        assert!(temporary(&name, "4294967295-18446744073709551615").len() <= 255);
        assert!(numbered(&name, u64::MAX).len() <= 255);
    }

    #[test]
    fn names_that_differ_in_case_are_one() {
        for [one, other] in [
            ["A.TXT", "a.txt"],
            ["Straße", "STRASSE"],
            ["Straße", "STRAẞE"],
            ["ΑΣ.txt", "ας.txt"],
            ["ασ", "ας"],
            ["\u{212a}", "k"],
            ["ſ", "S"],
            ["Ǆ", "ǅ"],
        ] {
            assert_eq!(folded(one), folded(other));
        }
        assert_ne!(folded("a"), folded("b"));
        assert_ne!(folded("ü"), folded("u"));
    }

    #[test]
    fn no_case_of_a_character_is_told_from_another() {
        let has_case = |c: &char| !c.to_lowercase().eq([*c]) || !c.to_uppercase().eq([*c]);
        for c in ('\0'..=char::MAX).filter(has_case) {
            let key = folded(&c.to_string());
            assert_eq!(folded(&key), key, "{c:?}");
            assert_eq!(folded(&c.to_lowercase().to_string()), key, "{c:?}");
            assert_eq!(folded(&c.to_uppercase().to_string()), key, "{c:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_the_url_it_names_a_file_in_the_directory(text in hostile(), raw in any::<bool>()) {
            let name = if raw { named(&text) } else { named(&encoded(&text)) };
            prop_assert!(is_safe(&name), "{:?}", name);
            prop_assert!(name.len() <= MAX_BYTES);
            let again = of_text(&name);
            prop_assert_eq!(again.as_deref(), Some(name.as_str()));
        }

        #[test]
        fn whatever_the_path_it_stays_below_the_directory(
            names in prop::collection::vec(hostile(), 0..8),
        ) {
            let path = relative(Path::new(&names.join("/")));
            prop_assert!(path.components().count() > 0);
            for component in path.components() {
                prop_assert!(matches!(component, Component::Normal(_)));
                prop_assert!(is_safe(component.as_os_str().to_str().unwrap()), "{:?}", component);
            }
            prop_assert_eq!(relative(&path), path);
        }

        #[test]
        fn numbers_keep_names_safe_and_apart(
            text in hostile(),
            one in any::<u64>(),
            other in prop_oneof![0..3_u64, any::<u64>()],
        ) {
            if let Some(name) = of_text(&text) {
                let (first, second) = (numbered(&name, one), numbered(&name, other));
                prop_assert!(is_safe(&first), "{:?}", first);
                prop_assert_eq!(one == other, first == second);
                prop_assert_eq!(one == other, folded(&first) == folded(&second));
            }
        }

        #[test]
        fn to_fold_is_to_fold_once(text in hostile()) {
            let key = folded(&text);
            prop_assert_eq!(folded(&key), key.as_str());
            prop_assert_eq!(folded(&text.to_uppercase()), folded(&key.to_uppercase()));
        }
    }
}
