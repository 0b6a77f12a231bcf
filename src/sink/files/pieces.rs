//! A file that comes in pieces, side by side.
//!
//! Its part is divided into *spans*, of which each has a job of its own that writes it in its place
//! and notes, after the bytes, how far it has come. So nothing here is locked: a span is one job's,
//! and who ends last has the part for himself.

use std::io::Read;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderValue};

use super::Target;
use super::full::Full;
use super::part::{PIECE, Part, fill};
use super::resource::resource;
use super::stamp::{Record, Span, Stamp};
use crate::fault::{ErrorKind, Fault};
use crate::http::Stretch;
use crate::outcome::{Head, Report};

/// What is asked for before it is known how long the file is. Most files are no longer than that,
/// and cost one request, as ever; to a large one it is next to nothing.
pub(crate) const FIRST: u64 = 1024 * 1024;

/// A piece that is over in less than a second is not worth its request.
const LEAST: NonZeroU64 = NonZeroU64::new(4 * 1024 * 1024).expect("not zero");

/// Beyond that a server takes it for an attack, and its stamp, with a line for each, is not small.
const MOST: usize = 64;

/// A part whose spans come side by side.
#[derive(Debug)]
pub(crate) struct Divided {
    part: Part,
    /// Where it is to stand, if there was a response to tell.
    target: Option<Target>,
    etag: HeaderValue,
    /// The hash of the URL whose tag it is.
    from: Option<String>,
    /// Of the whole.
    length: u64,
    spans: Vec<Stretched>,
    record: Option<Record>,
    /// How much of it there was when these jobs began.
    had: u64,
    full: Arc<Full>,
}

/// A span that is at work.
#[derive(Debug)]
struct Stretched {
    start: u64,
    end: u64,
    /// Written by the one job that it belongs to.
    done: AtomicU64,
}

impl Divided {
    /// Of a part with this stamp, if it has one, that has been begun.
    pub(super) fn new(
        part: Part,
        etag: HeaderValue,
        from: Option<String>,
        spans: &[Span],
        full: Arc<Full>,
    ) -> Result<Self, Fault> {
        let stretched = |span: &Span| Stretched {
            start: span.start,
            end: span.end,
            done: AtomicU64::new(span.done),
        };
        Ok(Self {
            record: part.record()?,
            target: None,
            etag,
            from,
            length: spans.last().map_or(0, |last| last.end),
            spans: spans.iter().map(stretched).collect(),
            had: part.bytes(),
            part,
            full,
        })
    }

    /// Of a part that an earlier attempt or run has left divided.
    pub(super) fn found(part: Part, full: Arc<Full>) -> Result<Self, Fault> {
        let etag = part.beginning().etag.clone();
        let from = Some(part.from().to_owned());
        let spans = part.spans().unwrap_or_default().to_vec();
        Self::new(part, etag, from, &spans, full)
    }

    pub(super) fn to(self, target: Target) -> Self {
        let target = Some(target);
        Self { target, ..self }
    }

    /// The spans that are not all there.
    pub(crate) fn missing(&self) -> Vec<usize> {
        let spans = self.spans.iter().enumerate();
        let missing = spans.filter(|(_, span)| span.next() < span.end);
        missing.map(|(number, _)| number).collect()
    }

    pub(crate) fn had(&self) -> u64 {
        self.had
    }

    /// Has the request ask for what is missing of this span.
    pub(crate) fn ask(&self, span: usize, headers: &mut HeaderMap) {
        self.stretch(span).ask(headers);
    }

    /// Whether the response is just that, and not of where redirects lead by now.
    pub(crate) fn is_it(&self, span: usize, head: &Head, report: &Report) -> bool {
        self.from == resource(report) && self.stretch(span).is_in(head)
    }

    /// See [`Part::complete`].
    pub(crate) fn complete(&self, headers: &mut HeaderMap) {
        self.part.complete(headers);
    }

