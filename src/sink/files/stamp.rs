//! What a part is of: a few lines in a file beside it.
//!
//! ```text
//! fetchpool part 1
//! of 5f0c61d5a2a1e1f3b0d7c2aa            the hash of the URL
//! url https://example.com/big.iso       for people: without secrets
//! etag "1b4f-5e2a"
//! length 1073741824                     if it is known
//! end
//! ```
//!
//! How much is there is what the part's own size says. What is not of this form, or of another version, says nothing: the
//! part is begun anew.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use http::HeaderValue;

use super::open;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The hash of the URL.
    pub(super) of: String,
    /// Without secrets.
    pub(super) url: String,
    pub(super) etag: HeaderValue,
    /// Of the whole, if it is known.
    pub(super) length: Option<u64>,
}

const FIRST: &str = "fetchpool part 1";
const LAST: &str = "end";

/// More than any stamp: a URL can be long.
const LONGEST: u64 = 256 * 1024;

impl Stamp {
    pub(super) fn path(part: &Path) -> PathBuf {
        let mut path = part.as_os_str().to_owned();
        path.push(".from");
        path.into()
    }

    /// That of this part, if it has one that can be read.
    pub(super) fn read(part: &Path) -> io::Result<Option<Self>> {
        let path = Self::path(part);
        match fs::metadata(&path) {
            Ok(meta) if meta.len() <= LONGEST => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        Ok(Self::parse(&fs::read(&path)?))
    }

    pub(super) fn write(&self, part: &Path) -> io::Result<()> {
        let mut file = open::fresh(&Self::path(part))?;
        file.write_all(&self.to_bytes())
    }

    fn to_bytes(&self) -> Vec<u8> {
        let Self {
            of,
            url,
            etag,
            length,
        } = self;
        let mut bytes = format!("{FIRST}\nof {of}\nurl {url}\netag ").into_bytes();
        bytes.extend_from_slice(etag.as_bytes());
        if let Some(length) = length {
            bytes.extend_from_slice(format!("\nlength {length}").as_bytes());
        }
        bytes.extend_from_slice(format!("\n{LAST}\n").as_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        // Torn where its writer was killed: the last line is missing.
        let lines = bytes.strip_suffix(b"\n")?.split(|&byte| byte == b'\n');
        let lines: Vec<_> = lines.collect();
        let (first, lines) = lines.split_first()?;
        let (last, lines) = lines.split_last()?;
        if *first != FIRST.as_bytes() || *last != LAST.as_bytes() {
            return None;
        }
        let value = |name: &str| {
            let mut values = lines.iter().filter_map(|line| {
                let value = line.strip_prefix(name.as_bytes())?;
                value.strip_prefix(b" ")
            });
            values.next()
        };
        let text = |name| Some(std::str::from_utf8(value(name)?).ok()?.to_owned());
        Some(Self {
            of: text("of")?,
            url: text("url")?,
            etag: HeaderValue::from_bytes(value("etag")?).ok()?,
            length: match text("length") {
                Some(digits) => Some(digits.parse().ok()?),
                None => None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(length: Option<u64>) -> Stamp {
        Stamp {
            of: "5f0c61d5".to_owned(),
            url: "http://h/ü?sig=…".to_owned(),
            etag: HeaderValue::from_bytes(b"\"a \xfc\"").unwrap(),
            length,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for length in [None, Some(0), Some(u64::MAX)] {
            let stamp = stamp(length);
            assert_eq!(Stamp::parse(&stamp.to_bytes()), Some(stamp));
        }
    }

    #[test]
    fn a_torn_one_says_nothing() {
        let bytes = stamp(Some(1 << 40)).to_bytes();
        for end in 0..bytes.len() {
            assert_eq!(Stamp::parse(&bytes[..end]), None, "{end}");
        }
    }

    #[test]
    fn another_version_says_nothing() {
        let mut bytes = stamp(None).to_bytes();
        bytes[15] = b'2';
        assert_eq!(Stamp::parse(&bytes), None);
    }
}
