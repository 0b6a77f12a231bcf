//! Look-ups: one at a time for a name, on a few threads, waited for within a limit.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::cache::{Answer, Failure, wanted};
use super::{Cache, Settings, no_address, normal, wire};
use crate::fault::{ErrorKind, Fault};
use crate::schedule::Interrupt;

/// As many look-ups at once, and so as many threads. More would only be more questions at the
/// same name server.
const THREADS: usize = 8;
/// A thread with nothing to look up ends after this.
const LINGER: Duration = Duration::from_secs(5);

pub(crate) struct Lookups {
    settings: Settings,
    fixed: HashMap<String, Vec<IpAddr>>,
    /// Shared with the look-up threads, which may outlive this by the time that the system's
    /// resolver takes: nothing can interrupt that.
    shared: Arc<Shared>,
}

struct Shared {
    /// Guards the cache and the queue. Never held during a look-up; no other lock is taken
    /// under it.
    state: Mutex<State>,
    /// An answer has come, or a job that waits for one has been interrupted.
    answered: Condvar,
    /// Something is in the queue, or it has been closed.
    asked: Condvar,
}

#[derive(Default)]
struct State {
    cache: Cache,
    queue: VecDeque<String>,
    /// Names that are in the queue or being looked up.
    pending: Vec<String>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Interrupt for Shared {
    fn interrupt(&self) {
        // The lock, so that who is about to wait has either seen the interruption or waits.
        let _state = self.state.lock();
        self.answered.notify_all();
    }
}

impl Lookups {
    pub(super) fn new(settings: Settings) -> Self {
        let fixed = settings.fixed.iter();
        Self {
            fixed: fixed
                .map(|(host, ips)| (normal(host), ips.clone()))
                .collect(),
            settings,
            shared: Arc::new(Shared {
                state: Mutex::default(),
                answered: Condvar::new(),
                asked: Condvar::new(),
            }),
        }
    }

    pub(super) fn flush(&self) {
        self.shared.state.lock().cache.clear();
    }

    pub(super) fn judge(&self, host: &str, ip: IpAddr, good: bool) {
        let mut state = self.shared.state.lock();
        state.cache.judge(&normal(host), ip, good, Instant::now());
    }

    /// The addresses, in the order in which they are to be tried.
    pub(super) fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, Fault> {
        let name = normal(host);
        if let Some(fixed) = self.fixed.get(&name) {
            return Ok(fixed.clone());
        }
        let begun = Instant::now();
        let whole = wire::note(|wire| wire.deadline);
        let until = begun + self.settings.limit;
        let until = whole.map_or(until, |whole| until.min(whole.at));
        let mut state = self.shared.state.lock();
        let mut is_waited_on = false;
        loop {
            let now = Instant::now();
            match state.cache.look(&name, now) {
                Answer::Fresh(addresses) => return Ok(addresses),
                Answer::Stale(addresses) => {
                    self.ask(&mut state, name);
                    return Ok(addresses);
                }
                Answer::Failed(failure) => return Err(fault_of(host, failure)),
                Answer::Unknown if now >= until => {
                    if let Some(whole) = wire::deadline_passed() {
                        return Err(whole.fault("while the host's name was looked up"));
                    }
                    let limit = self.settings.limit;
                    let detail = format!(
                        "looking up {host:?} took longer than {limit:?} (see `resolve_timeout`)"
                    );
                    return Err(Fault::new(ErrorKind::Timeout, detail));
                }
                Answer::Unknown => {}
            }
            // Again where the answer was forgotten before we saw it, as other names' took its place
            // or the cache was flushed.
            self.ask(&mut state, name.clone());
            if !is_waited_on {
                is_waited_on = true;
                // Outside the lock: an interruption takes it.
                parking_lot::MutexGuard::unlocked(&mut state, || {
                    let shared = Arc::clone(&self.shared) as Arc<dyn Interrupt>;
                    wire::waits_on(Arc::downgrade(&shared));
                });
                continue;
            }
            if wire::is_interrupted() {
                return Err(match wire::deadline_passed() {
                    Some(whole) => whole.fault("while the host's name was looked up"),
                    None => Fault::cancelled(),
                });
            }
            self.shared.answered.wait_until(&mut state, until);
        }
    }

    /// Puts a name into the queue, unless it is being looked up.
    fn ask(&self, state: &mut State, name: String) {
        if state.pending.contains(&name) {
            return;
        }
        state.pending.push(name.clone());
        state.queue.push_back(name);
        if state.idle >= state.queue.len() {
            self.shared.asked.notify_one();
        } else if state.threads < THREADS {
            self.start(state);
        }
    }

    fn start(&self, state: &mut State) {
        let shared = Arc::downgrade(&self.shared);
        let resolver = Arc::clone(&self.settings.resolver);
        let (family, ttl) = (self.settings.family, self.settings.ttl);
        let look_up = move |name: &str| {
            resolver
                .resolve(name)
                .map(|ips| (wanted(ips, family), ttl))
                .map_err(|error| Failure {
                    why: error.to_string(),
                    is_transient: error.kind() != io::ErrorKind::NotFound,
                })
        };
        let spawned = std::thread::Builder::new()
            .name("fetchpool-dns".to_owned())
            .spawn(move || work(&shared, look_up));
        match spawned {
            Ok(_) => state.threads += 1,
            // Those that there are do it later; if there is none, the limit ends the wait.
            Err(error) => log::warn!("cannot start a look-up thread: {error}"),
        }
    }
}

impl Drop for Lookups {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.asked.notify_all();
    }
}

type Found = Result<(Vec<IpAddr>, Duration), Failure>;

fn lasting(why: &str) -> Failure {
    Failure {
        why: why.to_owned(),
        is_transient: false,
    }
}

fn fault_of(host: &str, failure: Failure) -> Fault {
    let Failure { why, is_transient } = failure;
    if why.is_empty() {
        return no_address(host);
    }
    let fault = Fault::with_source(ErrorKind::Dns, format!("cannot look up {host:?}"), why);
    if is_transient { fault.passing() } else { fault }
}

/// Until the resolver is gone, or nothing has been asked for a while.
fn work(shared: &Weak<Shared>, look_up: impl Fn(&str) -> Found) {
    while let Some(name) = shared.upgrade().and_then(|shared| shared.next()) {
        // A resolver of the caller's may panic; that is an answer like another.
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| look_up(&name)))
            .unwrap_or_else(|_| Err(lasting("the resolver panicked")));
        match shared.upgrade() {
            Some(shared) => shared.answer(&name, found),
            None => return,
        }
    }
}

impl Shared {
    fn next(&self) -> Option<String> {
        let mut state = self.state.lock();
        let until = Instant::now() + LINGER;
        loop {
            if state.closed {
                state.threads -= 1;
                return None;
            }
            if let Some(name) = state.queue.pop_front() {
                return Some(name);
            }
            state.idle += 1;
            let late = self.asked.wait_until(&mut state, until).timed_out();
            state.idle -= 1;
            if late && state.queue.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }

    fn answer(&self, name: &str, found: Found) {
        let mut state = self.state.lock();
        state.pending.retain(|pending| pending != name);
        let now = Instant::now();
        match found {
            Ok((ips, ttl)) if !ips.is_empty() => state.cache.found(name, ips, ttl, now),
            Ok(_) => state.cache.failed(name, lasting(""), now),
            Err(why) => state.cache.failed(name, why, now),
        }
        drop(state);
        self.answered.notify_all();
    }
}
