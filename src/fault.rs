//! What can go wrong, before it is known with which job.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::time::Duration;

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
    /// The proxy refuses. There are none yet.
    Proxy,
    /// The TLS handshake fails, or the certificate is not trusted.
    Tls,
    /// A limit of time was reached: of a phase, of silence, of the lowest speed, of a request, of a
    /// batch.
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
    /// The body is not what was expected: see [`Request::expect_digest`](crate::Request::expect_digest).
    Digest,
    /// A file could not be written or read: a full disk, a path that is taken
    /// ([`OnExist::Error`](crate::OnExist::Error)), a journal in use. Or the caller's closure failed.
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
    /// Another attempt may end otherwise.
    pub(crate) is_transient: bool,
    pub(crate) stage: Stage,
    /// It is an error of the caller's own code: nothing is done about it.
    pub(crate) is_the_callers: bool,
    /// When the server says that it may be asked again.
    pub(crate) retry_after: Option<Duration>,
}

/// How far it had come with the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nowhere near it, or all was said.
    #[default]
    Elsewhere,
    /// No connection was had.
    Connecting,
    /// It was asked, and is perhaps still at work on the answer.
    Asked,
}

impl Fault {
    pub(crate) fn new(kind: ErrorKind, detail: impl Into<Cow<'static, str>>) -> Self {
        use ErrorKind::{Connect, Timeout, Truncated};
        Self {
            kind,
            detail: detail.into(),
            status: None,
            source: None,
            is_transient: matches!(kind, Connect | Timeout | Truncated),
            stage: Stage::Elsewhere,
            is_the_callers: false,
            retry_after: None,
        }
    }

    /// Another attempt would end as this one.
    pub(crate) fn lasting(self) -> Self {
        Self {
            is_transient: false,
            ..self
        }
    }

    pub(crate) fn passing(self) -> Self {
        Self {
            is_transient: true,
            ..self
        }
    }

    /// What else there is to say.
    pub(crate) fn and(mut self, more: fmt::Arguments<'_>) -> Self {
        self.detail = format!("{}; {more}", self.detail).into();
        self
    }

    pub(crate) fn while_at(self, stage: Stage) -> Self {
        Self { stage, ..self }
    }

    /// There are no file handles left, in the process or in the system.
    pub(crate) fn is_out_of_handles(&self) -> bool {
        if self.is_the_callers {
            return false;
        }
        let mut cause = self.source();
        while let Some(error) = cause {
            let code = error.downcast_ref::<io::Error>();
            if code
                .and_then(io::Error::raw_os_error)
                .is_some_and(out_of_handles)
            {
                return true;
            }
            cause = error.source();
        }
        false
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

/// `EMFILE` and `ENFILE`.
#[cfg(unix)]
fn out_of_handles(code: i32) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE]
        .map(Errno::raw_os_error)
        .contains(&code)
}

/// `WSAEMFILE` and `ERROR_TOO_MANY_OPEN_FILES`.
#[cfg(not(unix))]
fn out_of_handles(code: i32) -> bool {
    [10_024, 4].contains(&code)
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
