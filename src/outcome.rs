//! What comes out of a job.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use url::Url;

use crate::deadline::Deadline;
use crate::http::framing::Framing;
use crate::http::redirect::Chain;
use crate::redact::{self, Secrets};
use crate::request::Request;
use crate::spares::Spares;

/// What every outcome carries, success or error: which job it is of, and how that went.
#[derive(Clone)]
pub struct Report {
    pub(crate) request: Request,
    pub(crate) index: u64,
    pub(crate) progress: Progress,
    /// What is hidden where a URL is shown.
    pub(crate) secrets: Secrets,
}

/// How many of its batch were let in before a request.
#[derive(Clone, Copy, Default)]
pub(crate) struct Before {
    /// That go by the same name; `None` where it needs none, for now.
    pub(crate) namesakes: Option<u32>,
    /// That are the same, where somebody counts.
    pub(crate) alike: u32,
}

/// How a job went so far.
#[derive(Clone, Default)]
pub(crate) struct Progress {
    pub(crate) attempts: u32,
    /// Of its pieces, besides the first of each. They do not count when it is tried again.
    pub(crate) retries_of_pieces: u32,
    /// The last of them is under way.
    pub(crate) is_in_attempt: bool,
    /// How often there was no file handle for it.
    pub(crate) starved: u32,
    pub(crate) timings: Timings,
    /// A body has been given to the sink, in an attempt that failed.
    pub(crate) has_been_read: bool,
    pub(crate) before: Before,
    /// What the sink had of it turned out to be of no use: it is not asked about again.
    pub(crate) is_afresh: bool,
    /// It does not come in pieces: that was tried.
    pub(crate) is_in_one_stream: bool,
    /// It follows the redirects of another: of a piece, those of the file's first.
    pub(crate) was_led: bool,
    pub(crate) resumed_from: Option<u64>,
    /// Between attempts, in sum.
    pub(crate) paused: Duration,
    pub(crate) deadline: Option<Deadline>,
    /// How many mirrors have been turned to, and how many attempts were made before the last.
    pub(crate) mirrors: usize,
    pub(crate) attempts_elsewhere: u32,
    /// Of the present attempt. The first of them may be a mirror.
    pub(crate) redirects: Vec<Url>,
}

impl Progress {
    /// A mirror is where the way begins.
    pub(crate) fn is_redirected(&self) -> bool {
        self.redirects.len() > usize::from(self.mirrors > 0)
    }
}

impl Report {
    /// What was asked for.
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Its place in the input, counted from 0.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// How often it was tried: 0 if it never got a turn. Of a file that came in pieces, each new try
    /// of a piece counts.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        let progress = &self.progress;
        progress.attempts.saturating_add(progress.retries_of_pieces)
    }

    /// Where the time went.
    #[must_use]
    pub fn timings(&self) -> &Timings {
        &self.progress.timings
    }

    /// The targets of the redirects that were followed, in order; the last is the final URL.
    ///
    /// As the servers gave them: with user name and password, if they have any. What may be
    /// shown of them, [`shown`](Self::shown) tells.
    #[must_use]
    pub fn redirects(&self) -> &[Url] {
        &self.progress.redirects
    }

    /// What may be shown of the URL that was asked for, as [`shown`](Self::shown) does it; if it
    /// could not be parsed, of what was given.
    #[must_use]
    pub fn shown_url(&self) -> String {
        self.request.shown(&self.secrets)
    }

    /// What may be shown of a URL, in the form in which this crate's errors show it: for who
    /// prints or logs URLs.
    ///
    /// User name and password are left out. A `…` stands in the place of the fragment and of the
    /// values of parameters that go by a name for secrets: those of signed URLs
    /// (`X-Amz-Signature`, `X-Goog-Signature`, `sig`), of OAuth (`access_token`, `code`), and
    /// what is called a token, a key, a password, a secret or a session;
    /// [`Builder::secret_parameter`](crate::Builder::secret_parameter) adds to them. All else is
    /// shown as it is: a secret that stands in the path under no name is not known for one.
    #[must_use]
    pub fn shown(&self, url: &Url) -> String {
        self.secrets.url(url)
    }

    /// How many of the body's bytes were there already, from an attempt or a run before, when the
    /// rest was asked for; the last time, if that was done several times. `None` where all came in
    /// one piece. Of a file that comes in pieces side by side
    /// ([`Request::segments`](crate::Request::segments)): how many there were of all of them
    /// together, when it was begun with these.
    #[must_use]
    pub fn resumed_from(&self) -> Option<u64> {
        self.progress.resumed_from
    }

    /// The mirror that is asked, if it has come to that.
    pub(crate) fn mirror(&self) -> Option<&Url> {
        let turned = self.progress.mirrors.checked_sub(1)?;
        self.request.mirrors().nth(turned)
    }

    pub(crate) fn mirrors_left(&self) -> usize {
        self.request.mirrors().skip(self.progress.mirrors).count()
    }

    /// How often the present URL was tried.
    pub(crate) fn attempts_here(&self) -> u32 {
        self.progress.attempts - self.progress.attempts_elsewhere
    }

    /// The way so far; `None` if there was no URL to begin with.
    pub(crate) fn chain(&self) -> Option<Chain<'_>> {
        Some(Chain {
            asked: self.request.url()?,
            followed: &self.progress.redirects,
        })
    }

    /// The URL of the present hop.
    pub(crate) fn current_url(&self) -> Option<&Url> {
        self.progress
            .redirects
            .last()
            .or_else(|| self.request.url())
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let redirects = self.progress.redirects.iter();
        let redirects: Vec<_> = redirects.map(redact::without_values).collect();
        f.debug_struct("Report")
            .field("request", &self.request)
            .field("index", &self.index)
            .field("attempts", &self.attempts())
            .field("timings", &self.progress.timings)
            .field("redirects", &redirects)
            .finish()
    }
}

