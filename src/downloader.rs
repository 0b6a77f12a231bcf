//! The downloader, and how it is built.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use http::header::USER_AGENT;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::batch::{self, Batch, Jobs, Outcomes};
use crate::body::Body;
use crate::error::{Error, ErrorKind, Fault};
use crate::http::resolve::{IpFamily, Resolve, Settings as NameSettings, SystemResolver};
use crate::http::{Client, Settings};
use crate::job::{Job, keys_of};
use crate::outcome::{Fetched, Saved};
use crate::request::Request;
use crate::schedule::{Denied, Key, Keys, Limits, Permit, Scheduler};
use crate::sink::{Closure, Files, Memory, Pushing};

const DEFAULT_WORKERS: usize = 32;
/// No system runs more threads, and what each needs is allocated when the downloader is built.
const MOST_WORKERS: usize = 65_536;
/// As browsers do over HTTP/1.1.
const DEFAULT_PER_HOST: usize = 6;
const DEFAULT_WINDOW: usize = 4096;
const DEFAULT_WINDOW_WHEN_IDLE: usize = 100_000;
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_DNS_TTL: Duration = Duration::from_secs(60);
const DEFAULT_MAX_BODY: u64 = 64 * 1024 * 1024;
/// How long idle connections are kept: less than the time after which common servers close
/// them (Apache's 5 s aside).
const IDLE_AGE: Duration = Duration::from_secs(15);
/// How many hosts' idle connections are kept, so that file handles are left.
const IDLE_HOSTS: usize = 64;

/// Fetches URLs with a fixed pool of threads, and never opens more than a set number of
/// connections to a host.
///
/// A handle: cheap to clone, and shared between threads as it is. Many batches can run on one;
/// they share its workers, its connections and the hosts' budgets. The threads are started as
/// they are needed, and end with the last handle (a batch counts as one).
///
/// ```no_run
/// use fetchpool::Downloader;
///
/// let downloader = Downloader::new();
/// for page in downloader.fetch_all(["https://example.com/a", "https://example.org/b"]) {
///     match page {
///         Ok(page) => println!("{} {} bytes", page.url(), page.body().len()),
///         Err(error) => eprintln!("{error}"),
///     }
/// }
/// ```
#[derive(Clone)]
pub struct Downloader {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) scheduler: Scheduler<Job>,
    pub(crate) client: Arc<Client>,
    pub(crate) unread: NonZeroUsize,
    pub(crate) window: u64,
    pub(crate) window_when_idle: u64,
    pub(crate) status_is_error: bool,
    max_body: u64,
    max_file: u64,
}

impl Default for Downloader {
    fn default() -> Self {
        Self::new()
    }
}

