//! What to fetch.

use std::any::Any;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use crate::digest::Digest;
use crate::fault::{ErrorKind, Fault};
use crate::redact::{self, Secrets};
use crate::schedule::{Key, MAX_KEYS, Priority};

/// What to fetch: a URL, and what is particular to it.
///
/// Everything that takes a request takes a URL in its place. The text of a URL is trimmed and
/// parsed as browsers do (spaces and non-ASCII characters are encoded, names are put into
/// IDNA form). What cannot be parsed, or is not `http` or `https`, makes a request that fails
/// by itself, with [`ErrorKind::InvalidUrl`], when its turn comes: the rest of its batch goes on.
///
/// ```
/// use fetchpool::{Priority, Request};
///
/// let request = Request::new(" https://example.com/a b ")
///     .priority(Priority::High)
///     .tag(7_u32);
/// assert_eq!(request.url().unwrap().as_str(), "https://example.com/a%20b");
/// assert_eq!(request.tag_ref::<u32>(), Some(&7));
/// ```
#[derive(Clone)]
pub struct Request {
    url: Result<Url, Box<BadUrl>>,
    /// Most requests are a URL and nothing else, and millions may wait.
    extras: Option<Box<Extras>>,
}

#[derive(Clone)]
struct BadUrl {
    /// Without user name and password, and without the values of the usual secret parameters.
    input: String,
    why: &'static str,
}

#[derive(Clone, Default)]
struct Extras {
    /// Boxed: an empty map is 96 bytes, and a list of millions may have a tag each and no header.
    headers: Option<Box<HeaderMap>>,
    priority: Priority,
    budgets: Vec<Key>,
    timeout: Option<Duration>,
    place: Option<Place>,
    length: Option<u64>,
    digests: Vec<Digest>,
    mirrors: Vec<Request>,
    /// `None` is one.
    segments: Option<NonZeroUsize>,
    tag: Option<Arc<dyn Any + Send + Sync>>,
}

/// Where the caller wants a file to stand.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// In the directory of its batch.
    Below(PathBuf),
    /// Just there.
    At(PathBuf),
}

impl Request {
    /// A request of what this URL names.
    #[must_use]
    pub fn new(url: impl AsRef<str>) -> Self {
        let input = url.as_ref().trim();
        let url = Url::parse(input).map_err(|error| why(input, error));
        Self::from_parsed(url.and_then(checked), input)
    }

    fn from_parsed(url: Result<Url, &'static str>, input: &str) -> Self {
        Self {
            url: url.map_err(|why| {
                Box::new(BadUrl {
                    input: shown_bad(input),
                    why,
                })
            }),
            extras: None,
        }
    }

