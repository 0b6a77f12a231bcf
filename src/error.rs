//! What went wrong, with which URL, in which phase.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use http::StatusCode;

use crate::fault::{ErrorKind, Fault};
use crate::outcome::Report;

/// Why a job has no result.
///
/// One opaque type: what a program decides by is the [`kind`](Self::kind); what a person reads
/// is the `Display` form, one clause that names the URL (without its secrets, see
/// [`Report::shown`]), the phase, and, where there is one, a remedy. The underlying error
/// is the [`source`](StdError::source).
pub struct Error(Box<Inner>);

struct Inner {
    fault: Fault,
    /// Without secrets. Of a URL that cannot be parsed, as it was given.
    url: Option<String>,
    report: Option<Report>,
}

impl Error {
    pub(crate) fn new(fault: Fault, report: Report) -> Self {
        Self(Box::new(Inner {
            fault,
            url: Some(report.shown_url()),
            report: Some(report),
        }))
    }

    /// Of something that is not a job.
    pub(crate) fn bare(fault: Fault, url: Option<String>) -> Self {
        Self(Box::new(Inner {
            fault,
            url,
            report: None,
        }))
    }

    /// What kind of error it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.fault.kind
    }

    /// The URL that was asked for, without its secrets, as [`Report::shown`] does it. If it could
    /// not be parsed, what was given.
    ///
    /// Not the one that answered, which is what [`Fetched::url`](crate::Fetched::url) is: an error
    /// may come before any did. How far the redirects led is in [`Report::redirects`].
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        self.0.url.as_deref()
    }

    /// The status of the response, if the error is about one.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.0.fault.status
    }

    /// When the server says that it may be asked again, counted from its response
    /// (`Retry-After`, RFC 9110, section 10.2.3), if the error is about a status and it does.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.fault.retry_after
    }

    /// The request, its index and tag, the attempts and the timings. `None` where the error is
    /// not of a job, but of a permit or of building a downloader.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.0.report.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.url {
            // It may be anything, or nothing.
            Some(url) if self.kind() == ErrorKind::InvalidUrl => write!(f, "{url:?}: ")?,
            Some(url) => write!(f, "{url}: ")?,
            None => {}
        }
        write!(f, "{}", self.0.fault)?;
        match self.report().map_or(0, Report::attempts) {
            0 | 1 => Ok(()),
            attempts => write!(f, " (after {attempts} attempts)"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.fault.kind)
            .field("url", &self.0.url)
            .field("detail", &self.0.fault.detail)
            .field("source", &self.0.fault.source)
            .finish_non_exhaustive()
    }
}

/// For closures, which return what reading returns.
impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.fault.source()
    }
}
