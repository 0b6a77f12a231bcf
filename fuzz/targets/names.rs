//! Names of files: none leads out of its directory, or is special to any system.
//!
//! The lines of the input are those of a `Content-Disposition`. As a whole it is a URL's host and
//! path, a URL's path alone, a name, and a caller's path.

#![no_main]
#![allow(dead_code)]

use std::path::{Component, Path};

use http::header::CONTENT_DISPOSITION;
use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use url::Url;

#[path = "../../src/sink/disposition/mod.rs"]
mod disposition;
#[path = "../../src/sink/name/mod.rs"]
mod name;

/// What a name has to leave free of the 255 bytes of a file system.
const SUFFIX: &str = "4294967295-18446744073709551615";

fuzz_target!(|bytes: &[u8]| check(bytes));

fn check(bytes: &[u8]) {
    if let Some(told) = disposition::file_name(&headers(bytes)) {
        assert!(!told.contains(['/', '\\']), "{told:?}");
        assert!(
            told.contains(|c: char| c != '.' && !c.is_whitespace()),
            "{told:?}"
        );
        // `of_text` has no objection to what tells a name.
        is_good(&name::of_text(&told).expect("a name"));
    }
    let text = String::from_utf8_lossy(bytes);
    if let Some(name) = name::of_text(&text) {
        is_good(&name);
    }
    is_below(&name::relative(Path::new(&*text)));
    for before in ["http://h/", "http://", "http://h/a/"] {
        if let Ok(url) = Url::parse(&format!("{before}{text}")) {
            is_good(&name::of(&url));
            is_a_tree(&url);
        }
    }
    is_folded(&text);
}

fn headers(bytes: &[u8]) -> HeaderMap {
    let lines = bytes.split(|&byte| byte == b'\n');
    lines
        .filter_map(|line| HeaderValue::from_bytes(line).ok())
        .map(|value| (CONTENT_DISPOSITION, value))
        .collect()
}

fn is_good(name: &str) {
    is_one(name);
    assert!(name.len() <= 200, "{name:?}");
    assert_eq!(name::of_text(name).as_deref(), Some(name));
    let first = name::numbered(name, 1);
    let last = name::numbered(name, u64::MAX);
    assert_ne!(name::folded(&first), name::folded(&last));
    assert_ne!(first, name);
    is_one(&first);
    is_one(&last);
    assert!(name::temporary(name, SUFFIX).len() <= 255, "{name:?}");
    assert_eq!(name::numbered(name, 0), name);
}

/// A file's, and nothing else on any system.
fn is_one(name: &str) {
    let base = Path::new("/base");
    assert_eq!(base.join(name).parent(), Some(base), "{name:?}");
    assert!(!name.is_empty() && name.len() <= 255, "{name:?}");
    assert!(!name.contains(is_unfit), "{name:?}");
    assert!(!name.starts_with(['.', '-', '~', ' ']), "{name:?}");
    assert!(!name.ends_with(['.', ' ']), "{name:?}");
    let device = name.split('.').next().unwrap_or_default();
    let device = device.trim_end_matches(' ').to_ascii_lowercase();
    assert!(!is_device(&device), "{name:?}");
}

fn is_unfit(c: char) -> bool {
    let is_told =
        "/\\:*?\"<>|\u{ad}\u{61c}\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{2060}\u{feff}";
    c.is_control() || is_told.contains(c) || ('\u{2028}'..='\u{202e}').contains(&c)
}

fn is_device(name: &str) -> bool {
    let devices = ["con", "prn", "aux", "nul", "conin$", "conout$"];
    let is_numbered = ["com", "lpt"].iter().any(|device| {
        let number = name.strip_prefix(device).unwrap_or_default();
        number.chars().count() == 1 && number.contains(|c| "0123456789¹²³".contains(c))
    });
    devices.contains(&name) || is_numbered
}

fn is_a_tree(url: &Url) {
    let tree = name::tree(url);
    is_below(&tree);
    assert!((2..=32).contains(&tree.components().count()), "{tree:?}");
    // Of macOS's 1024, less what a temporary name adds, something is left for the directory.
    assert!(tree.as_os_str().len() <= 802, "{tree:?}");
    let last = tree.file_name().and_then(|name| name.to_str());
    assert_eq!(last, Some(&*name::of(url)));
    // Deterministic.
    assert_eq!(name::tree(url), tree);
}

fn is_below(path: &Path) {
    assert!(path.file_name().is_some(), "{path:?}");
    for component in path.components() {
        let Component::Normal(name) = component else {
            panic!("{path:?}");
        };
        is_one(name.to_str().expect("text"));
    }
    assert_eq!(name::relative(path), path);
}

fn is_folded(text: &str) {
    let key = name::folded(text);
    assert_eq!(name::folded(&key), key);
    assert_eq!(name::folded(&text.to_uppercase()), key);
    assert_eq!(name::folded(&text.to_lowercase()), key);
}
