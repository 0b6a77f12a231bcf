//! A response's body as its sink sees it.

use std::fmt;
use std::io::{self, Read};

use http::{HeaderMap, StatusCode};
use url::Url;

use crate::digest::Check;
use crate::fault::{ErrorKind, Fault};
use crate::outcome::{Head, Report};

/// A response whose body comes as it is read, on the thread that reads it.
///
/// The host's token is held while this lives. A read fails if the connection is cut before the
/// body is whole, if nothing comes for the idle time limit, if the body grows larger than
/// allowed, or if the job is cancelled; give the error on with `?`, and the outcome will be of
/// the right [`ErrorKind`]. `Ok(0)` is the end of a body that is whole as far as its framing
/// can tell.
///
/// Where a cut body can be asked for from where it broke off, a read does that, at once, and the
/// caller sees no seam. Otherwise the read fails, and if there is another attempt
/// ([`RetryPolicy`](crate::RetryPolicy)) its body [`is_restart`](Self::is_restart).
///
/// A closure that does not read to the end is not told whether the body was whole. What is left
/// is read where it is little, so that the connection can be used again; otherwise the
/// connection is closed.
pub struct Body<'a> {
    head: &'a Head,
    report: &'a Report,
    reader: &'a mut dyn Read,
    limit: u64,
    taken: u64,
    /// Its length, where the response is a part, and the sink that asked for it makes it whole.
    whole: Option<u64>,
    /// Until the end.
    check: Option<Check>,
}

impl<'a> Body<'a> {
    pub(crate) fn new(
        head: &'a Head,
        report: &'a Report,
        reader: &'a mut dyn Read,
        limit: u64,
        kept: u64,
        check: Option<Check>,
    ) -> Self {
        Self {
            head,
            report,
            reader,
            limit,
            taken: kept,
            whole: None,
            check,
        }
    }

    /// It is of this length, be the response only its first part.
    pub(crate) fn of_length(self, whole: Option<u64>) -> Self {
        Self { whole, ..self }
    }

    /// The same, with nothing to read, as if the whole came: for those who judge it by what it is.
    pub(crate) fn as_whole<'b>(&'b self, nothing: &'b mut io::Empty) -> Body<'b> {
        let length = self.content_length();
        let whole = length.map(|length| self.taken.saturating_add(length));
        Body::new(self.head, self.report, nothing, self.limit, 0, None).of_length(whole)
    }

    pub(crate) fn is_first_part(&self) -> bool {
        self.whole.is_some()
    }

    /// The URL that answered, after redirects, without user name and password. It may have other
    /// secrets: see [`shown_url`](Self::shown_url).
    #[must_use]
    pub fn url(&self) -> &'a Url {
        self.head.url(self.report)
    }

    /// The URL that answered, in the form in which it may be shown: see [`Report::shown`].
    #[must_use]
    pub fn shown_url(&self) -> String {
        self.report.shown(self.url())
    }

    /// The response's status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.head.status
    }

    /// The response's headers.
    #[must_use]
    pub fn headers(&self) -> &'a HeaderMap {
        &self.head.headers
    }

    /// The body's length in bytes, if the response tells it.
    #[must_use]
    pub fn content_length(&self) -> Option<u64> {
        self.whole.or_else(|| self.head.content_length())
    }

    /// Which job it is, and how it went so far.
    #[must_use]
    pub fn report(&self) -> &'a Report {
        self.report
    }

    /// Whether this is the same request's body once more: an earlier attempt failed after it had
    /// been begun to be read, and could not go on where it broke off. What has been made of that
    /// is to be undone, or put aside; these bytes come from the start.
    #[must_use]
    pub fn is_restart(&self) -> bool {
        self.report.progress.has_been_read
    }

    /// How many bytes of it there are: those that its sink had before, and those that have been
    /// read.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Fails early where the response tells that its body is too large, or not what is expected.
    pub(crate) fn check_length(&self) -> Result<(), Fault> {
        let Some(length) = self.content_length() else {
            return Ok(());
        };
        let length = self.taken.saturating_add(length);
        if length > self.limit {
            return Err(self.too_large());
        }
        self.check
            .as_ref()
            .map_or(Ok(()), |check| check.length(length))
    }

    /// To be shown what there was of it before.
    pub(crate) fn check(&mut self) -> Option<&mut Check> {
        self.check.as_mut()
    }

    /// Its digest is computed once the other parts are there.
    pub(crate) fn check_later(&mut self) {
        self.check = None;
    }

    fn too_large(&self) -> Fault {
        too_large(self.limit)
    }
}

pub(crate) fn too_large(limit: u64) -> Fault {
    let detail = format!("the body is larger than the limit of {limit} bytes");
    Fault::new(ErrorKind::TooLarge, detail)
}

impl Read for Body<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let amount = self.reader.read(buffer)?;
        self.taken += amount as u64;
        if self.taken > self.limit {
            return Err(self.too_large().into_io());
        }
        if let Some(check) = &mut self.check {
            check.see(&buffer[..amount]);
            if amount == 0 && !buffer.is_empty() {
                let verdict = self.check.take().map(|check| check.verdict(self.taken));
                verdict.unwrap_or(Ok(())).map_err(Fault::into_io)?;
            }
        }
        Ok(amount)
    }
}

impl fmt::Debug for Body<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("status", &self.head.status)
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}