    /// Adds a header. Where the downloader sets one of the same name on every request, this
    /// one takes its place. An `Authorization` takes the place of the URL's user name and
    /// password.
    ///
    /// A redirect to another origin (scheme, host and port) loses `Authorization`, `Cookie` and
    /// `Proxy-Authorization`, and each header of which a value is marked by
    /// [`HeaderValue::set_sensitive`], for itself and for all that follow it, be they back at the
    /// first origin (RFC 9110, section 15.4). It loses `Host` as well. All else goes along: mark
    /// what only the first origin may see.
    ///
    /// ```
    /// use fetchpool::{HeaderName, HeaderValue, Request};
    ///
    /// let mut key = HeaderValue::from_static("hunter2");
    /// key.set_sensitive(true);
    /// let request = Request::new("https://example.com/")
    ///     .header(HeaderName::from_static("x-api-key"), key);
    /// ```
    ///
    /// Those that announce a request's body (`Content-Length`, `Transfer-Encoding`, `Expect`)
    /// are left out, as there is none.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        let headers = self.extras().headers.get_or_insert_default();
        headers.append(name, value);
        self
    }

    /// Sets the priority. The default is [`Priority::Normal`].
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.extras().priority = priority;
        self
    }

    /// Has it need a token of one more budget besides its host's, such as an account's.
    ///
    /// # Panics
    /// At more than three.
    #[must_use]
    pub fn budget(mut self, key: Key) -> Self {
        let budgets = &mut self.extras().budgets;
        assert!(
            budgets.len() < MAX_KEYS - 1,
            "a request has at most {} budgets besides its host's",
            MAX_KEYS - 1
        );
        budgets.push(key);
        self
    }

    /// How long it may take in all: waiting for its turn, redirects, retries and their pauses, the
    /// body and what is made of it. The default is [`Builder::timeout`](crate::Builder::timeout).
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.extras().timeout = Some(limit);
        self
    }

    /// Names its file, where it is saved: a path relative to the directory.
    ///
    /// It is made safe: roots and `..` are left out, and each part is made a name that all systems
    /// take (`con` becomes `_con`, `.hidden` `_.hidden`, and `a?b` `a_b`). What has no name left, such
    /// as `../..`, is `index.html`. It is changed, never refused: where you want an error, check before.
    /// So it can be what others have written; [`save_to`](Self::save_to) takes a path as it
    /// is. The second of two requests of a batch that name one file gets `name (1).ext`.
    #[must_use]
    pub fn save_as(mut self, path: impl Into<PathBuf>) -> Self {
        self.extras().place = Some(Place::Below(path.into()));
        self
    }

    /// Says where its file goes, where it is saved: to just this path, which may be outside of the
    /// directory.
    #[must_use]
    pub fn save_to(mut self, path: impl Into<PathBuf>) -> Self {
        self.extras().place = Some(Place::At(path.into()));
        self
    }

    /// The body has to be of so many bytes, or it is an error of the kind
    /// [`Digest`](ErrorKind::Digest), before it is read where the server tells its length.
    #[must_use]
    pub fn expect_length(mut self, bytes: u64) -> Self {
        self.extras().length = Some(bytes);
        self
    }

    /// The body has to be of this digest, and of those of further calls, or it is an error of the
    /// kind [`Digest`](ErrorKind::Digest).
    ///
    /// It is computed as the bytes come, and known with the last of them: a file does not get its
    /// name then, and a closure's last read fails. Bodies of error statuses, where they are let through
    /// ([`Builder::status_as_error`](crate::Builder::status_as_error)), are not judged.
    ///
    /// With [`OnExist::SameOrBoth`], `Skip` and `Update`, a file that stands there and is of this digest
    /// is not fetched, and no server is asked where its name is known before. `Overwrite` and `KeepBoth`
    /// fetch it all the same; with `Error` it is an error.
    ///
    /// [`OnExist::SameOrBoth`]: crate::OnExist::SameOrBoth
    ///
    /// ```no_run
    /// use fetchpool::{Downloader, Request};
    ///
    /// let hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    /// let request = Request::new("https://example.com/empty").expect_digest(hash.parse()?);
    /// Downloader::new().fetch(request)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn expect_digest(mut self, digest: Digest) -> Self {
        self.extras().digests.push(digest);
        self
    }

    /// Names another URL of the same content, which is asked when all before it have failed: with a
    /// status, a digest that is not the one expected, a connection that cannot be had; after its last attempt
    /// where there are several. Each has its own attempts, and is asked under its own
    /// host's budget. The error is the last one's.
    ///
    /// A file keeps the name that the first URL gives it. A mirror of another origin gets no
    /// credentials, as after a redirect (see [`header`](Self::header)); those of its own URL it does.
    /// It stands in [`Report::redirects`](crate::Report::redirects) as the first step of the way.
    ///
    /// ```no_run
    /// use fetchpool::{Downloader, Request};
    ///
    /// let request = Request::new("https://example.com/big.iso")
    ///     .mirror("https://example.net/pub/big.iso")
    ///     .mirror("https://example.org/mirror/big.iso");
    /// for file in Downloader::new().save_all([request], "downloads") {
    ///     println!("{}", file?.url());
    /// }
    /// # Ok::<(), fetchpool::Error>(())
    /// ```
    #[must_use]
    pub fn mirror(mut self, url: impl AsRef<str>) -> Self {
        let mirror = Self::new(url);
        self.extras().mirrors.push(mirror);
        self
    }

    /// Has a large file come in up to so many pieces side by side, where it is saved. The default
    /// is 1, and elsewhere than in [`save_all`](crate::Downloader::save_all) this does nothing.
    ///
    /// It helps where one connection does not fill the line: where the way to the server is long,
    /// or the server slows each connection down. It is off by default because it is a larger share
    /// of the server than others get: each piece takes a token of its host's budget, and of this
    /// request's others, as a request of its own would, so no more of them run at once than those
    /// allow, and other files wait meanwhile. Many files at once fill a line just as well.
    ///
    /// The first MiB is asked for by itself. If the answer shows that the server can send parts
    /// (a `206` with a strong `ETag` and the length of the whole), and the file is larger, what is
    /// left is divided into pieces of 4 MiB or more, 64 at most. Each is asked for under the same
    /// tag, is written in its place, and is tried again by itself ([`RetryPolicy`]
    /// counts for each), from where it broke off. A server that sends something else after all, or
    /// another version of the file, is asked for the whole, in one piece.
    ///
    /// Two file handles are open for each file in pieces until all of these are there. What has come
    /// survives the process, as that of other files does, and the next run goes on
    /// with the pieces that were missing, whatever its request says about segments. The bytes do
    /// not come in their order: an [expected digest](Self::expect_digest) is computed from the
    /// file once they are all there, which reads it once more.
    ///
    /// [`RetryPolicy`]: crate::RetryPolicy
    #[must_use]
    pub fn segments(mut self, pieces: NonZeroUsize) -> Self {
        self.extras().segments = Some(pieces);
        self
    }

    /// Attaches something of the caller's, which comes back with the outcome, be it a success or
    /// an error, by way of [`Report::request`](crate::Report::request).
    ///
    /// ```
    /// use fetchpool::{Downloader, Report, Request};
    ///
    /// struct Line(usize);
    ///
    /// fn line(report: &Report) -> Option<usize> {
    ///     report.request().tag_ref::<Line>().map(|line| line.0)
    /// }
    ///
    /// let lines = ["nonsense", "ftp://example.com/"];
    /// let numbered = lines.iter().zip(1..);
    /// let requests = numbered.map(|(url, number)| Request::new(url).tag(Line(number)));
    /// for outcome in Downloader::new().fetch_all(requests) {
    ///     match outcome {
    ///         Ok(page) => println!("{:?}: {}", line(page.report()), page.shown_url()),
    ///         // Every error of a request has a report.
    ///         Err(error) => {
    ///             let number = error.report().and_then(line);
    ///             assert!(number.is_some());
    ///             println!("{number:?}: {error}");
    ///         }
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn tag(mut self, tag: impl Any + Send + Sync) -> Self {
        self.extras().tag = Some(Arc::new(tag));
        self
    }

    /// The URL; `None` if it could not be parsed.
    #[must_use]
    pub fn url(&self) -> Option<&Url> {
        self.url.as_ref().ok()
    }

    /// What [`tag`](Self::tag) attached, if it is of this type.
    #[must_use]
    pub fn tag_ref<T: Any>(&self) -> Option<&T> {
        self.extras.as_ref()?.tag.as_ref()?.downcast_ref()
    }

    pub(crate) fn headers(&self) -> Option<&HeaderMap> {
        self.extras.as_ref()?.headers.as_deref()
    }

    pub(crate) fn budgets(&self) -> &[Key] {
        self.extras.as_ref().map_or(&[], |extras| &extras.budgets)
    }

    pub(crate) fn its_priority(&self) -> Priority {
        self.extras
            .as_ref()
            .map_or_else(Priority::default, |extras| extras.priority)
    }

    pub(crate) fn its_timeout(&self) -> Option<Duration> {
        self.extras.as_ref()?.timeout
    }

    pub(crate) fn place(&self) -> Option<&Place> {
        self.extras.as_ref()?.place.as_ref()
    }

    /// Those of them that can be asked at all.
    pub(crate) fn mirrors(&self) -> impl Iterator<Item = &Url> {
        let mirrors = self
            .extras
            .as_ref()
            .map_or(&[][..], |extras| &extras.mirrors);
        mirrors.iter().filter_map(Self::url)
    }

    pub(crate) fn its_length(&self) -> Option<u64> {
        self.extras.as_ref()?.length
    }

    pub(crate) fn its_digests(&self) -> &[Digest] {
        self.extras.as_ref().map_or(&[], |extras| &extras.digests)
    }

    pub(crate) fn its_segments(&self) -> usize {
        let segments = self.extras.as_ref().and_then(|extras| extras.segments);
        segments.map_or(1, NonZeroUsize::get)
    }

    pub(crate) fn checked_url(&self) -> Result<&Url, Fault> {
        self.url
            .as_ref()
            .map_err(|bad| Fault::new(ErrorKind::InvalidUrl, bad.why))
    }

    /// The URL without secrets; what was given, if it cannot be parsed.
    pub(crate) fn shown(&self, secrets: &Secrets) -> String {
        match &self.url {
            Ok(url) => secrets.url(url),
            Err(bad) => secrets.text(&bad.input),
        }
    }

    fn extras(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = match &self.url {
            Ok(url) => redact::without_values(url),
            Err(bad) => redact::text_without_values(&bad.input),
        };
        // Not the headers: they may hold secrets.
        f.debug_struct("Request")
            .field("url", &format_args!("{url}"))
            .field("priority", &self.its_priority())
            .finish_non_exhaustive()
    }
}