/// How long a job spent in which phase, summed over its hops, attempts and pieces.
///
/// Phases of a connection that was there already are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    pub(crate) queued: Nanos,
    pub(crate) resolve: Nanos,
    pub(crate) connect: Nanos,
    pub(crate) tls: Nanos,
    pub(crate) first_byte: Nanos,
    pub(crate) body: Nanos,
}

/// Half the size of a `Duration`, and enough for five hundred years.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Nanos(u64);

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Duration::from(*self).fmt(f)
    }
}

impl std::ops::AddAssign<Duration> for Nanos {
    fn add_assign(&mut self, more: Duration) {
        let more = u64::try_from(more.as_nanos()).unwrap_or(u64::MAX);
        self.0 = self.0.saturating_add(more);
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        Self::from_nanos(nanos.0)
    }
}

impl std::ops::AddAssign for Timings {
    fn add_assign(&mut self, more: Self) {
        let Self {
            queued,
            resolve,
            connect,
            tls,
            first_byte,
            body,
        } = more;
        self.queued += queued.into();
        self.resolve += resolve.into();
        self.connect += connect.into();
        self.tls += tls.into();
        self.first_byte += first_byte.into();
        self.body += body.into();
    }
}

impl Timings {
    /// Waiting for a worker and for tokens.
    #[must_use]
    pub fn queued(&self) -> Duration {
        self.queued.into()
    }

    /// Looking the host's name up.
    #[must_use]
    pub fn resolve(&self) -> Duration {
        self.resolve.into()
    }

    /// Making the TCP connection.
    #[must_use]
    pub fn connect(&self) -> Duration {
        self.connect.into()
    }

    /// The TLS handshake.
    #[must_use]
    pub fn tls(&self) -> Duration {
        self.tls.into()
    }

    /// From the request sent to the first byte of the response, or until it was given up.
    #[must_use]
    pub fn first_byte(&self) -> Duration {
        self.first_byte.into()
    }

    /// From the response's header to the last byte of its body, the sink's time included.
    #[must_use]
    pub fn body(&self) -> Duration {
        self.body.into()
    }
}

/// The head of a response.
#[derive(Debug)]
pub(crate) struct Head {
    /// The URL that answered, where the one that was asked has user name or password.
    pub(crate) bare_url: Option<Box<Url>>,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) framing: Framing,
}

impl Head {
    /// The body's length in bytes, if the response tells it.
    pub(crate) fn content_length(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(length) => Some(length),
            Framing::Marked | Framing::UntilClose => None,
        }
    }

    /// Its end is marked by more than the connection's.
    pub(crate) fn is_length_known(&self) -> bool {
        self.framing != Framing::UntilClose
    }

    pub(crate) fn url<'a>(&'a self, report: &'a Report) -> &'a Url {
        let bare = self.bare_url.as_deref().or_else(|| report.current_url());
        bare.expect("a URL that was fetched")
    }
}

/// A response with its body in memory.
pub struct Fetched {
    pub(crate) report: Report,
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    pub(crate) spares: Arc<Spares>,
}

