//! What can go wrong, before it is known with which job.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::io;

use http::StatusCode;

/// The kinds of errors. More may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The URL cannot be parsed, or is not `http` or `https`.
    InvalidUrl,
    /// The host's name cannot be resolved.
    Dns,
    /// No address of the host takes a connection, or
    /// [`Builder::allow_address`](crate::Builder::allow_address) allows none of them.
    Connect,
    /// The proxy refuses.
    Proxy,
    /// The TLS handshake fails, or the certificate is not trusted.
    Tls,
    /// Nothing happened for too long.
    Timeout,
    /// The response's status is an error.
    Status,
    /// A redirect leads nowhere: too many, in a loop, a bad `Location`, a scheme that is refused,
    /// from https to http, or [`Builder::allow_redirect`](crate::Builder::allow_redirect) does
    /// not allow it.
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

/// What went wrong, before it is known with which job.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: ErrorKind,
    pub(crate) detail: Cow<'static, str>,
    pub(crate) status: Option<StatusCode>,
    pub(crate) source: Option<Box<dyn StdError + Send + Sync>>,
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