impl From<&str> for Request {
    fn from(url: &str) -> Self {
        Self::new(url)
    }
}

impl From<&&str> for Request {
    fn from(url: &&str) -> Self {
        Self::new(url)
    }
}

impl From<String> for Request {
    fn from(url: String) -> Self {
        Self::new(url)
    }
}

impl From<&String> for Request {
    fn from(url: &String) -> Self {
        Self::new(url)
    }
}

impl From<Url> for Request {
    fn from(url: Url) -> Self {
        match refusal(&url) {
            None => Self::from_parsed(Ok(url), ""),
            Some(why) => Self::from_parsed(Err(why), url.as_str()),
        }
    }
}

impl From<&Url> for Request {
    fn from(url: &Url) -> Self {
        Self::from(url.clone())
    }
}

impl From<&Self> for Request {
    fn from(request: &Self) -> Self {
        request.clone()
    }
}

fn checked(url: Url) -> Result<Url, &'static str> {
    match refusal(&url) {
        None => Ok(url),
        Some(why) => Err(why),
    }
}

fn refusal(url: &Url) -> Option<&'static str> {
    match url.scheme() {
        "http" | "https" => None,
        // `localhost:8080/x` and `example.com:443` parse, with the host as the scheme.
        _ if url.cannot_be_a_base() => Some(NOT_ABSOLUTE),
        _ => Some("only http and https URLs can be fetched"),
    }
}

