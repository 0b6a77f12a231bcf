//! What an origin has seen and sees now.

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::census::Census;
use super::process::without_copied_sockets;
use super::{Incoming, PATIENCE};

/// A count of things that come and go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// How many there have been.
    pub total: u64,
    /// How many there are now.
    pub now: u64,
    /// The most that there were at one time, by the client's doing: see [`Stats`].
    pub peak: u64,
}

/// The counts of an origin at one moment.
///
/// A request is in flight from its last header byte until its reply's last byte or, where only that ends the reply, the end
/// of the connection. So that a client which acts on the last byte at once is never seen to exceed its limit, a request is
/// taken out just *before* the last bytes (at most 64 KiB) or the FIN or RST are sent, and a peak leaves out connections that
/// the client has closed (on Linux) or the origin has begun to close. `now` knows nothing of the client's leaving until the
/// handler reads or writes, and so may exceed the peak. Pipelined requests count when their turn comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests; `now` are those in flight.
    pub requests: Flow,
    /// Accepted connections; `now` are those whose socket the origin still holds.
    pub connections: Flow,
    /// Heads that were not HTTP/1; each got a bare `400` and the connection closed.
    pub malformed: u64,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Everything below; never held while a handler runs or while anything blocks.
    state: Mutex<State>,
    /// Told after every change.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stats: Stats,
    hosts: HashMap<String, Flow>,
    visits: HashMap<String, u64>,
    log: Vec<Arc<Incoming>>,
    forgetful: bool,
    stopping: bool,
    /// The message of the first panic of a handler.
    failure: Option<String>,
    /// The accepted sockets, so that a stop can shut them down and a peak can ask who is still there.
    open: HashMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    stream: Arc<TcpStream>,
    /// The `Host` of the request in flight.
    serving: Option<String>,
    closing: bool,
}

impl Ledger {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.lock());
        self.changed.notify_all();
        result
    }

    /// Enters a new connection; `None` once the origin stops.
    pub(super) fn accepted(&self, stream: &Arc<TcpStream>) -> Option<u64> {
        self.change(|state| {
            if state.stopping {
                return None;
            }
            state.stats.connections.begin();
            let id = state.stats.connections.total;
            let open = Open {
                stream: stream.clone(),
                serving: None,
                closing: false,
            };
            state.open.insert(id, open);
            if state.stats.connections.is_higher() {
                let live = state.live(|_| true).len();
                state.stats.connections.rise(live);
            }
            Some(id)
        })
    }

    /// Enters a request, whose last header byte has come.
    pub(super) fn begun(&self, connection: u64, mut incoming: Incoming) -> Arc<Incoming> {
        self.change(|state| {
            let host = incoming.host().to_owned();
            if let Some(open) = state.open.get_mut(&connection) {
                open.serving = Some(host.clone());
            }
            let flow = state.hosts.entry(host.clone()).or_default();
            flow.begin();
            state.stats.requests.begin();
            if flow.is_higher() || state.stats.requests.is_higher() {
                let live = state.live(|open| open.serving.is_some());
                let of_host = live
                    .iter()
                    .filter(|open| open.serving.as_ref() == Some(&host))
                    .count();
                let live = live.len();
                state.stats.requests.rise(live);
                state.hosts.entry(host).or_default().rise(of_host);
            }
            if !state.forgetful {
                let visit = state
                    .visits
                    .entry(incoming.target().to_owned())
                    .or_default();
                *visit += 1;
                incoming.set_visit(*visit);
            }
            let incoming = Arc::new(incoming);
            if !state.forgetful {
                state.log.push(incoming.clone());
            }
            incoming
        })
    }

    /// The request of this connection, if any, is no longer in flight.
    pub(super) fn ended(&self, connection: u64) {
        self.change(|state| state.end(connection));
    }

    /// The origin is about to close this connection: call it before the client can notice.
    pub(super) fn closing(&self, connection: u64) {
        self.change(|state| {
            state.end(connection);
            if let Some(open) = state.open.get_mut(&connection) {
                open.closing = true;
            }
        });
    }

    /// Gives the ledger's hold on the socket up, so that dropping the caller's closes it.
    pub(super) fn let_go(&self, connection: u64) {
        self.change(|state| state.open.remove(&connection));
    }

    /// The socket is closed.
    pub(super) fn closed(&self) {
        self.change(|state| state.stats.connections.now -= 1);
    }

    pub(super) fn malformed(&self) {
        self.change(|state| state.stats.malformed += 1);
    }

    pub(super) fn failed(&self, message: String) {
        self.change(|state| state.failure.get_or_insert(message).len());
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.state.lock().failure.clone()
    }

    /// From now on nobody is let in; the connections there are fall silent.
    pub(super) fn stop(&self) {
        self.change(|state| {
            state.stopping = true;
            for open in state.open.values() {
                // One that the client has reset already cannot be shut down, and need not be.
                let _ = open.stream.shutdown(std::net::Shutdown::Both);
            }
        });
    }

    pub(super) fn stopping(&self) -> bool {
        self.state.lock().stopping
    }

    pub(super) fn stats(&self) -> Stats {
        self.state.lock().stats
    }

    pub(super) fn host(&self, host: &str) -> Flow {
        self.state
            .lock()
            .hosts
            .get(host)
            .copied()
            .unwrap_or_default()
    }

    pub(super) fn log(&self) -> Vec<Arc<Incoming>> {
        self.state.lock().log.clone()
    }

    pub(super) fn forget(&self) {
        self.change(|state| {
            state.forgetful = true;
            state.log = Vec::new();
            state.visits = HashMap::new();
        });
    }

    /// Waits until the counts are as wanted; says in the error what they are instead after [`PATIENCE`].
    pub(super) fn wait_until(
        &self,
        mut wanted: impl FnMut(&Stats) -> bool,
    ) -> Result<Stats, Stats> {
        let mut state = self.state.lock();
        let late = self
            .changed
            .wait_while_for(&mut state, |state| !wanted(&state.stats), PATIENCE);
        if late.timed_out() {
            Err(state.stats)
        } else {
            Ok(state.stats)
        }
    }
}

impl State {
    /// Those of the wanted connections that neither side has begun to close.
    fn live(&self, wanted: impl Fn(&Open) -> bool) -> Vec<&Open> {
        without_copied_sockets(|| {
            let census = Census::new();
            let there =
                |open: &&Open| !open.closing && wanted(open) && !census.has_left(&open.stream);
            self.open.values().filter(there).collect()
        })
    }

    fn end(&mut self, connection: u64) {
        let Some(host) = self
            .open
            .get_mut(&connection)
            .and_then(|open| open.serving.take())
        else {
            return;
        };
        self.stats.requests.now -= 1;
        if let Some(flow) = self.hosts.get_mut(&host) {
            flow.now -= 1;
        }
    }
}

impl Flow {
    fn begin(&mut self) {
        self.total += 1;
        self.now += 1;
    }

    /// Whether there may be a new peak: only then it is worth asking who is still there.
    fn is_higher(self) -> bool {
        self.now > self.peak
    }

    fn rise(&mut self, live: usize) {
        self.peak = self.peak.max(live as u64);
    }
}
