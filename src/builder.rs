//! How a downloader is built.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use crate::deadline::LONGEST_TIME;
use crate::downloader::Downloader;
use crate::engine::Engine;
use crate::error::Error;
use crate::fault::{ErrorKind, Fault};
use crate::http::resolve::{IpFamily, Resolve, Settings as NameSettings, SystemResolver};
use crate::http::tls::{ClientCertPem, Settings as TlsSettings};
use crate::http::{Client, HostBreaker, LowSpeed, Settings, address, redirect};
use crate::redact::Secrets;
use crate::retry::{Retries, RetryPolicy};
use crate::rules::Rules;
use crate::schedule::{Key, Limits, Scheduler};

const DEFAULT_WORKERS: usize = 32;
/// No system runs more threads, and what each needs is allocated when the downloader is built.
const MOST_WORKERS: usize = 65_536;
/// As browsers do over HTTP/1.1.
const DEFAULT_PER_HOST: usize = 6;
const DEFAULT_WINDOW: usize = 4096;
const DEFAULT_WINDOW_WHEN_IDLE: usize = 100_000;
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// What drips for longer is not going to be a response.
const DEFAULT_HEADER_TIMEOUT: Duration = Duration::from_secs(60);
const DEFAULT_TIMEOUT_GRACE: Duration = Duration::from_secs(2);
const DEFAULT_RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_DNS_TTL: Duration = Duration::from_secs(60);
const DEFAULT_MAX_BODY: u64 = 64 * 1024 * 1024;
/// Less than the time after which common servers close idle connections (Apache's 5 s aside).
const DEFAULT_IDLE_AGE: Duration = Duration::from_secs(15);
/// How many hosts' idle connections are kept, so that file handles are left.
const IDLE_HOSTS: usize = 64;
const LEAST_UNREAD: NonZeroUsize = non_zero(64);

/// The settings of a [`Downloader`].
///
/// ```
/// use std::time::Duration;
/// use fetchpool::Downloader;
///
/// let downloader = Downloader::builder()
///     .workers(8)
///     .connect_timeout(Duration::from_secs(3))
///     .build()?;
/// # Ok::<(), fetchpool::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    workers: usize,
    per_host: NonZeroUsize,
    limits: HashMap<Key, NonZeroUsize>,
    window: NonZeroUsize,
    window_when_idle: NonZeroUsize,
    unread: Option<NonZeroUsize>,
    connect_timeout: Duration,
    idle_timeout: Duration,
    idle_age: Duration,
    header_timeout: Duration,
    low_speed: Option<LowSpeed>,
    timeout: Option<Duration>,
    queue_timeout: Option<Duration>,
    timeout_grace: Duration,
    retry: RetryPolicy,
    host_breaker: HostBreaker,
    max_body: u64,
    max_file: Option<u64>,
    local_address: Option<IpAddr>,
    names: NameSettings,
    headers: Headers,
    user_agent: Option<String>,
    status_is_error: bool,
    believes_digests: bool,
    tls: TlsSettings,
    addresses: address::Policy,
    redirects: redirect::Policy,
    secret_parameters: Vec<String>,
}

/// Those of every request. `Debug` shows their names alone: a value may be a secret.
struct Headers(HeaderMap);

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