impl Downloader {
    /// A downloader with all defaults, which [`Builder`] names.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build().expect("the defaults are valid")
    }

    /// A downloader with settings of one's own.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Fetches one URL into memory, and waits for it.
    ///
    /// # Errors
    /// As an item of [`fetch_all`](Self::fetch_all).
    ///
    /// # Panics
    /// In a closure that runs on a worker of this downloader, as [`Batch`] does.
    pub fn fetch(&self, request: impl Into<Request>) -> Result<Fetched, Error> {
        let mut one = self.fetch_all([request.into()]);
        one.next().expect("one in, one out")
    }

    /// Fetches URLs into memory.
    ///
    /// Takes anything that yields what turns into a [`Request`], borrowed and lazy iterators
    /// too: it is read as the outcomes are asked for, on the thread that asks. While that waits
    /// for the next line of an input that trickles in, outcomes wait as well: feed such input
    /// into [`open`](Self::open), from a thread of its own.
    ///
    /// ```
    /// use fetchpool::Downloader;
    ///
    /// let list = "http://127.0.0.1:9/a\nnot a URL\n";
    /// let downloader = Downloader::new();
    /// for page in downloader.fetch_all(list.lines()).in_order() {
    ///     println!("{}", page.unwrap_err());
    /// }
    /// ```
    pub fn fetch_all<I>(&self, requests: I) -> Batch<I::IntoIter, Fetched>
    where
        I: IntoIterator,
        I::Item: Into<Request>,
    {
        let sink = Memory {
            limit: self.inner.max_body,
        };
        Batch::new(requests.into_iter(), batch::open(self, Arc::new(sink)))
    }

    /// Fetches URLs into files below a directory, which is made if it is not there.
    ///
    /// A file is named by the last segment of the path of its final URL (after redirects, without
    /// the query), made safe for all systems; `index.html` where that is empty. It appears under
    /// that name when it is whole, not before; a file that stands there is never replaced: the
    /// new one is called `name (1).ext`.
    pub fn save_all<I>(
        &self,
        requests: I,
        directory: impl Into<PathBuf>,
    ) -> Batch<I::IntoIter, Saved>
    where
        I: IntoIterator,
        I::Item: Into<Request>,
    {
        let sink = Files::new(directory.into(), self.inner.max_file);
        Batch::new(requests.into_iter(), batch::open(self, Arc::new(sink)))
    }

    /// Fetches URLs and gives each body to a closure, as it comes, on the worker that fetches
    /// it. The host's token is held until the closure returns.
    ///
    /// An error that the closure returns becomes the outcome of that request; so does a panic.
    ///
    /// ```no_run
    /// use std::io;
    /// # let downloader = fetchpool::Downloader::new();
    /// let urls = ["https://example.com/big"];
    /// for bytes in downloader.fetch_with(urls, |mut body| io::copy(&mut body, &mut io::sink())) {
    ///     println!("{}", bytes?);
    /// }
    /// # Ok::<(), fetchpool::Error>(())
    /// ```
    pub fn fetch_with<I, T, F>(&self, requests: I, closure: F) -> Batch<I::IntoIter, T>
    where
        I: IntoIterator,
        I::Item: Into<Request>,
        T: Send + 'static,
        F: Fn(Body<'_>) -> io::Result<T> + Send + Sync + 'static,
    {
        let sink = Closure {
            run: closure,
            limit: self.inner.max_file,
        };
        Batch::new(requests.into_iter(), batch::open(self, Arc::new(sink)))
    }

    /// For requests that come up as one goes: push them from any thread, read the outcomes
    /// from another or the same.
    pub fn open(&self) -> (Jobs, Outcomes<Fetched>) {
        let sink = Memory {
            limit: self.inner.max_body,
        };
        let outcomes = batch::open(self, Arc::new(sink));
        (Jobs::new(Arc::clone(outcomes.intake())), outcomes)
    }

    /// The same with a closure that gets each body on a worker, and may push further requests:
    /// a crawler.
    ///
    /// The `&Jobs` that the closure is given does not outlive the call, so that the outcomes
    /// end when all is done and the caller has dropped his own.
    ///
    /// ```no_run
    /// use std::io;
    /// # let downloader = fetchpool::Downloader::new();
    /// let (jobs, pages) = downloader.open_with(|body, jobs| {
    ///     let page = io::read_to_string(body)?;
    ///     for link in page.lines() {
    ///         jobs.push(link);
    ///     }
    ///     Ok(page.len())
    /// });
    /// jobs.push("https://example.com/list");
    /// drop(jobs);
    /// println!("{} pages", pages.flatten().count());
    /// ```
    pub fn open_with<T, F>(&self, closure: F) -> (Jobs, Outcomes<T>)
    where
        T: Send + 'static,
        F: Fn(Body<'_>, &Jobs) -> io::Result<T> + Send + Sync + 'static,
    {
        let sink = Arc::new(Pushing {
            run: closure,
            limit: self.inner.max_file,
            intake: OnceLock::new(),
        });
        let outcomes = batch::open(self, Arc::clone(&sink));
        let intake = outcomes.intake();
        let _ = sink.intake.set(Arc::downgrade(intake));
        (Jobs::new(Arc::clone(intake)), outcomes)
    }

    /// Waits for a token of each of the request's budgets, in line with everybody who wants
    /// one: for HTTP that is done by other means.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUrl`]; [`ErrorKind::Cancelled`] after [`shutdown`](Self::shutdown).
    ///
    /// # Panics
    /// In a closure that runs on a worker of this downloader: that one holds a token already,
    /// which may be the very one that it would wait for.
    pub fn permit(&self, request: impl Into<Request>) -> Result<Permit, Error> {
        let permit = self.acquire(&request.into(), |keys| {
            self.inner.scheduler.acquire(keys, None)
        })?;
        Ok(permit.expect("without a time limit"))
    }

    /// As [`permit`](Self::permit), but `None` if it would have to wait.
    ///
    /// # Errors
    /// As `permit`.
    pub fn try_permit(&self, request: impl Into<Request>) -> Result<Option<Permit>, Error> {
        self.acquire(&request.into(), |keys| {
            self.inner.scheduler.try_acquire(keys)
        })
    }

    /// As [`permit`](Self::permit), but `None` if it would have to wait for longer than this.
    ///
    /// # Errors
    /// As `permit`.
    pub fn permit_timeout(
        &self,
        request: impl Into<Request>,
        timeout: Duration,
    ) -> Result<Option<Permit>, Error> {
        // A time that far away that the clock cannot hold it is none.
        let deadline = Instant::now().checked_add(timeout);
        self.acquire(&request.into(), |keys| {
            self.inner.scheduler.acquire(keys, deadline)
        })
    }

    fn acquire(
        &self,
        request: &Request,
        acquire: impl FnOnce(Keys<'_>) -> Result<Permit, Denied>,
    ) -> Result<Option<Permit>, Error> {
        let failed = |fault| Error::bare(fault, Some(request.bad_input()));
        let (host, more) = keys_of(request).map_err(failed)?;
        match acquire(Keys { first: &host, more }) {
            Ok(permit) => Ok(Some(permit)),
            Err(Denied::TimedOut) => Ok(None),
            Err(Denied::Stopped) => Err(failed(Fault::new(
                ErrorKind::Cancelled,
                "the downloader has been shut down",
            ))),
        }
    }

    /// Changes the capacity of a budget, for as long as the downloader lives.
    ///
    /// Tokens that are in use stay in use where they are more than that now.
    pub fn set_limit(&self, key: &Key, capacity: NonZeroUsize) {
        self.inner.scheduler.set_capacity(key, capacity);
    }

    /// Forgets the addresses of all hosts, so that they are looked up anew. Connections that
    /// are open stay so.
    pub fn flush_dns(&self) {
        self.inner.client.flush_names();
    }

    /// Ends all batches within a second. What is being fetched is cut off, and what is not done
    /// comes out as [`ErrorKind::Cancelled`]; so does what is asked for later.
    ///
    /// A look-up that the system's resolver is at goes on in a thread of its own until that is
    /// through: nothing can interrupt it, and nobody waits for it.
    pub fn shutdown(&self) {
        self.inner.scheduler.stop();
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }
}

impl fmt::Debug for Downloader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Downloader").finish_non_exhaustive()
    }
}

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
    max_body: u64,
    max_file: Option<u64>,
    local_address: Option<IpAddr>,
    names: NameSettings,
    headers: HeaderMap,
    user_agent: Option<String>,
    status_is_error: bool,
    roots_pem: Vec<Vec<u8>>,
}

