//! The downloader: what the caller has in hand.

use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::batch::{self, Batch, Jobs, Outcomes};
use crate::body::Body;
use crate::builder::Builder;
use crate::engine::Engine;
use crate::error::Error;
use crate::fault::{ErrorKind, Fault};
use crate::job::keys_of;
use crate::outcome::{Fetched, Received, Saved};
use crate::request::Request;
use crate::schedule::{Denied, Key, Keys, Permit};
use crate::sink::{Closure, Directory, Files, Memory};

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
///         Ok(page) => println!("{} {} bytes", page.shown_url(), page.body().len()),
///         Err(error) => eprintln!("{error}"),
///     }
/// }
/// ```
#[derive(Clone)]
pub struct Downloader {
    engine: Arc<Engine>,
}

impl Default for Downloader {
    fn default() -> Self {
        Self::new()
    }
}

impl Downloader {
    pub(crate) fn of(engine: Engine) -> Self {
        Self {
            engine: Arc::new(engine),
        }
    }

    /// A downloader with all defaults, which [`Builder`] names.
    ///
    /// # Panics
    /// Where there is nothing to encrypt with: with neither of the features `ring` and
    /// `aws-lc-rs`, and no provider that the program has installed. [`Builder::build`] returns
    /// the error instead.
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

    /// Fetches one URL into a buffer, in the place of what is in it, and waits for it. After an
    /// error it is empty.
    ///
    /// This is for one buffer of your own, and not for speed: each is waited for before the next is
    /// asked for. For many use [`fetch_all`](Self::fetch_all) and [`Fetched::recycle`].
    ///
    /// ```no_run
    /// let downloader = fetchpool::Downloader::new();
    /// let mut buffer = Vec::new();
    /// for page in 1..=1000 {
    ///     let url = format!("https://example.com/{page}");
    ///     let response = downloader.fetch_into(url, &mut buffer)?;
    ///     println!("{} {}", response.status(), buffer.len());
    /// }
    /// # Ok::<(), fetchpool::Error>(())
    /// ```
    ///
    /// # Errors
    /// As an item of [`fetch_all`](Self::fetch_all).
    ///
    /// # Panics
    /// In a closure that runs on a worker of this downloader, as [`Batch`] does.
    pub fn fetch_into(
        &self,
        request: impl Into<Request>,
        buffer: &mut Vec<u8>,
    ) -> Result<Received, Error> {
        buffer.clear();
        let sink = Memory::new(self.engine.max_body, Some(std::mem::take(buffer)));
        let spares = sink.spares();
        let outcomes = batch::open(&self.engine, sink);
        let mut one = Batch::new(std::iter::once(request.into()), outcomes);
        match one.next().expect("one in, one out") {
            Ok(Fetched {
                report, head, body, ..
            }) => {
                *buffer = body;
                let bytes = buffer.len() as u64;
                Ok(Received {
                    report,
                    head,
                    bytes,
                })
            }
            Err(error) => {
                // It is there but for a panic or a buffer too large to keep.
                *buffer = spares.take().unwrap_or_default();
                Err(error)
            }
        }
    }

