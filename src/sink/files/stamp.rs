//! What a part is of: a few lines in a file beside it.
//!
//! ```text
//! fetchpool part 1
//! of 5f0c61d5a2a1e1f3b0d7c2aa            the hash of the URL that was asked for, unsigned
//! from 5f0c61d5a2a1e1f3b0d7c2aa          the hash of the one that answered, after redirects
//! url https://example.com/big.iso       for people: without secrets
//! etag "1b4f-5e2a"
//! length 1073741824                     if it is known
//! disposition attachment; filename=x    `Content-Disposition`, if there was one
//! modified Sun, 06 Nov 1994 08:49:37 GMT
//! type application/octet-stream         `Content-Type`, likewise
//! span 0…0 0…01048576 0…01048576 0…01048576
//! span 0…01048576 0…01073741824 0…0131072 0…0131072
//! end
//! ```
//!
//! What the response said of the file's name, date and type stands there because the one that brings the rest
//! need not say it again (RFC 9110, section 15.3.7).
//!
//! How much is there is what the part's own size says. Of a part that comes in pieces the spans
//! say it: from where, to where, and how much of that has come. That number is written over in
//! place, after the bytes. It stands there twice, so that a torn one is not taken for another.
//!
//! What is not of this form, or of another version, says nothing: the
//! part is begun anew.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use http::HeaderValue;

use super::open;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The hash of the URL that was asked for, without what signs it.
    pub(super) of: String,
    /// The hash of the one that answered, whose tag it is.
    pub(super) from: String,
    /// Without secrets.
    pub(super) url: String,
    pub(super) etag: HeaderValue,
    /// Of the whole, if it is known.
    pub(super) length: Option<u64>,
    pub(super) disposition: Option<HeaderValue>,
    pub(super) modified: Option<HeaderValue>,
    pub(super) content_type: Option<HeaderValue>,
    /// All of the whole, one after the other. None where it comes in one piece.
    pub(super) spans: Vec<Span>,
}

/// A stretch of a part, and how much of it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u64,
    /// The first byte behind it.
    pub(super) end: u64,
    pub(super) done: u64,
}

/// The place of the spans' progress.
#[derive(Debug)]
pub(super) struct Record {
    file: File,
    /// Of the first one's line.
    at: u64,
}

/// `\nspan START END DONE DONE`, of twenty digits each.
const LINE: u64 = 6 + 4 * 20 + 3;
/// Where in that the progress is.
const DONE: u64 = 6 + 2 * 21;

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
        let Some(file) = open::for_reading(&Self::path(part))? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        file.take(LONGEST).read_to_end(&mut bytes)?;
        Ok(Self::parse(&bytes))
    }

    pub(super) fn write(&self, part: &Path) -> io::Result<()> {
        let bytes = self.to_bytes();
        open::check_longest(bytes.len() as u64, open::longest())?;
        let mut file = open::fresh(&Self::path(part))?;
        file.write_all(&bytes)
    }

    /// Of one that has been written: where its spans' progress is noted.
    pub(super) fn record(&self, part: &Path) -> io::Result<Record> {
        let file = open::existing(&Self::path(part))?;
        let spans = self.spans.len() as u64 * LINE;
        let tail = LAST.len() as u64 + 2;
        let at = self.to_bytes().len() as u64 - tail - spans;
        Ok(Record { file, at })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let Self {
            of,
            from,
            url,
            etag,
            length,
            disposition,
            modified,
            content_type,
            spans,
        } = self;
        let mut bytes = format!("{FIRST}\nof {of}\nfrom {from}\nurl {url}\netag ").into_bytes();
        bytes.extend_from_slice(etag.as_bytes());
        if let Some(length) = length {
            bytes.extend_from_slice(format!("\nlength {length}").as_bytes());
        }
        for (name, value) in [
            ("disposition", disposition),
            ("modified", modified),
            ("type", content_type),
        ] {
            if let Some(value) = value {
                bytes.extend_from_slice(format!("\n{name} ").as_bytes());
                bytes.extend_from_slice(value.as_bytes());
            }
        }
        for Span { start, end, done } in spans {
            let line = format!("\nspan {start:020} {end:020} {}", twice(*done));
            bytes.extend_from_slice(line.as_bytes());
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
        let header = |name| HeaderValue::from_bytes(value(name)?).ok();
        let length = match text("length") {
            Some(digits) => Some(digits.parse().ok()?),
            None => None,
        };
        let spans = lines.iter().filter_map(|line| line.strip_prefix(b"span "));
        let spans = spans.map(Span::parse).collect::<Option<Vec<_>>>()?;
        if !spans.is_empty() && !are_all_of(&spans, length?) {
            return None;
        }
        Some(Self {
            of: text("of")?,
            from: text("from")?,
            url: text("url")?,
            etag: header("etag")?,
            length,
            disposition: header("disposition"),
            modified: header("modified"),
            content_type: header("type"),
            spans,
        })
    }
}

