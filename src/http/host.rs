//! What lives with a host's budget: its connections, and whether it can be reached.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Client;
use super::agent;
use super::circuit::{Circuit, HostBreaker};
use super::transport::Connection;

/// The connections to one host. Dropping it closes those that idle.
///
/// Each has an agent of its own, and both are lent to one job at a time: what an agent counts and
/// locks is not waited for by others.
#[derive(Default)]
pub(crate) struct Host {
    /// Guards the connections that nobody uses; held as long as it takes to move one.
    idle: Mutex<Idle>,
    /// Guards the count of failures.
    circuit: Mutex<Circuit>,
    /// There are some. Else nobody takes that lock.
    is_in_trouble: AtomicBool,
}

#[derive(Default)]
struct Idle {
    /// The last one used is used next: it is the warmest, and the others age at the front.
    kept: VecDeque<Kept>,
    /// How often all were let go of.
    shed: u32,
}

struct Kept {
    since: Instant,
    connection: Box<Connection>,
    agent: ureq::Agent,
}

/// An agent in use. As this goes, it goes back with the connection of the last exchange, if that can be
/// used again.
pub(super) struct Lease {
    /// Taken out as this is dropped.
    agent: Option<ureq::Agent>,
    host: Arc<Host>,
    shed: u32,
}

impl Lease {
    pub(super) fn agent(&self) -> &ureq::Agent {
        self.agent.as_ref().expect("there until it is dropped")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let done = agent::take_back();
        let (Some(connection), Some(agent)) = (done, self.agent.take()) else {
            return;
        };
        if !connection.is_idle() {
            return;
        }
        let kept = Kept {
            since: Instant::now(),
            connection,
            agent,
        };
        let mut idle = self.host.idle.lock();
        if idle.shed == self.shed {
            idle.kept.push_back(kept);
        }
        // Else it goes after the lock, which is the younger: that closes a socket.
    }
}

impl Host {
    /// With the connection that it is to be used on, unless that is to be a new one.
    pub(super) fn lease(self: &Arc<Self>, client: &Client) -> (Lease, Option<Box<Connection>>) {
        let is_old = |kept: &Kept| kept.since.elapsed() >= client.idle_age;
        loop {
            let mut idle = self.idle.lock();
            let (kept, shed) = (idle.kept.pop_back(), idle.shed);
            // Nobody else looks at those that a busy host does not need. One a lease keeps up.
            let old = idle.kept.front().is_some_and(is_old);
            let old = old.then(|| idle.kept.pop_front());
            drop(idle);
            // Not under the lock: this closes a socket.
            drop(old);
            let (connection, agent) = match kept {
                Some(kept) if is_old(&kept) || !kept.connection.is_silent() => continue,
                Some(kept) => (Some(kept.connection), kept.agent),
                None => (None, client.agent()),
            };
            let lease = Lease {
                agent: Some(agent),
                host: Arc::clone(self),
                shed,
            };
            return (lease, connection);
        }
    }

    /// Closes the connections that idle. Those in use are closed after their response.
    pub(crate) fn shed(&self) {
        let mut idle = self.idle.lock();
        idle.shed = idle.shed.wrapping_add(1);
        let kept = std::mem::take(&mut idle.kept);
        drop(idle);
        // Not under the lock: this closes sockets.
        drop(kept);
    }

    /// How long nobody may ask the host, if it has not been reached for some time. Who gets
    /// `None` is to say what came of it.
    pub(crate) fn closed_for(&self, breaker: &HostBreaker) -> Option<Duration> {
        if !self.is_in_trouble.load(Ordering::Acquire) {
            return None;
        }
        self.circuit.lock().closed_for(breaker, Instant::now())
    }

    /// Whether a connection was had.
    pub(crate) fn note(&self, breaker: &HostBreaker, reached: bool) {
        if reached && !self.is_in_trouble.load(Ordering::Acquire) {
            return;
        }
        let mut circuit = self.circuit.lock();
        let is_well = circuit.note(breaker, reached, Instant::now());
        // Under the lock, so that it says what that says.
        self.is_in_trouble.store(!is_well, Ordering::Release);
    }
}
