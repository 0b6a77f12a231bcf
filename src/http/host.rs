//! What lives with a host's budget: its connections, and whether it can be reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Client;
use super::circuit::{Circuit, HostBreaker};

/// The connections to one host. Dropping it closes those that idle.
pub(crate) struct Host {
    /// Guards which agent is used; cloned out of it for each request.
    agent: Mutex<Arc<ureq::Agent>>,
    /// Guards the count of failures.
    circuit: Mutex<Circuit>,
    /// There are some. Else nobody takes that lock.
    is_in_trouble: AtomicBool,
}

impl Host {
    pub(super) fn new(agent: ureq::Agent) -> Self {
        Self {
            agent: Mutex::new(Arc::new(agent)),
            circuit: Mutex::default(),
            is_in_trouble: AtomicBool::new(false),
        }
    }

    pub(super) fn agent(&self) -> Arc<ureq::Agent> {
        Arc::clone(&self.agent.lock())
    }

    /// Closes the connections that idle. Those in use are closed after their response.
    pub(crate) fn shed(&self, client: &Client) {
        let fresh = Arc::new(client.agent());
        let old = std::mem::replace(&mut *self.agent.lock(), fresh);
        // Not under the lock: this closes sockets.
        drop(old);
    }

    /// How long nobody may ask the host, if it has not been reached for some time. Who gets
    /// `None` is to say what came of it.
    pub(crate) fn closed_for(&self) -> Option<Duration> {
        if !self.is_in_trouble.load(Ordering::Acquire) {
            return None;
        }
        self.circuit.lock().closed_for(Instant::now())
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