impl Span {
    fn parse(line: &[u8]) -> Option<Self> {
        let numbers = std::str::from_utf8(line).ok()?.split(' ');
        let numbers: Option<Vec<u64>> = numbers.map(|number| number.parse().ok()).collect();
        let [start, end, done, again] = numbers?[..] else {
            return None;
        };
        let is_one = start < end && done == again && done <= end - start;
        is_one.then_some(Self { start, end, done })
    }
}

/// One behind the other, from the first byte to the last.
fn are_all_of(spans: &[Span], length: u64) -> bool {
    let mut at = 0;
    let adjoin = spans.iter().all(|span| {
        let fits = span.start == at;
        at = span.end;
        fits
    });
    adjoin && at == length
}

fn twice(done: u64) -> String {
    format!("{done:020} {done:020}")
}

impl Record {
    /// So much of this span is in the file.
    pub(super) fn note(&self, span: usize, done: u64) -> io::Result<()> {
        let at = self.at + span as u64 * LINE + DONE;
        open::write_at(&self.file, twice(done).as_bytes(), at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(length: Option<u64>) -> Stamp {
        Stamp {
            of: "5f0c61d5".to_owned(),
            from: "aa0c61d5".to_owned(),
            url: "http://h/ü?sig=…".to_owned(),
            etag: HeaderValue::from_bytes(b"\"a \xfc\"").unwrap(),
            length,
            disposition: length.map(|_| HeaderValue::from_bytes(b"inline; filename=\xe9").unwrap()),
            modified: None,
            content_type: length.map(|_| HeaderValue::from_static("text/csv; charset=utf-8")),
            spans: vec![],
        }
    }

    fn divided() -> Stamp {
        let spans = [(0, 10, 10), (10, 1 << 40, 7), (1 << 40, u64::MAX, 0)];
        let span = |(start, end, done)| Span { start, end, done };
        Stamp {
            spans: spans.map(span).to_vec(),
            ..stamp(Some(u64::MAX))
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for length in [None, Some(0), Some(u64::MAX)] {
            let stamp = stamp(length);
            assert_eq!(Stamp::parse(&stamp.to_bytes()), Some(stamp));
        }
        assert_eq!(Stamp::parse(&divided().to_bytes()), Some(divided()));
    }

    #[test]
    fn progress_is_noted_in_place() {
        let part = std::env::temp_dir().join(format!("fetchpool-stamp-{}", std::process::id()));
        let mut stamp = divided();
        stamp.write(&part).unwrap();
        let record = stamp.record(&part).unwrap();
        for (span, done) in [(1, 8), (2, u64::MAX - (1 << 40)), (1, 1 << 39)] {
            record.note(span, done).unwrap();
            stamp.spans[span].done = done;
            assert_eq!(Stamp::read(&part).unwrap().as_ref(), Some(&stamp));
        }
        std::fs::remove_file(Stamp::path(&part)).unwrap();
    }

    /// As where its writer was killed between the two halves of a write.
    #[test]
    fn a_note_that_is_torn_says_nothing() {
        let (old, new) = (twice(999_999), twice(1_000_000));
        for at in 1..old.len() {
            let torn = format!("0 {} {}{}", 1_u64 << 40, &new[..at], &old[at..]);
            let span = Span::parse(torn.as_bytes());
            let done = span.map(|span| span.done);
            assert!(matches!(done, None | Some(999_999 | 1_000_000)), "{torn}");
        }
    }

    #[test]
    fn spans_that_are_not_just_the_whole_say_nothing() {
        for spans in [
            &[(0, 10, 11)][..],
            &[(0, 9, 0)],
            &[(0, 11, 0)],
            &[(1, 10, 0)],
            &[(0, 5, 0), (6, 10, 0)],
            &[(0, 6, 0), (5, 10, 0)],
            &[(5, 10, 0), (0, 5, 0)],
            &[(0, 10, 0), (10, 10, 0)],
        ] {
            let spans = spans.iter();
            let span = |&(start, end, done)| Span { start, end, done };
            let stamp = Stamp {
                spans: spans.map(span).collect(),
                ..stamp(Some(10))
            };
            assert_eq!(Stamp::parse(&stamp.to_bytes()), None, "{stamp:?}");
        }
        let mut unknown = divided();
        unknown.length = None;
        assert_eq!(Stamp::parse(&unknown.to_bytes()), None);
    }

    #[test]
    fn a_torn_one_says_nothing() {
        for stamp in [stamp(Some(1 << 40)), divided()] {
            let bytes = stamp.to_bytes();
            for end in 0..bytes.len() {
                assert_eq!(Stamp::parse(&bytes[..end]), None, "{end}");
            }
        }
    }

    #[test]
    fn another_version_says_nothing() {
        let mut bytes = stamp(None).to_bytes();
        bytes[15] = b'2';
        assert_eq!(Stamp::parse(&bytes), None);
    }
}
