//! Whatever goes on, whoever ends it: it ends at once, each request has one outcome, and nothing
//! is left of it. Every ending at a moment in every phase, each pair in a process of its own.
#![cfg(target_os = "linux")]

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fetchpool::{
    Body, Builder, Downloader, Error, ErrorKind, HostBreaker, Request, Resolve, RetryPolicy,
};

use super::files::Directory;
use crate::support::{self, Dead, Gate, Origin, Reply};
use crate::{n, with};

const PHASES: [&str; 13] = [
    "resolve",
    "connect",
    "handshake",
    "header",
    "body to memory",
    "body to a file",
    "body to a closure",
    "closure",
    "back-off",
    "line",
    "line of a budget",
    "Retry-After",
    "breaker",
];

/// In the environment of the process: its phase.
const PHASE: &str = "FETCHPOOL_TEST_PHASE";

/// Generous: the promise is a second, and the machine may be busy.
const SOON: Duration = Duration::from_secs(5);
const JOBS: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Cancel,
    DropBatch,
    Shutdown,
    DropAll,
}

#[test]
fn cancelling_ends_whatever_goes_on_and_leaves_nothing() {
    in_each_phase(
        "ends::cancelling_ends_whatever_goes_on_and_leaves_nothing",
        Ending::Cancel,
    );
}

#[test]
fn dropping_the_batch_ends_whatever_goes_on_and_leaves_nothing() {
    in_each_phase(
        "ends::dropping_the_batch_ends_whatever_goes_on_and_leaves_nothing",
        Ending::DropBatch,
    );
}

#[test]
fn shutting_down_ends_whatever_goes_on_and_leaves_nothing() {
    in_each_phase(
        "ends::shutting_down_ends_whatever_goes_on_and_leaves_nothing",
        Ending::Shutdown,
    );
}

#[test]
fn dropping_the_last_handle_ends_whatever_goes_on_and_leaves_nothing() {
    in_each_phase(
        "ends::dropping_the_last_handle_ends_whatever_goes_on_and_leaves_nothing",
        Ending::DropAll,
    );
}

fn in_each_phase(test: &str, ending: Ending) {
    if let Ok(phase) = env::var(PHASE) {
        return end(ending, &phase);
    }
    for phase in PHASES {
        let variables: [(&str, &OsStr); 1] = [(PHASE, phase.as_ref())];
        assert!(!support::alone_in(test, &variables), "{phase}");
    }
}

/// What is behind a phase, and how it is known to have been reached.
struct Scene {
    urls: Vec<String>,
    sink: SinkKind,
    settings: Box<dyn FnOnce(Builder) -> Builder>,
    reached: Box<dyn Fn()>,
    /// Lets what cannot be interrupted come to its end: the caller's own code.
    release: Gate,
    /// Kept for as long as the scene.
    origin: Option<Arc<Origin>>,
    _keep: Box<dyn std::any::Any>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SinkKind {
    Memory,
    File,
    ReadingClosure,
    WaitingClosure,
}

struct Hanging(Gate);

impl Resolve for Hanging {
    fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        self.0.wait();
        Err(io::Error::other("nobody is interested any more"))
    }
}

impl Scene {
    fn at(origin: Origin, reached: impl Fn(&Origin) + 'static) -> Self {
        let origin = Arc::new(origin);
        let watched = Arc::clone(&origin);
        Self {
            urls: (0..JOBS).map(|i| origin.url(&format!("/{i}"))).collect(),
            sink: SinkKind::Memory,
            settings: Box::new(|b| b),
            reached: Box::new(move || reached(&watched)),
            release: Gate::new(),
            origin: Some(origin),
            _keep: Box::new(()),
        }
    }

    fn elsewhere(url: &str, keep: impl std::any::Any, reached: impl Fn() + 'static) -> Self {
        Self {
            urls: vec![url.to_owned(); JOBS],
            sink: SinkKind::Memory,
            settings: Box::new(|b| b),
            reached: Box::new(reached),
            release: Gate::new(),
            origin: None,
            _keep: Box::new(keep),
        }
    }

    fn into(self, sink: SinkKind) -> Self {
        Self { sink, ..self }
    }

    fn with(self, settings: impl FnOnce(Builder) -> Builder + 'static) -> Self {
        Self {
            settings: Box::new(settings),
            ..self
        }
    }