    /// Fetches URLs into memory.
    ///
    /// Takes anything that yields what turns into a [`Request`], borrowed and lazy iterators
    /// too: it is read as the outcomes are asked for, on the thread that asks. While that waits
    /// for the next line of an input that trickles in, outcomes wait as well: feed such input
    /// into [`open`](Self::open), from a thread of its own.
    ///
    /// Nothing is skipped: an empty line is a request with an invalid URL.
    ///
    /// Each body has a buffer of its own; [`Fetched::recycle`] gives it back for another one of the batch.
    ///
    /// ```no_run
    /// use std::fs::File;
    /// use std::io::{BufRead, BufReader};
    ///
    /// // A list of any length, of which a window is in memory.
    /// let lines = BufReader::new(File::open("urls.txt")?).lines();
    /// for page in fetchpool::Downloader::new().fetch_all(lines.map_while(Result::ok)) {
    ///     println!("{}", page?.body().len());
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
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
        let sink = Memory::new(self.engine.max_body, None);
        Batch::new(requests.into_iter(), batch::open(&self.engine, sink))
    }

    /// Fetches URLs into files below a directory, which is made if it is not there.
    ///
    /// A file has its name when its body is whole, verified and on the disk, and not before; until
    /// then it is a hidden `.part` beside that place, as far as this is known before the response
    /// ([`Directory::keep_parts`]). What stands there under the name already is left as it is: where
    /// the server shows that it is the same, no body is fetched ([`Saved::was_present`]); otherwise the
    /// new one is called `name (1).ext`. So is the second of two that would have one name. What breaks
    /// off stays, if it is worth it, and the next attempt or the next run goes on with it. [`Directory`]
    /// has all that can be decided otherwise.
    ///
    /// Only a response that has content makes a file: 200, 203, and a part that the request itself asks for.
    /// Another success, such as 204, is an error of the kind [`ErrorKind::Status`].
    ///
    /// A file is named by [`Request::save_as`], or else by the response's `Content-Disposition`, or
    /// else by the last segment of its URL's path (without the query; `index.html` where that is
    /// empty), made safe for all systems: the `..%2fx` of a URL is `_.._x`. Names that come from URLs
    /// are given in the order of the input: a second run finds the files of the first. For that a batch
    /// keeps sixteen bytes a name. Where files of several hosts go by one name,
    /// [`Layout::Tree`](crate::Layout::Tree) keeps them apart whatever the list, without numbers.
    ///
    /// ```no_run
    /// use fetchpool::{Directory, Downloader, OnExist, Request};
    ///
    /// let request = Request::new("https://example.com/data-2024.csv")
    ///     .save_as("data.csv")
    ///     .expect_digest("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".parse()?);
    /// let data = Directory::new("data").on_exist(OnExist::Update);
    /// for file in Downloader::new().save_all([request], data) {
    ///     println!("{}", file?.path().display());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save_all<I>(
        &self,
        requests: I,
        directory: impl Into<Directory>,
    ) -> Batch<I::IntoIter, Saved>
    where
        I: IntoIterator,
        I::Item: Into<Request>,
    {
        let sink = Files::new(directory.into(), self.engine.max_file);
        Batch::new(requests.into_iter(), batch::open(&self.engine, sink))
    }

    /// Fetches URLs and gives each body to a closure, as it comes, on the worker that fetches
    /// it. The host's token is held until the closure returns.
    ///
    /// The closure returns an [`io::Result`], as reading does. An error that it returns becomes
    /// the outcome of that request; so does a panic. Others than I/O errors go through
    /// [`io::Error::other`]. But after an error of the body's own that may pass, given on with `?`,
    /// it is called anew for the next attempt, with a body that
    /// [`is_restart`](Body::is_restart).
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
            limit: self.engine.max_file,
        };
        Batch::new(requests.into_iter(), batch::open(&self.engine, sink))
    }

    /// For requests that come up as one goes: push them from any thread, read the outcomes
    /// from another or the same.
    pub fn open(&self) -> (Jobs, Outcomes<Fetched>) {
        let sink = Memory::new(self.engine.max_body, None);
        let outcomes = batch::open(&self.engine, sink);
        (outcomes.jobs(), outcomes)
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
        let outcomes = batch::open_pushing(&self.engine, closure, self.engine.max_file);
        (outcomes.jobs(), outcomes)
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
            self.engine.scheduler.acquire(keys, None)
        })?;
        Ok(permit.expect("without a time limit"))
    }

    /// As [`permit`](Self::permit), but `None` if it would have to wait.
    ///
    /// # Errors
    /// As `permit`.
    pub fn try_permit(&self, request: impl Into<Request>) -> Result<Option<Permit>, Error> {
        self.acquire(&request.into(), |keys| {
            self.engine.scheduler.try_acquire(keys)
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
            self.engine.scheduler.acquire(keys, deadline)
        })
    }

    fn acquire(
        &self,
        request: &Request,
        acquire: impl FnOnce(Keys<'_>) -> Result<Permit, Denied>,
    ) -> Result<Option<Permit>, Error> {
        let failed = |fault| {
            Error::bare(
                fault,
                Some(request.shown(self.engine.rules.client.secrets())),
            )
        };
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
        self.engine.scheduler.set_capacity(key, capacity);
    }

    /// Forgets the addresses of all hosts, so that they are looked up anew. Connections that
    /// are open stay so.
    pub fn flush_dns(&self) {
        self.engine.rules.client.flush_names();
    }

    /// Ends all batches within a second. What is being fetched is cut off, and what is not done
    /// comes out as [`ErrorKind::Cancelled`]; so does what is asked for later.
    ///
    /// A look-up that the system's resolver is at goes on in a thread of its own until that is
    /// through: nothing can interrupt it, and nobody waits for it.
    pub fn shutdown(&self) {
        self.engine.scheduler.stop();
    }
}

impl fmt::Debug for Downloader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Downloader").finish_non_exhaustive()
    }
}