    fn stretch(&self, span: usize) -> Stretch<'_> {
        let span = &self.spans[span];
        Stretch {
            start: span.next(),
            end: span.end,
            etag: &self.etag,
            length: self.length,
        }
    }

    /// Writes what comes. Where that breaks off, what has come is in the file, and noted. `false` if
    /// there is more than the span has room for: it is something else.
    pub(crate) fn take(&self, span: usize, body: &mut dyn Read) -> Result<bool, Fault> {
        let number = span;
        let span = &self.spans[number];
        let mut piece = vec![0; room(span.left())];
        while span.left() > 0 {
            let (filled, ended) = fill(body, &mut piece[..room(span.left())]);
            self.put(number, &piece[..filled])?;
            match ended {
                Ok(false) => {}
                Ok(true) => return Err(short()),
                Err(error) => return Err(Fault::from_io(error, "reading the body failed")),
            }
        }
        // To the end, so that the connection can be used again. All is there, whatever that says.
        Ok(body.read(&mut [0]).unwrap_or(0) == 0)
    }

    fn put(&self, number: usize, piece: &[u8]) -> Result<(), Fault> {
        let span = &self.spans[number];
        let written = self.part.write_at(piece, span.next());
        written.inspect_err(|fault| self.full.note(fault, self.part.path()))?;
        let done = span.done.load(Ordering::Relaxed) + piece.len() as u64;
        span.done.store(done, Ordering::Relaxed);
        match &self.record {
            Some(record) => self.part.note(record, number, done),
            None => Ok(()),
        }
    }

    /// What has come is for another attempt, or run, to go on with.
    pub(crate) fn leave(self) {
        drop(self.undivided());
    }

    /// It is not to be gone on with.
    pub(crate) fn discard(self) {
        self.undivided().0.discard();
    }

    /// A part like any other.
    pub(super) fn undivided(mut self) -> (Part, Option<Target>) {
        let spans = self.spans.iter();
        let bytes = spans.map(|span| span.done.load(Ordering::Relaxed)).sum();
        self.part.has_come(bytes);
        (self.part, self.target)
    }
}

impl Stretched {
    /// The first byte that is missing.
    fn next(&self) -> u64 {
        self.start + self.done.load(Ordering::Relaxed)
    }

    fn left(&self) -> u64 {
        self.end - self.next()
    }
}

/// How a file of this length, more than [`FIRST`], is divided into so many pieces, or fewer.
pub(super) fn spans(length: u64, pieces: usize) -> Vec<Span> {
    let rest = length - FIRST;
    let pieces = (rest / LEAST).clamp(1, pieces.min(MOST) as u64);
    let each = rest / pieces;
    let span = |start, end| Span {
        start,
        end,
        done: 0,
    };
    let mut spans = vec![span(0, FIRST)];
    for piece in 1..pieces {
        let start = FIRST + (piece - 1) * each;
        spans.push(span(start, start + each));
    }
    spans.push(span(FIRST + (pieces - 1) * each, length));
    spans
}

impl Stamp {
    pub(super) fn divided_into(self, spans: &[Span]) -> Self {
        let spans = spans.to_vec();
        Self { spans, ..self }
    }
}

fn room(left: u64) -> usize {
    usize::try_from(left.min(PIECE)).expect("a small one")
}

fn short() -> Fault {
    let detail = "the part that came is shorter than what was asked for";
    Fault::new(ErrorKind::Truncated, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_divided_into_pieces_that_are_worth_it() {
        const MIB: u64 = 1024 * 1024;
        for (length, pieces, are) in [
            (FIRST + 1, 8, 1),
            (9 * MIB - 1, 8, 1),
            (9 * MIB, 8, 2),
            (9 * MIB, 1, 1),
            (1000 * MIB, 4, 4),
            (1000 * MIB + 3, 7, 7),
            (u64::MAX, usize::MAX, MOST),
        ] {
            let spans = spans(length, pieces);
            assert_eq!(spans.len(), 1 + are, "{length}");
            assert_eq!((spans[0].start, spans[0].end), (0, FIRST));
            assert_eq!(spans.last().unwrap().end, length);
            assert!(spans.windows(2).all(|two| two[0].end == two[1].start));
            let longest = spans[1..]
                .iter()
                .map(|span| span.end - span.start)
                .max()
                .unwrap();
            let shortest = spans[1..]
                .iter()
                .map(|span| span.end - span.start)
                .min()
                .unwrap();
            assert!(longest - shortest < are as u64 && (are == 1 || shortest >= 4 * MIB));
        }
    }
}