    fn of(phase: &str, directory: &Directory) -> Self {
        let half = || Origin::start(|_| Reply::ok("half").declared_length(100).then_stall());
        let all_asked = |origin: &Origin| {
            origin.wait_until(|stats| stats.requests.now == JOBS as u64);
        };
        let patient = || RetryPolicy::new().retries(u32::MAX);
        match phase {
            "resolve" => {
                let gate = Gate::new();
                let asked = gate.clone();
                let reached = move || asked.wait_for_waiters(1);
                let scene = Self::elsewhere("http://slow.test:9/", (), reached);
                let resolver = Hanging(gate.clone());
                Self {
                    release: gate,
                    ..scene.with(|b| b.resolver(resolver))
                }
            }
            "connect" => {
                let dead = Dead::unreachable();
                let url = dead.url("/");
                let before = support::open_sockets();
                Self::elsewhere(&url, dead, move || {
                    support::eventually("all connect", || support::open_sockets() >= before + JOBS);
                })
            }
            "handshake" => {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let url = format!("https://{}/", listener.local_addr().unwrap());
                let accepting = listener.try_clone().unwrap();
                let scene = Self::elsewhere(&url, listener, move || {
                    for _ in 0..JOBS {
                        let (mut stream, _) = accepting.accept().unwrap();
                        stream.read_exact(&mut [0]).unwrap();
                        // Held until the client goes.
                        thread::spawn(move || io::copy(&mut stream, &mut io::sink()));
                    }
                });
                scene.with(|b| b)
            }
            "header" => Self::at(Origin::start(|_| Reply::nothing().then_stall()), all_asked),
            "body to memory" => Self::at(half(), all_asked),
            "body to a file" => {
                let path = directory.0.clone();
                let begun = move |_: &Origin| {
                    support::eventually("all have a file", || {
                        fs::read_dir(&path).is_ok_and(|files| files.count() == JOBS)
                    });
                };
                Self::at(half(), begun).into(SinkKind::File)
            }
            "body to a closure" => Self::at(half(), all_asked).into(SinkKind::ReadingClosure),
            "closure" => {
                let scene = Self::at(Origin::start(|_| Reply::ok("whole")), |_| {});
                let entered = scene.release.clone();
                Self {
                    reached: Box::new(move || entered.wait_for_waiters(JOBS)),
                    ..scene.into(SinkKind::WaitingClosure)
                }
            }
            "back-off" => {
                let sorry = Origin::start(|_| Reply::status(500).body("sorry"));
                let all_failed = |origin: &Origin| {
                    origin.wait_until(|stats| stats.requests.total >= JOBS as u64);
                };
                let long = Duration::from_secs(30);
                let policy = patient().base(long).cap(long).total_pause(Duration::MAX);
                Self::at(sorry, all_failed).with(|b| b.retry(policy))
            }
            "line" => {
                let one_asked = |origin: &Origin| {
                    origin.wait_until(|stats| stats.requests.now == 1);
                };
                Self::at(half(), one_asked).with(|b| b.per_host(n(1)))
            }
            "line of a budget" => {
                let one_asked = |origin: &Origin| {
                    origin.wait_until(|stats| stats.requests.now == 1);
                };
                Self::at(half(), one_asked).with(|b| b.limit(account(), n(1)))
            }
            "Retry-After" => {
                let busy = Origin::start(|_| Reply::status(503).header("retry-after", "1"));
                let one_failed = |origin: &Origin| {
                    origin.wait_until(|stats| stats.requests.total >= 1);
                };
                let policy = patient().total_pause(Duration::MAX);
                Self::at(busy, one_failed).with(|b| b.retry(policy))
            }
            "breaker" => {
                let dead = Dead::refusing();
                let url = dead.url("/");
                let tried = Arc::new(AtomicUsize::new(0));
                let count = Arc::clone(&tried);
                let scene = Self::elsewhere(&url, dead, move || {
                    support::eventually("one has failed", || tried.load(Ordering::SeqCst) > 0);
                });
                let breaker = HostBreaker::new()
                    .failures(1.try_into().unwrap())
                    .cool_down(Duration::from_millis(500))
                    .wait(true);
                let policy = patient().base(Duration::ZERO).decide(move |_| {
                    count.fetch_add(1, Ordering::SeqCst);
                    None
                });
                scene.with(|b| b.host_breaker(breaker).retry(policy))
            }
            _ => unreachable!("{phase}"),
        }
    }
}

fn account() -> fetchpool::Key {
    fetchpool::Key::named("account")
}

/// A tag: how many there are tells how many requests.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

type End = Result<(), ErrorKind>;

fn kind<T>(outcome: Result<T, Error>) -> End {
    outcome.map(drop).map_err(|error| error.kind())
}