const fn non_zero(n: usize) -> NonZeroUsize {
    match NonZeroUsize::new(n) {
        Some(n) => n,
        None => panic!("zero"),
    }
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            workers: DEFAULT_WORKERS,
            per_host: non_zero(DEFAULT_PER_HOST),
            limits: HashMap::new(),
            window: non_zero(DEFAULT_WINDOW),
            window_when_idle: non_zero(DEFAULT_WINDOW_WHEN_IDLE),
            unread: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            idle_timeout: DEFAULT_IDLE_TIMEOUT,
            idle_age: DEFAULT_IDLE_AGE,
            header_timeout: DEFAULT_HEADER_TIMEOUT,
            low_speed: None,
            timeout: None,
            queue_timeout: None,
            timeout_grace: DEFAULT_TIMEOUT_GRACE,
            retry: RetryPolicy::new(),
            host_breaker: HostBreaker::new(),
            max_body: DEFAULT_MAX_BODY,
            max_file: None,
            local_address: None,
            names: NameSettings {
                resolver: Arc::new(SystemResolver),
                fixed: Vec::new(),
                family: IpFamily::Any,
                ttl: DEFAULT_DNS_TTL,
                limit: DEFAULT_RESOLVE_TIMEOUT,
            },
            headers: Headers(HeaderMap::new()),
            user_agent: None,
            status_is_error: true,
            believes_digests: false,
            tls: TlsSettings::default(),
            addresses: address::Policy::default(),
            redirects: redirect::Policy::default(),
            secret_parameters: Vec::new(),
        }
    }

    /// How many threads there are at most, and so how many requests at once over all hosts. The
    /// default is 32; 0 means the default, and more than 65,536 means that many.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = match workers {
            0 => DEFAULT_WORKERS,
            workers => workers.min(MOST_WORKERS),
        };
        self
    }

    /// How many requests at once to a host. The default is 6, as in browsers.
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    ///
    /// let two = NonZeroUsize::new(2).unwrap();
    /// let downloader = fetchpool::Downloader::builder().per_host(two).build()?;
    /// # Ok::<(), fetchpool::Error>(())
    /// ```
    pub fn per_host(mut self, capacity: NonZeroUsize) -> Self {
        self.per_host = capacity;
        self
    }

    /// The capacity of one budget, other than the usual: of a host ([`Key::host`]), or of one of
    /// the caller's own ([`Key::named`], [`Request::budget`](crate::Request::budget)). What is not set here is that of
    /// [`per_host`](Self::per_host).
    pub fn limit(mut self, key: Key, capacity: NonZeroUsize) -> Self {
        self.limits.insert(key, capacity);
        self
    }

    /// How many requests of a batch's input are read ahead of the outcomes that its consumer
    /// has asked for. The default is 4,096.
    pub fn window(mut self, requests: NonZeroUsize) -> Self {
        self.window = requests;
        self
    }

    /// How many requests are read ahead, instead of [`window`](Self::window), as long as some
    /// worker has nothing to do: so a list sorted by host finds the next host. The default is
    /// 100,000.
    pub fn window_when_idle(mut self, requests: NonZeroUsize) -> Self {
        self.window_when_idle = requests;
        self
    }

    /// How many outcomes of a batch may wait to be read, or be on their way, before the batch
    /// pauses. The default is four times the number of workers, and 64 at least: a fast host fills a
    /// smaller number before the consumer is awake.
    ///
    /// A body in memory counts for one more with each MiB: at 128 the batch pauses when about 128 MiB
    /// wait. Those that are on their way then come to it, a worker's each.
    pub fn unread(mut self, outcomes: NonZeroUsize) -> Self {
        self.unread = Some(outcomes);
        self
    }

    /// How long connecting may take, the TLS handshake included. The default is 10 s.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How long a server may be silent, before its response and within. The default is 30 s.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.idle_timeout = limit;
        self
    }

    /// How long a connection that nothing uses is kept, also to a host that is not asked again.
    /// The default is 15 s.
    ///
    /// Longer than the server keeps it is of no use: such a connection is found to be closed, and
    /// another is made.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let polls_each_minute = fetchpool::Downloader::builder()
    ///     .idle_age(Duration::from_secs(90))
    ///     .build()?;
    /// # Ok::<(), fetchpool::Error>(())
    /// ```
    pub fn idle_age(mut self, age: Duration) -> Self {
        self.idle_age = age;
        self
    }

    /// How long a response's header may take, from the request to the header's last byte, interim
    /// responses included. The default is 60 s; a server that is silent is given up after
    /// [`idle_timeout`](Self::idle_timeout).
    pub fn header_timeout(mut self, limit: Duration) -> Self {
        self.header_timeout = limit;
        self
    }

    /// The lowest speed at which a body may come: so many bytes in each such time. The default is
    /// none: one byte every few seconds will do.
    ///
    /// Only the time counts in which the server is waited for, not that which a closure takes. On
    /// a thin line that many downloads share each is slow, and it is nobody's fault.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let downloader = fetchpool::Downloader::builder()
    ///     .low_speed(10_000, Duration::from_secs(10))
    ///     .build()?;
    /// # Ok::<(), fetchpool::Error>(())
    /// ```
    pub fn low_speed(mut self, bytes: u64, window: Duration) -> Self {
        self.low_speed = Some(LowSpeed { bytes, window });
        self
    }

    /// How long a request may take in all, unless it has a limit of its own
    /// ([`Request::timeout`](crate::Request::timeout)). The default is `None`: as long as it
    /// makes progress, as a large file may take hours.
    ///
    /// It spans everything from the moment in which the request is read from the input: its wait for tokens,
    /// redirects, retries and their pauses, the body. A closure is not interrupted, but its reads
    /// fail. The error is of the kind [`ErrorKind::Timeout`]; but where only the pause before the
    /// next attempt would be too long, it fails at once, with the error of the last one.
    pub fn timeout(mut self, limit: Option<Duration>) -> Self {
        self.timeout = limit;
        self
    }

    /// How long a request may wait for its first turn. The default is `None`: as long as it takes.
    ///
    /// The error is of the kind [`ErrorKind::Timeout`].
    pub fn queue_timeout(mut self, limit: Option<Duration>) -> Self {
        self.queue_timeout = limit;
        self
    }

    /// How long a host's token stays out after a request has timed out: the server is perhaps
    /// still at work on that one, and is not given another in its place at once. The default is
    /// 2 s.
    pub fn timeout_grace(mut self, time: Duration) -> Self {
        self.timeout_grace = time;
        self
    }

    /// How often and when failed requests are tried again. The default is
    /// [`RetryPolicy::new`]: up to three times.
    ///
    /// ```
    /// use fetchpool::{Downloader, RetryPolicy};
    ///
    /// let once = Downloader::builder().retry(RetryPolicy::none()).build()?;
    /// # Ok::<(), fetchpool::Error>(())
    /// ```
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// What is done about hosts that take no connection. The default is [`HostBreaker::new`].
    pub fn host_breaker(mut self, breaker: HostBreaker) -> Self {
        self.host_breaker = breaker;
        self
    }

    /// The largest body in bytes that is taken into memory; a larger one is an error of the
    /// kind [`ErrorKind::TooLarge`]. The default is 64 MiB.
    pub fn max_body(mut self, bytes: u64) -> Self {
        self.max_body = bytes;
        self
    }

    /// The largest body in bytes that is written to a file or given to a closure. The default
    /// is `None`: no limit.
    pub fn max_file(mut self, bytes: Option<u64>) -> Self {
        self.max_file = bytes;
        self
    }

    /// The address of this machine that connections are made from. The default is the system's
    /// choice.
    pub fn local_address(mut self, address: IpAddr) -> Self {
        self.local_address = Some(address);
        self
    }

    /// How long looking up a name may take. The default is 10 s.
    pub fn resolve_timeout(mut self, limit: Duration) -> Self {
        self.names.limit = limit;
        self
    }

    /// How long a name's addresses are taken to be true. The default is 60 s: the system's
    /// resolver does not tell what the name server said.
    ///
    /// For ten minutes longer they serve while they are being renewed. That a name cannot be
    /// looked up is believed for 2 s.
    pub fn dns_ttl(mut self, ttl: Duration) -> Self {
        self.names.ttl = ttl;
        self
    }

    /// Which of a host's addresses are used. The default is [`IpFamily::Any`].
    pub fn ip_family(mut self, family: IpFamily) -> Self {
        self.names.family = family;
        self
    }

    /// Has a name stand for these addresses, as curl's `--resolve`: it is never looked up.
    pub fn resolve(
        mut self,
        host: impl Into<String>,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Self {
        self.names
            .fixed
            .push((host.into(), addresses.into_iter().collect()));
        self
    }

    /// Looks names up by other means than the system's.
    pub fn resolver(mut self, resolver: impl Resolve) -> Self {
        self.names.resolver = Arc::new(resolver);
        self
    }

    /// The `User-Agent` header. The default is `fetchpool/` and the version.
    pub fn user_agent(mut self, user_agent: impl Into<String>) -> Self {
        self.user_agent = Some(user_agent.into());
        self
    }

    /// A header that every request has. One of a request's own takes the place of all of the
    /// same name; see [`Request::header`](crate::Request::header) for those that are left out.
    ///
    /// A request that a redirect leads to another origin goes on without credentials and without
    /// headers that are marked by [`HeaderValue::set_sensitive`], those set here among them.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.0.append(name, value);
        self
    }

    /// Whether redirects from https to http are followed. The default is `false`: they are errors
    /// of the kind [`ErrorKind::Redirect`], as what was asked for in secret would be asked for
    /// in the open. Credentials do not go along in any case, see
    /// [`Request::header`](crate::Request::header).
    pub fn allow_downgrade(mut self, yes: bool) -> Self {
        self.redirects.allow_downgrade = yes;
        self
    }

    /// Has each redirect allowed by a closure, which gets the URL that redirects and the one that
    /// it leads to. Where it says `false` the outcome is an error of the kind
    /// [`ErrorKind::Redirect`]. The default is to follow all that lead from http or https to
    /// https, or from http to http, up to 20 (the Fetch standard's number) and not in a loop; the
    /// closure is asked about those only. A second call takes the place of the first.
    ///
    /// It runs on a worker, which holds the old host's token meanwhile: let it be quick. If it
    /// panics, the outcome of that request is [`ErrorKind::Panicked`].
    ///
    /// The URLs have their secrets. Where they lead to is not known by the name of the host: see
    /// [`allow_address`](Self::allow_address).
    ///
    /// ```
    /// use fetchpool::{Downloader, Key};
    ///
    /// // Within the host: its name and port, so not from http to https either.
    /// let downloader = Downloader::builder()
    ///     .allow_redirect(|from, to| Key::host(from) == Key::host(to))
    ///     .build()?;
    /// # Ok::<(), fetchpool::Error>(())
    /// ```
    pub fn allow_redirect(
        mut self,
        allows: impl Fn(&Url, &Url) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.redirects.allows = Some(Arc::new(allows));
        self
    }

    /// Has each address allowed by a closure before a connection is made to it, such as
    /// [`is_public_address`](crate::is_public_address). The default is to allow all. A second
    /// call takes the place of the first.
    ///
    /// It is asked about the very addresses that are dialled next, whether they come from a name
    /// server, from [`resolve`](Self::resolve) or from the URL itself, and after each redirect
    /// anew: neither of them gets round it. Those that it refuses are left out; if none is left,
    /// the outcome is an error of the kind [`ErrorKind::Connect`] that says so. An IPv4 address
    /// that is written as an IPv6 one (`::ffff:127.0.0.1`) is given to it as the IPv4 address
    /// that it is. A connection that is kept was allowed when it was made.
    ///
    /// It runs on a worker, as often as there are addresses. If it panics, the outcome of that
    /// request is [`ErrorKind::Panicked`].
    pub fn allow_address(
        mut self,
        allows: impl Fn(IpAddr) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.addresses = address::Policy::new(allows);
        self
    }

    /// Names a parameter of URLs whose value is a secret, besides the usual ones, so that errors
    /// do not show it: see [`Report::shown`](crate::Report::shown). Upper case, `-` and `_` make
    /// no difference.
    pub fn secret_parameter(mut self, name: impl Into<String>) -> Self {
        self.secret_parameters.push(name.into());
        self
    }

    /// Whether a status of 400 or more is an error, of the kind [`ErrorKind::Status`], rather
    /// than a response like another. The default is `true`.
    pub fn status_as_error(mut self, yes: bool) -> Self {
        self.status_is_error = yes;
        self
    }

    /// Whether a body has to be of the digest that its response tells, where it tells one
    /// (`Repr-Digest` and `Content-Digest`, RFC 9530; `Digest`, RFC 3230; `Content-MD5`, RFC 1864): of
    /// several the strongest that is known. Another is an error, of the kind
    /// [`ErrorKind::Digest`]. The default is `false`: it costs a pass over all bytes, and proves no
    /// more than that nothing was damaged on the way. For a digest that came by a way of its own see
    /// [`Request::expect_digest`](crate::Request::expect_digest).
    pub fn verify_digests(mut self, yes: bool) -> Self {
        self.believes_digests = yes;
        self
    }

    /// Trusts the certificates of a PEM file, besides the roots of the Mozilla programme, or
    /// those of the platform where the feature `platform-verifier` is on and its switch set.
    ///
    /// Sections of the file that are no certificates are skipped. Where there is none,
    /// [`build`](Self::build) fails with [`ErrorKind::Tls`].
    pub fn add_root_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.extra_roots_pem.push(pem.into());
        self
    }

    /// The certificate that is shown to servers that ask for one. The default is none; a second
    /// call takes the place of the first.
    ///
    /// `chain` is PEM: the client's own certificate, then those that vouch for it, up to one that
    /// the server knows. `key` is the private key of the first, PEM as well, in PKCS #8, PKCS #1
    /// or SEC 1, and not encrypted. Sections that are something else are skipped: give a file
    /// that has both for both.
    ///
    /// It is shown to *every* server that asks, those that a redirect leads to among them. If not
    /// all of them may know who you are, use a downloader of its own for those that may.
    ///
    /// [`build`](Self::build) fails with [`ErrorKind::Tls`] where the certificate or the key is
    /// missing, cannot be used, or is not the other's. A server that refuses it makes the request
    /// fail with the same kind.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let downloader = fetchpool::Downloader::builder()
    ///     .client_cert_pem(std::fs::read("client.crt")?, std::fs::read("client.key")?)
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn client_cert_pem(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.tls.client_cert = Some(ClientCertPem {
            chain: chain.into(),
            key: key.into(),
        });
        self
    }

    /// Whether the platform judges servers' certificates, by the roots and rules that its
    /// administrator has set, instead of the roots of the Mozilla programme that are compiled in.
    /// The default is `false`.
    ///
    /// A switch, rather than what the feature does by itself: any crate of the program can turn
    /// a feature on, and that alone must not change whom the others trust.
    ///
    /// What [`add_root_pem`](Self::add_root_pem) adds is trusted besides, but on Android, whose
    /// verifier takes none: there [`build`](Self::build) fails if both are set. Android's also has
    /// to be given the app's context first, see the crate `rustls-platform-verifier`.
    ///
    /// On Linux and the BSDs the platform's roots are files (`SSL_CERT_FILE` and `SSL_CERT_DIR`
    /// say which, if they are set), which are read by `build` and at no other time; where there
    /// are none, nor any that are added, it fails with [`ErrorKind::Tls`].
    #[cfg(feature = "platform-verifier")]
    #[cfg_attr(docsrs, doc(cfg(feature = "platform-verifier")))]
    pub fn platform_verifier(mut self, yes: bool) -> Self {
        self.tls.platform_verifier = yes;
        self
    }

    /// Makes the downloader. Starts no thread yet.
    ///
    /// # Errors
    /// [`ErrorKind::Tls`] when a root certificate, the client certificate or its key cannot be
    /// used, or when there is nothing to encrypt with (see the crate's section
    /// [Features](crate#features)); [`ErrorKind::Protocol`] when the user agent cannot be used.
    pub fn build(self) -> Result<Downloader, Error> {
        let Self {
            workers,
            per_host,
            limits,
            window,
            window_when_idle,
            unread,
            connect_timeout,
            idle_timeout,
            idle_age,
            header_timeout,
            low_speed,
            timeout,
            queue_timeout,
            timeout_grace,
            retry,
            host_breaker,
            max_body,
            max_file,
            local_address,
            names,
            headers: Headers(mut headers),
            user_agent,
            status_is_error,
            believes_digests,
            tls,
            addresses,
            redirects,
            secret_parameters,
        } = self;
        if let Some(user_agent) = user_agent {
            let value = HeaderValue::try_from(user_agent).map_err(|error| {
                let doing = "the user agent is not a header's value";
                Error::bare(Fault::with_source(ErrorKind::Protocol, doing, error), None)
            })?;
            headers.insert(USER_AGENT, value);
        }
        let resolve_timeout = names.limit;
        let client = Client::new(Settings {
            connect_timeout,
            idle_timeout,
            header_timeout,
            low_speed,
            idle_age,
            local_address,
            names,
            headers,
            tls,
            addresses,
            redirects,
            secrets: Secrets::and(&secret_parameters),
        })
        .map_err(|fault| Error::bare(fault, None))?;
        let workers = non_zero(workers);
        let scheduler_limits = Limits {
            workers,
            per_host,
            idle_age,
            idle_entries: IDLE_HOSTS,
        };
        Ok(Downloader::of(Engine {
            scheduler: Scheduler::new(scheduler_limits, limits),
            rules: Arc::new(Rules {
                client,
                status_is_error,
                believes_digests,
                retries: Retries::new(retry),
                breaker: host_breaker.probing_for(connect_timeout.saturating_add(resolve_timeout)),
                timeout,
                queue_timeout,
                timeout_grace: timeout_grace.min(LONGEST_TIME),
            }),
            unread: unread.unwrap_or_else(|| workers.saturating_mul(non_zero(4)).max(LEAST_UNREAD)),
            window: window.get() as u64,
            window_when_idle: window_when_idle.get().max(window.get()) as u64,
            max_body,
            max_file: max_file.unwrap_or(u64::MAX),
        }))
    }
}
