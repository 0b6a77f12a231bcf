//! What went wrong, with which URL, in which phase.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::io;

use http::StatusCode;

use crate::outcome::Report;
use crate::request::redacted;

/// Why a job has no result.
///
/// One opaque type: what a program decides by is the [`kind`](Self::kind); what a person reads
/// is the `Display` form, one clause that names the URL (without user name and password), the
/// phase, and, where there is something to do, what. The underlying error is the
/// [`source`](StdError::source).
pub struct Error(Box<Inner>);

struct Inner {
    fault: Fault,
    /// Without secrets. Of a URL that cannot be parsed, as it was given.
    url: Option<String>,
    report: Option<Report>,
}

/// The kinds of errors. More may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The URL cannot be parsed, or is not `http` or `https`.
    InvalidUrl,
    /// The host's name cannot be resolved.
    Dns,
    /// No address of the host takes a connection.
    Connect,
    /// The proxy refuses.
    Proxy,
    /// The TLS handshake fails, or the certificate is not trusted.
    Tls,
    /// Nothing happened for too long.
    Timeout,
    /// The response's status is an error.
    Status,
    /// A redirect leads nowhere: too many, a bad `Location`, a scheme that is refused.
    Redirect,
    /// The connection ended before the response was whole.
    Truncated,
    /// What the server sent is not HTTP, or not an answer to what was asked.
    Protocol,
    /// The body is larger than allowed.
    TooLarge,
    /// The body is not what was expected.
    Digest,
    /// The caller's own code, or a file, failed.
    Io,
    /// The batch was cancelled or the downloader shut down.
    Cancelled,
    /// The caller's code panicked.
    Panicked,
}

impl ErrorKind {
    /// A short lower-case name for logs and machines, such as `too-large`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidUrl => "invalid-url",
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Proxy => "proxy",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Status => "status",
            Self::Redirect => "redirect",
            Self::Truncated => "truncated",
            Self::Protocol => "protocol",
            Self::TooLarge => "too-large",
            Self::Digest => "digest",
            Self::Io => "io",
            Self::Cancelled => "cancelled",
            Self::Panicked => "panicked",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Error {
    pub(crate) fn new(fault: Fault, report: Report) -> Self {
        let url = match report.request().url() {
            Some(url) => redacted(url),
            None => report.request().bad_input(),
        };
        Self(Box::new(Inner {
            fault,
            url: Some(url),
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

    /// The URL that was asked for, without user name and password. If it could not be parsed,
    /// what was given.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        self.0.url.as_deref()
    }

    /// The status of the response, if the error is about one.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.0.fault.status
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
        write!(f, "{}", self.0.fault)
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

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.fault.source()
    }
}

/// What went wrong, before it is known with which job.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: ErrorKind,
    detail: Cow<'static, str>,
    status: Option<StatusCode>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Fault {
    pub(crate) fn new(kind: ErrorKind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            status: None,
            source: None,
        }
    }

    /// `detail` says what was being done; the source, which is shown after it, what failed.
    pub(crate) fn with_source(
        kind: ErrorKind,
        detail: impl Into<Cow<'static, str>>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self {
            source: Some(source.into()),
            ..Self::new(kind, detail)
        }
    }

    pub(crate) fn status(status: StatusCode) -> Self {
        let reason = status.canonical_reason().unwrap_or("unknown status");
        Self {
            status: Some(status),
            ..Self::new(
                ErrorKind::Status,
                format!("the server answered {} {reason}", status.as_u16()),
            )
        }
    }

    pub(crate) fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "cancelled before it was done")
    }

    /// An error of the caller's code or of reading a body. One of our own that passed through
    /// the caller's code comes out as it went in.
    pub(crate) fn from_io(error: io::Error, doing: &'static str) -> Self {
        if error.get_ref().is_some_and(|inner| inner.is::<Self>()) {
            let inner = error.into_inner().expect("looked at above");
            return *inner.downcast().expect("looked at above");
        }
        Self::with_source(ErrorKind::Io, doing, error)
    }

    pub(crate) fn into_io(self) -> io::Error {
        let kind = match self.kind {
            ErrorKind::Timeout => io::ErrorKind::TimedOut,
            ErrorKind::Truncated => io::ErrorKind::UnexpectedEof,
            ErrorKind::Protocol => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, self)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl StdError for Fault {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
