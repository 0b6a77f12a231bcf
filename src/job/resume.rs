//! A body that is cut goes on where it broke off, if the server can do that.

use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};

use http::StatusCode;
use http::header::CONTENT_ENCODING;

use super::running::{ask, refusal, sent_headers};
use super::{Course, Job, panicked};
use crate::fault::{ErrorKind, Fault};
use crate::http::{Beginning, Reader, Response, strong_validator};
use crate::outcome::{Head, Report, Timings};
use crate::schedule::Turn;
use crate::sink::Kept;

/// Gives a body to who reads it, with its rest where it is cut on the way.
pub(crate) fn read_body<T>(
    course: &dyn Course,
    turn: &Turn<'_, Job>,
    response: Response,
    kept: Kept,
    report: &mut Report,
    read: impl FnOnce(&mut dyn Read, &Head, &Report) -> Result<T, Fault>,
) -> (Head, Result<T, Fault>) {
    let Response { head, body } = response;
    let mut source = Resuming {
        course,
        turn,
        report,
        head: &head,
        reader: Some(body),
        length: kept.length,
        taken: kept.bytes,
        made: 0,
        resumed_from: Some(kept.bytes).filter(|&bytes| bytes > 0),
        broken: None,
    };
    let read = catch_unwind(AssertUnwindSafe(|| {
        let part = read(&mut source, &head, report)?;
        source.drain();
        Ok(part)
    }));
    let Resuming {
        made, resumed_from, ..
    } = source;
    // What is left of the body, and with it the connection, goes before the token.
    drop(source);
    report.progress.attempts += made;
    report.progress.resumed_from = resumed_from;
    report.progress.has_been_read = true;
    (head, read.unwrap_or_else(|panic| Err(panicked(panic))))
}

/// A body that is asked for again, from where it broke off: at once, as nobody else can use the
/// worker while the sink waits for the rest.
struct Resuming<'a> {
    course: &'a dyn Course,
    turn: &'a Turn<'a, Job>,
    report: &'a Report,
    /// Of the response whose rest is wanted.
    head: &'a Head,
    /// `None` while the rest is asked for: its connection goes first.
    reader: Option<Reader>,
    /// The length of the whole, once a part has told it.
    length: Option<u64>,
    /// What the sink had and has been given.
    taken: u64,
    /// How many times the rest was asked for.
    made: u32,
    /// Where it went on the last time.
    resumed_from: Option<u64>,
    /// It failed: who reads on gets nothing more, and no end either.
    broken: Option<ErrorKind>,
}

impl Resuming<'_> {
    fn drain(&mut self) {
        if let (Some(reader), None) = (&mut self.reader, self.broken) {
            reader.drain();
        }
    }

    /// What the rest has to belong to, if there is something certain.
    fn beginning(&self) -> Option<Beginning<'_>> {
        // The whole was asked for, or its rest by the sink: else its parts are the caller's affair.
        if self.head.status != StatusCode::OK && self.length.is_none() {
            return None;
        }
        let headers = &self.head.headers;
        Some(Beginning {
            bytes: self.taken,
            etag: strong_validator(headers)?,
            coding: headers.get(CONTENT_ENCODING),
            length: self.length.or_else(|| self.head.content_length()),
        })
    }

    /// Asks for the rest. `None` where what comes is not certain to be that, or nothing is asked.
    fn rest(&mut self) -> Result<Option<Reader>, Fault> {
        let rules = self.course.rules();
        let attempts = self.report.attempts_here() + self.made;
        if rules.retries.left(attempts) == 0 || !self.turn.is_open() {
            return Ok(None);
        }
        let mut headers = sent_headers(self.report);
        let Some(beginning) = self.beginning() else {
            return Ok(None);
        };
        beginning.ask_for_rest(&mut headers);
        self.made += 1;
        self.reader = None;
        let ask = ask(self.course, self.turn, self.report, &headers);
        let host = self.turn.resident().get().expect("it has just answered");
        let response = rules.client.get(host, &ask, &mut Timings::default())?;
        // As any other: it may say that the host is not to be asked for a while.
        let refused = refusal(&response.head).filter(|fault| fault.is_transient);
        if let Some(fault) = refused.filter(|_| rules.status_is_error) {
            return Err(fault);
        }
        let length = self
            .beginning()
            .and_then(|beginning| beginning.length_with(&response.head));
        if length.is_some() {
            self.length = length;
            self.resumed_from = Some(self.taken);
        }
        Ok(length.map(|_| response.body))
    }

    fn read_on(&mut self, buffer: &mut [u8]) -> Result<usize, Fault> {
        let Some(reader) = &mut self.reader else {
            return Err(Fault::new(ErrorKind::Truncated, "the body broke off"));
        };
        // Of a part no more than belongs to the whole.
        let left = self.length.map(|length| length - self.taken);
        let room = left.map_or(buffer.len(), |left| {
            buffer
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX))
        });
        let mut beyond = [0];
        let into = match room {
            0 => &mut beyond[..],
            room => &mut buffer[..room],
        };
        let amount = reader
            .read(into)
            .map_err(|error| Fault::from_io(error, "reading the body failed"))?;
        match (amount, left) {
            (0, Some(1..)) => Err(Fault::new(
                ErrorKind::Truncated,
                "the part that came is shorter than the rest of the body",
            )),
            (1.., Some(0)) => Err(Fault::new(
                ErrorKind::Protocol,
                "the part that came is longer than the rest of the body",
            )),
            _ => {
                self.taken += amount as u64;
                Ok(amount)
            }
        }
    }

    fn read_or_resume(&mut self, buffer: &mut [u8]) -> Result<usize, Fault> {
        loop {
            let fault = match self.read_on(buffer) {
                Ok(amount) => return Ok(amount),
                Err(fault) => fault,
            };
            // A stalled server is given a rest, and an attempt of its own.
            let is_cut = fault.kind == ErrorKind::Truncated && self.taken > 0;
            match if is_cut { self.rest()? } else { None } {
                Some(rest) => self.reader = Some(rest),
                None => return Err(fault),
            }
        }
    }
}

impl Read for Resuming<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if let Some(kind) = self.broken {
            let detail = "the body was read on after it had failed";
            return Err(Fault::new(kind, detail).into_io());
        }
        self.read_or_resume(buffer).map_err(|fault| {
            self.broken = Some(fault.kind);
            fault.into_io()
        })
    }
}