const NOT_ABSOLUTE: &str = "not an absolute URL; it should start with https:// or http://";

fn why(input: &str, error: url::ParseError) -> &'static str {
    use url::ParseError as E;
    match error {
        _ if input.is_empty() => "the URL is empty",
        E::RelativeUrlWithoutBase => NOT_ABSOLUTE,
        E::EmptyHost => "the URL has no host",
        E::InvalidPort => "the URL's port is not a number up to 65535",
        E::IdnaError => "the URL's host is not a valid domain name",
        E::InvalidIpv4Address => "the URL's host is not a valid IPv4 address",
        E::InvalidIpv6Address => "the URL's host is not a valid IPv6 address",
        E::InvalidDomainCharacter => "the URL's host has a character that no domain name has",
        _ => "the URL cannot be parsed",
    }
}

/// The URL without user name and password, if it has any.
pub(crate) fn without_credentials(url: &Url) -> Option<Url> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut bare = url.clone();
    // Fails for URLs without a host only, which have no user information.
    let _ = bare.set_username("");
    let _ = bare.set_password(None);
    Some(bare)
}

/// What is no URL, without secrets: whatever stands before an `@` could be meant for a password,
/// in which people leave `/`, `?` and `#` as they are.
fn shown_bad(input: &str) -> String {
    let scheme = input.find(':').map_or("", |colon| &input[..colon]);
    let shown = match input.rfind('@') {
        Some(at) if scheme.chars().all(|c| c.is_ascii_alphanumeric()) => {
            format!("{scheme}://…@{}", &input[at + 1..])
        }
        Some(at) => format!("…@{}", &input[at + 1..]),
        None => input.to_owned(),
    };
    let shown = Secrets::default().text(&shown);
    match shown.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    }
}

/// How many characters of a bad URL are shown: a file given in the place of a list of URLs may
/// be one long line.
const LONGEST_SHOWN: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_a_url() {
        for (written, url) in [
            ("  http://h/a b?c d#e \n", "http://h/a%20b?c%20d#e"),
            ("HTTP://H", "http://h/"),
            (
                "http://bücher.example/ü",
                "http://xn--bcher-kva.example/%C3%BC",
            ),
            ("https://h:443/", "https://h/"),
            ("http:\\\\h\\a", "http://h/a"),
        ] {
            let request = Request::new(written);
            assert_eq!(request.url().map(Url::as_str), Some(url), "{written:?}");
        }
    }

    #[test]
    fn what_is_no_url_says_why_and_keeps_its_secret() {
        for (written, why) in [
            ("", "empty"),
            ("example.com/x", "https://"),
            ("/etc/passwd", "https://"),
            ("file:///etc/passwd", "only http"),
            ("ftp://u:secret@h/", "only http"),
            ("http://", "no host"),
            ("http://h:99999/", "port"),
            ("http://u:secret@[::zz]/", "IPv6"),
            ("http://u:sec/secret@h:99999/", "port"),
            ("http:/u:secret@[zz]/", "IPv6"),
            ("u:sec/secret@h", "https://"),
            ("localhost:8080/x", "https://"),
            ("u:secret@h", "https://"),
            ("http://a b/", "domain name"),
            ("example.com/x?token=secret#secret", "https://"),
            ("http://h:99999/x?sig=secret", "port"),
            ("http://u:p@[zz]/x?a=1&sig=secret", "IPv6"),
            ("ftp://h/x?sig=secret", "only http"),
        ] {
            let request = Request::new(written);
            let fault = request.checked_url().unwrap_err();
            assert_eq!(fault.kind, ErrorKind::InvalidUrl);
            assert!(fault.to_string().contains(why), "{written:?}: {fault}");
            let shown = request.shown(&Secrets::default());
            assert!(!shown.contains("secret"), "{written:?}: {shown}");
            assert!(!format!("{request:?}").contains("secret"), "{written:?}");
        }
    }

    #[test]
    fn a_request_that_is_only_a_url_is_small() {
        assert!(size_of::<Request>() <= 96, "{}", size_of::<Request>());
    }
}
