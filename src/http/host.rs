//! What lives with a host's budget: its connections, and whether it can be reached.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Client;
use super::circuit::{Circuit, HostBreaker};

/// The connections to one host. Dropping it closes those that idle.
///
/// Each is an agent's of its own, lent to one job at a time: an agent that several jobs share
/// looks at its idle connections, with a system call, under the lock that all of them need.
#[derive(Default)]
pub(crate) struct Host {
    /// Guards the agents that nobody uses; held as long as it takes to move one.
    idle: Mutex<Idle>,
    /// Guards the count of failures.
    circuit: Mutex<Circuit>,
    /// There are some. Else nobody takes that lock.
    is_in_trouble: AtomicBool,
}

#[derive(Default)]
struct Idle {
    /// With the time since when. The last one used is used next: its connection is the warmest,
    /// and the others age at the front.
    agents: VecDeque<(Instant, ureq::Agent)>,
    /// How often all were let go of.
    shed: u32,
}

/// An agent in use. It goes back when this goes, with its connection if that can be used again.
pub(super) struct Lease {
    /// Taken out as this is dropped.
    agent: Option<ureq::Agent>,
    host: Arc<Host>,
    shed: u32,
}

impl Deref for Lease {
    type Target = ureq::Agent;

    fn deref(&self) -> &ureq::Agent {
        self.agent.as_ref().expect("there until it is dropped")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut idle = self.host.idle.lock();
        if idle.shed == self.shed {
            let now = Instant::now();
            idle.agents
                .extend(self.agent.take().map(|agent| (now, agent)));
        }
        // One that stays is dropped after the lock: that closes a socket.
    }
}

impl Host {
    pub(super) fn lease(self: &Arc<Self>, client: &Client) -> Lease {
        let mut idle = self.idle.lock();
        let (agent, shed) = (idle.agents.pop_back(), idle.shed);
        // Nobody else looks at those that a busy host does not need. One a lease keeps up.
        let is_old = |(since, _): &(Instant, _)| since.elapsed() >= client.idle_age();
        let old = idle.agents.front().is_some_and(is_old);
        let old = old.then(|| idle.agents.pop_front());
        drop(idle);
        // Not under the lock: this closes a socket.
        drop(old);
        let agent = agent.map(|(_, agent)| agent);
        Lease {
            agent: Some(agent.unwrap_or_else(|| client.agent())),
            host: Arc::clone(self),
            shed,
        }
    }

    /// Closes the connections that idle. Those in use are closed after their response.
    pub(crate) fn shed(&self) {
        let mut idle = self.idle.lock();
        idle.shed = idle.shed.wrapping_add(1);
        let agents = std::mem::take(&mut idle.agents);
        drop(idle);
        // Not under the lock: this closes sockets.
        drop(agents);
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
