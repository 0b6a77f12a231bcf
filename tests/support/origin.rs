//! The server: one thread that accepts, one a connection.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::connection::Connection;
use super::ledger::Ledger;
use super::{Flow, Incoming, PATIENCE, Reply, Stats};

/// A scripted HTTP/1.1 server on a loopback address. Dropping it ends it, its connections and its threads, wherever they
/// wait, and panics if a handler has panicked.
pub struct Origin {
    addr: SocketAddr,
    shared: Arc<Shared>,
    listener: Arc<TcpListener>,
    /// The only sender of the stop signal: dropped to give it.
    stop: Option<Sender<()>>,
    accepting: Option<JoinHandle<()>>,
}

type Handler = dyn Fn(&Incoming) -> Reply + Send + Sync;

/// What an origin's threads share.
pub(super) struct Shared {
    pub(super) handler: Box<Handler>,
    pub(super) ledger: Ledger,
    pub(super) stop: Receiver<()>,
    /// Of every thread, with the port in it: see [`Origin::thread_name`].
    name: String,
}

impl Origin {
    /// Starts an origin on a free port of 127.0.0.1; `handler` answers each request, on the connection's thread.
    pub fn start(handler: impl Fn(&Incoming) -> Reply + Send + Sync + 'static) -> Self {
        Self::bind("127.0.0.1:0", handler)
    }

    /// Starts `count` origins with one handler, each on a port of its own: as many hosts. They can be told apart by
    /// [`Incoming::host`].
    pub fn many(
        count: usize,
        handler: impl Fn(&Incoming) -> Reply + Send + Sync + 'static,
    ) -> Vec<Self> {
        let handler = Arc::new(handler);
        let start = |_| {
            let handler = handler.clone();
            Self::start(move |incoming| handler(incoming))
        };
        (0..count).map(start).collect()
    }

    /// Starts an origin on another loopback address, such as `127.0.0.5:0` or `[::1]:0`.
    pub fn bind(addr: &str, handler: impl Fn(&Incoming) -> Reply + Send + Sync + 'static) -> Self {
        let listener =
            TcpListener::bind(addr).unwrap_or_else(|e| panic!("cannot bind {addr}: {e}"));
        Self::on(listener, handler)
    }

    /// Starts an origin on a socket that listens.
    pub fn on(
        listener: TcpListener,
        handler: impl Fn(&Incoming) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let addr = listener
            .local_addr()
            .expect("a bound socket has an address");
        assert!(addr.ip().is_loopback(), "{addr} is not a loopback address");
        let listener = Arc::new(listener);
        let (stop, stopped) = bounded(0);
        let shared = Arc::new(Shared {
            handler: Box::new(handler),
            ledger: Ledger::default(),
            stop: stopped,
            name: format!("origin:{}", addr.port()),
        });
        let accepting = spawn(&shared, {
            let (shared, listener) = (shared.clone(), listener.clone());
            move || accept(&shared, &listener)
        });
        let accepting = Some(accepting.expect("cannot start the thread of an origin"));
        Self {
            addr,
            shared,
            listener,
            stop: Some(stop),
            accepting,
        }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The `http` URL of a target, which begins with a slash.
    pub fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.addr)
    }

    /// The same with another spelling of the host, such as `localhost` or `LOCALHOST.`.
    pub fn url_as(&self, host: &str, target: &str) -> String {
        format!("http://{host}:{}{target}", self.addr.port())
    }

    /// The counts, now.
    pub fn stats(&self) -> Stats {
        self.shared.ledger.stats()
    }

    /// The counts of the requests with exactly this `Host` header: for an origin that plays a proxy or several hosts.
    pub fn stats_for_host(&self, host: &str) -> Flow {
        self.shared.ledger.host(host)
    }

    /// Blocks until the counts are as wanted and returns them. `wanted` must not ask the origin anything.
    ///
    /// # Panics
    /// After [`PATIENCE`].
    #[track_caller]
    pub fn wait_until(&self, wanted: impl FnMut(&Stats) -> bool) -> Stats {
        match self.shared.ledger.wait_until(wanted) {
            Ok(stats) => stats,
            Err(stats) => panic!("not as wanted after {PATIENCE:?}: {stats:?}"),
        }
    }

    /// All requests so far, in the order of their last header bytes.
    pub fn log(&self) -> Vec<Arc<Incoming>> {
        self.shared.ledger.log()
    }

    /// The targets of all requests so far, in that order.
    pub fn targets(&self) -> Vec<String> {
        self.log()
            .iter()
            .map(|incoming| incoming.target().to_owned())
            .collect()
    }

    /// Keeps no log and no visits ([`Incoming::visit`] is 0 then), and forgets what there is: for runs of a million
    /// requests of which the memory is measured.
    pub fn without_log(self) -> Self {
        self.shared.ledger.forget();
        self
    }

    /// The name of each of its threads, unique while it lives: for [`threads_named`](super::threads_named).
    pub fn thread_name(&self) -> &str {
        &self.shared.name
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin")
            .field("addr", &self.addr)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.ledger.stop();
        self.stop = None;
        wake(&self.listener, self.addr);
        // Only a handler that waits for something else than gates, pauses and the socket can be late: say so, do not hang.
        let ended = self
            .shared
            .ledger
            .wait_until(|stats| stats.connections.now == 0);
        let trouble = if ended.is_err() {
            Some(format!("a handler has not returned for {PATIENCE:?}"))
        } else {
            let joined = self.accepting.take().map_or(Ok(()), JoinHandle::join);
            let accepting = joined
                .err()
                .map(|_| "its accepting thread panicked".to_owned());
            self.shared.ledger.failure().or(accepting)
        };
        if let Some(trouble) = trouble {
            // Beside a panic that is under way, a second one would abort the whole test binary.
            assert!(
                thread::panicking(),
                "the origin at {}: {trouble}",
                self.addr
            );
        }
    }
}

/// Ends the blocking `accept`: Linux does so when the listener is shut down, others when somebody comes.
fn wake(listener: &TcpListener, addr: SocketAddr) {
    if socket2::SockRef::from(listener)
        .shutdown(std::net::Shutdown::Both)
        .is_err()
    {
        // If it fails the backlog is full of clients, each of whom wakes it.
        let _ = TcpStream::connect_timeout(&addr, Duration::from_secs(1));
    }
}

fn spawn(shared: &Shared, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(shared.name.clone()).spawn(work)
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    loop {
        let accepted = listener.accept();
        if shared.ledger.stopping() {
            break;
        }
        match accepted {
            Ok((stream, _)) => {
                let Some(connection) = Connection::new(shared, stream) else {
                    break;
                };
                match spawn(shared, move || connection.run()) {
                    Ok(thread) => threads.push(thread),
                    // The connection has been closed with the closure.
                    Err(e) => shared.ledger.failed(format!("cannot start a thread: {e}")),
                }
            }
            // Out of file handles: the backlog waits until there are some, and a stop ends the wait.
            Err(_) => drop(shared.stop.recv_timeout(Duration::from_millis(5))),
        }
        let (finished, running) = threads.into_iter().partition(JoinHandle::is_finished);
        join(finished);
        threads = running;
    }
    join(threads);
}

fn join(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        // A connection's thread catches its panics, and has told the ledger of them.
        let _ = thread.join();
    }
}
