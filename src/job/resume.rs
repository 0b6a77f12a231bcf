//! A body that is cut goes on where it broke off, if the server can do that.

use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use http::header::{CONTENT_RANGE, ETAG, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::running::sent_headers;
use super::{Course, Job, panicked};
use crate::deadline::Deadline;
use crate::fault::{ErrorKind, Fault};
use crate::http::{Ask, Client, ContentRange, Host, Reader, Response};
use crate::outcome::{Head, Report, Timings};
use crate::schedule::Turn;

/// Gives a body to who reads it, with its rest where it is cut on the way.
pub(crate) fn read_body<T>(
    course: &dyn Course,
    turn: &Turn<'_, Job>,
    response: Response,
    report: &mut Report,
    read: impl FnOnce(&mut dyn Read, &Head, &Report) -> Result<T, Fault>,
) -> (Head, Result<T, Fault>) {
    let Response { head, body } = response;
    let rules = course.rules();
    let host = turn.resident().get().expect("it has just answered");
    let headers = sent_headers(report);
    let mut made = 0;
    let read = {
        let report = &*report;
        let ask = Ask {
            url: report.current_url().expect("it has just answered"),
            headers: &headers,
            has_left: report
                .chain()
                .is_some_and(|chain| chain.has_left_its_origin()),
            post: turn.post(),
            deadline: Deadline::first(report.progress.deadline, course.deadline()),
        };
        let left = rules.retries.left(report.progress.attempts);
        let mut source = Resuming::new((&rules.client, host), ask, &head, body, left);
        let read = catch_unwind(AssertUnwindSafe(|| {
            let part = read(&mut source, &head, report)?;
            source.drain();
            Ok(part)
        }));
        made += source.made;
        read.unwrap_or_else(|panic| Err(panicked(panic)))
    };
    report.progress.attempts += made;
    report.progress.has_been_read = true;
    (head, read)
}

/// A body that is asked for again, from where it broke off: at once, as nobody else can use the
/// worker while the sink waits for the rest.
pub(super) struct Resuming<'a> {
    client: &'a Client,
    host: &'a Arc<Host>,
    ask: Ask<'a>,
    reader: Reader,
    /// What the rest has to belong to; `None` if it cannot be asked for.
    validator: Option<&'a HeaderValue>,
    /// The length of the whole, once it is known.
    length: Option<u64>,
    taken: u64,
    /// How many more times it may be asked for.
    left: u32,
    /// How many times it was.
    pub(super) made: u32,
}

impl<'a> Resuming<'a> {
    pub(super) fn new(
        (client, host): (&'a Client, &'a Arc<Host>),
        ask: Ask<'a>,
        head: &'a Head,
        reader: Reader,
        left: u32,
    ) -> Self {
        // The whole was asked for and came: else its parts are the caller's affair.
        let is_whole = head.status == StatusCode::OK;
        Self {
            client,
            host,
            ask,
            reader,
            validator: head
                .headers
                .get(ETAG)
                .filter(|etag| is_whole && is_strong(etag)),
            length: head.content_length(),
            taken: 0,
            left,
            made: 0,
        }
    }

    pub(super) fn drain(&mut self) {
        self.reader.drain();
    }

    /// Asks for the rest. `None` where what comes is not certain to be that.
    fn rest(&mut self) -> Option<Reader> {
        let validator = self.validator?;
        self.left = self.left.checked_sub(1)?;
        self.made += 1;
        let mut headers = self.ask.headers.clone();
        let range = format!("bytes={}-", self.taken);
        headers.insert(RANGE, HeaderValue::try_from(range).expect("visible ASCII"));
        headers.insert(IF_RANGE, validator.clone());
        let ask = Ask {
            headers: &headers,
            ..self.ask
        };
        let response = self.client.get(self.host, &ask, &mut Timings::default());
        let response = response.ok()?;
        if response.head.status != StatusCode::PARTIAL_CONTENT {
            return None;
        }
        let length = self.length_of(&response.head.headers)?;
        self.length = Some(length);
        Some(response.body)
    }

    /// The length of the whole, if this is the rest of it.
    fn length_of(&self, headers: &HeaderMap) -> Option<u64> {
        let is_other = |etag| Some(etag) != self.validator;
        if headers.get(ETAG).is_some_and(is_other) {
            return None;
        }
        match ContentRange::parse(headers.get(CONTENT_RANGE)?)? {
            ContentRange::Part { start, end, total } => {
                let length = total.or(self.length).unwrap_or(end + 1);
                let fits = start == self.taken && end < length;
                let is_same = self.length.is_none_or(|known| known == length);
                (fits && is_same).then_some(length)
            }
            ContentRange::Unsatisfied { .. } => None,
        }
    }

    fn read_on(&mut self, buffer: &mut [u8]) -> Result<usize, Fault> {
        let doing = "reading the body failed";
        let amount = self
            .reader
            .read(buffer)
            .map_err(|error| Fault::from_io(error, doing))?;
        self.taken += amount as u64;
        match self.length {
            Some(length) if amount == 0 && self.taken < length => {
                let detail = "the part that came is shorter than the rest of the body";
                Err(Fault::new(ErrorKind::Truncated, detail))
            }
            Some(length) if self.taken > length => {
                let detail = "more came than the body is long";
                Err(Fault::new(ErrorKind::Protocol, detail))
            }
            _ => Ok(amount),
        }
    }
}

/// RFC 9110, section 8.8.1: only then are the bytes the same.
fn is_strong(etag: &HeaderValue) -> bool {
    let bytes = etag.as_bytes();
    bytes.len() >= 2 && bytes.starts_with(b"\"") && bytes.ends_with(b"\"")
}

impl Read for Resuming<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let fault = match self.read_on(buffer) {
                Ok(amount) => return Ok(amount),
                Err(fault) => fault,
            };
            // A stalled server is given a rest, and an attempt of its own.
            let is_cut = fault.kind == ErrorKind::Truncated && self.taken > 0;
            match if is_cut { self.rest() } else { None } {
                Some(rest) => self.reader = rest,
                None => return Err(fault.into_io()),
            }
        }
    }
}