fn open(
    scene: &Scene,
    downloader: &Downloader,
    directory: &Directory,
    alive: &Arc<AtomicUsize>,
) -> (Box<dyn Iterator<Item = End>>, fetchpool::Canceller) {
    // The last has its outcome at once, and so the first that is asked for is there when all have
    // been let in.
    let urls = scene.urls.iter().map(String::as_str).chain(["no URL"]);
    let requests: Vec<_> = urls
        .map(|url| Request::new(url).budget(account()).tag(Counted::new(alive)))
        .collect();
    match scene.sink {
        SinkKind::Memory => {
            let batch = downloader.fetch_all(requests);
            let canceller = batch.canceller();
            (Box::new(batch.map(kind)), canceller)
        }
        SinkKind::File => {
            let batch = downloader.save_all(requests, &directory.0);
            let canceller = batch.canceller();
            (Box::new(batch.map(kind)), canceller)
        }
        SinkKind::ReadingClosure => {
            let read = |mut body: Body<'_>| io::copy(&mut body, &mut io::sink());
            let batch = downloader.fetch_with(requests, read);
            let canceller = batch.canceller();
            (Box::new(batch.map(kind)), canceller)
        }
        SinkKind::WaitingClosure => {
            let gate = scene.release.clone();
            let batch = downloader.fetch_with(requests, move |_| {
                gate.wait();
                Ok(())
            });
            let canceller = batch.canceller();
            (Box::new(batch.map(kind)), canceller)
        }
    }
}

fn open_handles() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn end(ending: Ending, phase: &str) {
    let directory = Directory::new("ends");
    let mut scene = Scene::of(phase, &directory);
    let handles = open_handles();
    let settings = std::mem::replace(&mut scene.settings, Box::new(|b| b));
    // Long time limits: none of them is what ends this.
    let long = Duration::from_secs(600);
    let downloader = with(|b| settings(b.connect_timeout(long).idle_timeout(long)));
    let alive = Arc::new(AtomicUsize::new(0));
    let (mut batch, canceller) = open(&scene, &downloader, &directory, &alive);
    let mut outcomes = vec![batch.next().expect("there are some")];
    (scene.reached)();

    let begun = Instant::now();
    match ending {
        Ending::Cancel => canceller.cancel(),
        Ending::Shutdown => downloader.shutdown(),
        // A worker that is in the caller's code is waited for.
        Ending::DropAll if phase == "closure" => canceller.cancel(),
        Ending::DropBatch | Ending::DropAll => {}
    }
    if phase == "closure" {
        scene.release.open();
    }
    let downloader = match ending {
        Ending::Cancel | Ending::Shutdown => {
            outcomes.extend(batch);
            assert_all_have_one(&outcomes, phase);
            Some(downloader)
        }
        Ending::DropBatch => {
            drop(batch);
            Some(downloader)
        }
        Ending::DropAll => {
            drop(downloader);
            drop(batch);
            None
        }
    };
    let took = begun.elapsed();
    assert!(took < SOON, "{phase}: {took:?}");

    if let (Ending::Cancel | Ending::DropBatch, Some(downloader)) = (ending, &downloader) {
        full_capacity(&scene, downloader, phase);
    }
    let begun = Instant::now();
    drop(downloader);
    let took = begun.elapsed();
    assert!(took < SOON, "{phase}, the downloader's drop: {took:?}");
    support::eventually("every request is gone", || {
        alive.load(Ordering::SeqCst) == 0
    });
    scene.release.open();
    support::eventually("the threads are gone", || {
        support::threads_named("fetchpool") == 0
    });
    if let Some(origin) = &scene.origin {
        origin.wait_until(|stats| stats.connections.now == 0);
    }
    support::eventually("sockets and files are closed", || open_handles() <= handles);
    let left = fs::read_dir(&directory.0).map_or(0, |files| files.count());
    assert_eq!(left, 0, "{phase}: files are left");
}

fn assert_all_have_one(outcomes: &[End], phase: &str) {
    let count = |end: End| outcomes.iter().filter(|other| **other == end).count();
    assert_eq!(outcomes.len(), JOBS + 1, "{phase}: {outcomes:?}");
    assert_eq!(
        count(Err(ErrorKind::InvalidUrl)),
        1,
        "{phase}: {outcomes:?}"
    );
    let (done, cancelled) = (count(Ok(())), count(Err(ErrorKind::Cancelled)));
    assert_eq!(done + cancelled, JOBS, "{phase}: {outcomes:?}");
    assert!(done == 0 || phase == "closure", "{phase}: {outcomes:?}");
}

/// All tokens are there, for a batch or a permit that comes now.
fn full_capacity(scene: &Scene, downloader: &Downloader, phase: &str) {
    let most = match phase {
        "line" => 1,
        _ => 6,
    };
    // Jobs of a closure that could not be interrupted end in their own time, as does a
    // `Retry-After` of the host's.
    let permits: Vec<_> = (0..most)
        .map(|_| downloader.permit_timeout(&scene.urls[0], SOON).unwrap())
        .collect();
    assert!(permits.iter().all(Option::is_some), "{phase}");
    drop(permits);
    let with_account = Request::new(&scene.urls[0]).budget(account());
    let permit = downloader.permit_timeout(with_account, SOON).unwrap();
    assert!(permit.is_some(), "{phase}");
}