/// A response whose body is in the caller's buffer: see
/// [`Downloader::fetch_into`](crate::Downloader::fetch_into).
pub struct Received {
    pub(crate) report: Report,
    pub(crate) head: Head,
    pub(crate) bytes: u64,
}

/// A response whose body is in a file.
pub struct Saved {
    pub(crate) report: Report,
    /// `None` where nobody was asked.
    pub(crate) head: Option<Head>,
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) was_present: bool,
}

impl Fetched {
    /// The body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The body, to keep.
    #[must_use]
    pub fn into_body(self) -> Vec<u8> {
        self.body
    }

    /// Done with it: its buffer serves for another body of the same batch.
    ///
    /// If you read millions of small bodies, this saves the allocation of each, which is one of some thirty that
    /// a request makes. A batch keeps at most 64 buffers, of at most 1 MiB each.
    ///
    /// ```no_run
    /// # let urls = ["http://127.0.0.1/"];
    /// for page in fetchpool::Downloader::new().fetch_all(urls) {
    ///     let page = page?;
    ///     println!("{}", page.body().len());
    ///     page.recycle();
    /// }
    /// # Ok::<(), fetchpool::Error>(())
    /// ```
    pub fn recycle(self) {
        self.spares.give_back(self.body);
    }

    /// The body as UTF-8; what is not is replaced by U+FFFD.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }
}

impl Received {
    /// The body's size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Saved {
    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// It stood there before, and was left as it was: see [`OnExist`](crate::OnExist).
    #[must_use]
    pub fn was_present(&self) -> bool {
        self.was_present
    }

    /// The URL that answered, after redirects, without user name and password; the one that was
    /// asked for, where no server was asked. It may have other secrets: see
    /// [`shown_url`](Self::shown_url).
    #[must_use]
    pub fn url(&self) -> &Url {
        match &self.head {
            Some(head) => head.url(&self.report),
            None => self
                .report
                .current_url()
                .expect("checked when it was let in"),
        }
    }

    /// The same URL in the form in which it may be shown: see [`Report::shown`].
    #[must_use]
    pub fn shown_url(&self) -> String {
        self.report.shown(self.url())
    }

    /// The response's status: 200 as a rule, 206 where only the rest was fetched or where it came in
    /// pieces, 304 where there
    /// was nothing to fetch. `None` where no server was asked.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.head.as_ref().map(|head| head.status)
    }

    /// The response's headers. `None` where no server was asked.
    #[must_use]
    pub fn headers(&self) -> Option<&HeaderMap> {
        self.head.as_ref().map(|head| &head.headers)
    }

    /// Whether the response told the length of the body, or marked its end, and that is what
    /// arrived; `true` for what stood there before. `false` for a body that ended with the connection
    /// (RFC 9112, section 6.3, item 8): nobody can tell whether it is whole.
    #[must_use]
    pub fn length_verified(&self) -> bool {
        self.was_present || self.head.as_ref().is_none_or(Head::is_length_known)
    }

    /// Which job it was, and how it went.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }
}

macro_rules! what_every_response_tells {
    ($type:ty) => {
        impl $type {
            /// The URL that answered, after redirects, without user name and password. It may have
            /// other secrets: see [`shown_url`](Self::shown_url). The one that was asked for, as
            /// [`Error::url`](crate::Error::url) is, is in the report's
            /// [`request`](Report::request).
            #[must_use]
            pub fn url(&self) -> &Url {
                self.head.url(&self.report)
            }

            /// The URL that answered, in the form in which it may be shown: see
            /// [`Report::shown`].
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
            pub fn headers(&self) -> &HeaderMap {
                &self.head.headers
            }

            /// Whether the response told the length of its body, or marked its end, and that is
            /// what arrived. `false` for a body that ended with the connection (RFC 9112,
            /// section 6.3, item 8): nobody can tell whether it is whole.
            #[must_use]
            pub fn length_verified(&self) -> bool {
                self.head.is_length_known()
            }

            /// Which job it was, and how it went.
            #[must_use]
            pub fn report(&self) -> &Report {
                &self.report
            }
        }
    };
}

what_every_response_tells!(Fetched);
what_every_response_tells!(Received);

impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetched")
            .field("report", &self.report)
            .field("status", &self.head.status)
            .field("bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Received")
            .field("report", &self.report)
            .field("status", &self.head.status)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Saved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saved")
            .field("report", &self.report)
            .field("status", &self.status())
            .field("path", &self.path)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