const fn non_zero(n: usize) -> NonZeroUsize {
    match NonZeroUsize::new(n) {
        Some(n) => n,
        None => panic!("zero"),
    }
}

impl Builder {
    fn new() -> Self {
        Self {
            workers: DEFAULT_WORKERS,
            per_host: non_zero(DEFAULT_PER_HOST),
            limits: HashMap::new(),
            window: non_zero(DEFAULT_WINDOW),
            window_when_idle: non_zero(DEFAULT_WINDOW_WHEN_IDLE),
            unread: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            idle_timeout: DEFAULT_IDLE_TIMEOUT,
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
            headers: HeaderMap::new(),
            user_agent: None,
            status_is_error: true,
            roots_pem: Vec::new(),
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
    /// the caller's own ([`Key::named`], [`Request::budget`]). What is not set here is that of
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
    /// pauses. The default is twice the number of workers.
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
    /// same name; see [`Request::header`] for those that are left out.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    /// Whether a status of 400 or more is an error, of the kind [`ErrorKind::Status`], rather
    /// than a response like another. The default is `true`.
    pub fn status_as_error(mut self, yes: bool) -> Self {
        self.status_is_error = yes;
        self
    }

    /// Trusts the certificates of a PEM file, besides the roots of the Mozilla programme.
    pub fn add_root_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.roots_pem.push(pem.into());
        self
    }

    /// Makes the downloader. Starts no thread yet.
    ///
    /// # Errors
    /// When a root certificate or the user agent cannot be used.
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
            max_body,
            max_file,
            local_address,
            names,
            mut headers,
            user_agent,
            status_is_error,
            roots_pem,
        } = self;
        if let Some(user_agent) = user_agent {
            let value = HeaderValue::try_from(user_agent).map_err(|error| {
                let doing = "the user agent is not a header's value";
                Error::bare(Fault::with_source(ErrorKind::Protocol, doing, error), None)
            })?;
            headers.insert(USER_AGENT, value);
        }
        let widest = limits.values().copied().fold(per_host, NonZeroUsize::max);
        let client = Client::new(Settings {
            connect_timeout,
            idle_timeout,
            idle_connections: widest.get(),
            idle_age: IDLE_AGE,
            local_address,
            names,
            headers,
            extra_roots_pem: roots_pem,
        })
        .map_err(|fault| Error::bare(fault, None))?;
        let workers = non_zero(workers);
        let scheduler_limits = Limits {
            workers,
            per_host,
            idle_age: IDLE_AGE,
            idle_entries: IDLE_HOSTS,
        };
        Ok(Downloader {
            inner: Arc::new(Inner {
                scheduler: Scheduler::new(scheduler_limits, limits),
                client: Arc::new(client),
                unread: unread.unwrap_or_else(|| workers.saturating_mul(non_zero(2))),
                window: window.get() as u64,
                window_when_idle: window_when_idle.get().max(window.get()) as u64,
                status_is_error,
                max_body,
                max_file: max_file.unwrap_or(u64::MAX),
            }),
        })
    }
}
