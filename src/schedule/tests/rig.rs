//! A scheduler whose jobs are closures, and a watchdog over the tests that use it.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};

use super::super::{Ended, Feed, Keys, Limits, Priority, Scheduler, Shared, Ticket, Turn, Work};
use super::{Key, limits, some};

/// How long nothing may happen before a test is taken to hang.
pub(super) const LONG: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Ran,
    Panicked,
    Ended(Ended),
    /// Dropped without a word: only if its panic was not caught.
    Lost,
}

impl Fate {
    pub(super) fn has_run(self) -> bool {
        !matches!(self, Self::Ended(_))
    }
}

pub(super) enum Then {
    Done,
    Again {
        act: Act,
        keys: Option<Vec<Key>>,
        at: Option<Instant>,
    },
    /// Goes on as these jobs, each with a tag of its own. Its own outcome is not told.
    Divide(Vec<(usize, Act)>),
}

pub(super) type Act = Box<dyn FnOnce(&mut Turn<'_, Job>) -> Then + Send>;

/// A panic with this is not caught by the job.
pub(super) struct Uncaught;

pub(super) struct Job {
    keys: Vec<Key>,
    priority: Priority,
    cancelled: Arc<AtomicBool>,
    act: Option<Act>,
    report: Report,
}

struct Report {
    tag: usize,
    outcomes: Option<Sender<(usize, Fate)>>,
    reported: Arc<AtomicUsize>,
}

impl Report {
    fn send(&mut self, fate: Fate) {
        if let Some(outcomes) = self.outcomes.take() {
            self.reported.fetch_add(1, Ordering::Relaxed);
            let _ = outcomes.send((self.tag, fate));
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.send(Fate::Lost);
    }
}

impl Work for Job {
    type Resident = Box<dyn Any + Send + Sync>;

    fn keys(&self) -> Keys<'_> {
        Keys {
            first: &self.keys[0],
            more: &self.keys[1..],
        }
    }

    fn priority(&self) -> Priority {
        self.priority
    }

    fn latest_start(&self) -> Option<Instant> {
        None
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    fn run(mut self, turn: &mut Turn<'_, Self>) {
        let act = self.act.take().unwrap();
        let fate = match catch_unwind(AssertUnwindSafe(|| act(turn))) {
            Ok(Then::Done) => Fate::Ran,
            Ok(Then::Again { act, keys, at }) => {
                self.act = Some(act);
                self.keys = keys.unwrap_or(self.keys);
                return turn.again(self, at);
            }
            Ok(Then::Divide(acts)) => {
                let pieces = acts.into_iter().map(|(tag, act)| self.piece(tag, act));
                let pieces = pieces.collect();
                self.report.outcomes = None;
                return turn.divide(pieces);
            }
            Err(panic) if panic.is::<Uncaught>() => resume_unwind(panic),
            Err(_) => Fate::Panicked,
        };
        turn.finish(0);
        self.report.send(fate);
    }

    fn end(mut self, why: Ended) {
        self.report.send(Fate::Ended(why));
    }
}

impl Job {
    fn piece(&self, tag: usize, act: Act) -> Self {
        Self {
            keys: self.keys.clone(),
            priority: self.priority,
            cancelled: Arc::clone(&self.cancelled),
            act: Some(act),
            report: Report {
                tag,
                outcomes: self.report.outcomes.clone(),
                reported: Arc::clone(&self.report.reported),
            },
        }
    }
}

/// A feed that rings.
pub(super) struct Bell(Sender<()>);

impl Feed for Bell {
    fn more(&self) {
        let _ = self.0.try_send(());
    }
}

pub(super) struct Rig {
    pub(super) scheduler: Scheduler<Job>,
    reported: Arc<AtomicUsize>,
}

impl Rig {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            scheduler: Scheduler::new(limits, HashMap::new()),
            reported: Arc::default(),
        }
    }

    pub(super) fn open(&self, unread: usize) -> Client {
        let (ring, rung) = bounded(1);
        self.open_with(Arc::new(Bell(ring)), unread, rung)
    }

    pub(super) fn open_with(
        &self,
        feed: Arc<dyn Feed>,
        unread: usize,
        rung: Receiver<()>,
    ) -> Client {
        let (send, outcomes) = unbounded();
        Client {
            ticket: self.scheduler.open(feed, some(unread)),
            cancelled: Arc::default(),
            rung,
            send,
            outcomes,
            reported: Arc::clone(&self.reported),
        }
    }

    /// Shows that no lock of the scheduler is held by whoever calls it.
    pub(super) fn probe(&self) -> impl Fn() + Send + Sync + 'static {
        let shared = Arc::downgrade(&self.scheduler.shared);
        move || {
            if let Some(shared) = shared.upgrade() {
                assert!(shared.state.try_lock_for(LONG).is_some(), "under the lock");
            }
        }
    }

    pub(super) fn started(&self) -> usize {
        self.scheduler.shared.state.lock().started
    }

    /// How many wait in a budget's line for a permit.
    pub(super) fn waiters(&self, key: &Key) -> usize {
        self.scheduler.shared.state.lock().waiters(key)
    }

    pub(super) fn in_use(&self, key: &Key) -> usize {
        self.scheduler.shared.state.lock().in_use(key).unwrap_or(0)
    }
}

/// A batch with its consumer.
pub(super) struct Client {
    pub(super) ticket: Ticket<Job>,
    cancelled: Arc<AtomicBool>,
    pub(super) rung: Receiver<()>,
    send: Sender<(usize, Fate)>,
    outcomes: Receiver<(usize, Fate)>,
    reported: Arc<AtomicUsize>,
}

impl Client {
    pub(super) fn submit(
        &self,
        tag: usize,
        keys: &[Key],
        act: impl FnOnce() + Send + 'static,
    ) -> bool {
        self.submit_at(Priority::Normal, tag, keys, act)
    }

    pub(super) fn submit_at(
        &self,
        priority: Priority,
        tag: usize,
        keys: &[Key],
        act: impl FnOnce() + Send + 'static,
    ) -> bool {
        let act = move |_: &mut Turn<'_, Job>| {
            act();
            Then::Done
        };
        self.ticket
            .submit(self.job(priority, tag, keys, Box::new(act)))
    }

    pub(super) fn submit_act(
        &self,
        tag: usize,
        keys: &[Key],
        act: impl FnOnce(&mut Turn<'_, Job>) -> Then + Send + 'static,
    ) -> bool {
        let job = self.job(Priority::Normal, tag, keys, Box::new(act));
        self.ticket.submit(job)
    }

    fn job(&self, priority: Priority, tag: usize, keys: &[Key], act: Act) -> Job {
        Job {
            keys: keys.to_vec(),
            priority,
            cancelled: Arc::clone(&self.cancelled),
            act: Some(act),
            report: Report {
                tag,
                outcomes: Some(self.send.clone()),
                reported: Arc::clone(&self.reported),
            },
        }
    }

    /// Makes jobs for another batch, whose outcomes come here.
    pub(super) fn factory(&self, keys: &[Key]) -> impl Fn() -> Job + Send + Sync + 'static {
        let (keys, send) = (keys.to_vec(), self.send.clone());
        let (cancelled, reported) = (Arc::clone(&self.cancelled), Arc::clone(&self.reported));
        move || Job {
            keys: keys.clone(),
            priority: Priority::Normal,
            cancelled: Arc::clone(&cancelled),
            act: Some(Box::new(|_| Then::Done)),
            report: Report {
                tag: 0,
                outcomes: Some(send.clone()),
                reported: Arc::clone(&reported),
            },
        }
    }

    /// Waits for an outcome, and does not read it.
    pub(super) fn outcome(&self) -> (usize, Fate) {
        self.outcomes.recv().unwrap()
    }

    /// Waits for an outcome, and reads it.
    pub(super) fn next(&self) -> (usize, Fate) {
        let (tag, fate) = self.outcome();
        if fate.has_run() {
            self.ticket.read(1);
        }
        (tag, fate)
    }

    pub(super) fn take(&self, n: usize) -> Vec<(usize, Fate)> {
        (0..n).map(|_| self.next()).collect()
    }

    /// The tags of so many jobs, which must all run, as they end.
    pub(super) fn tags(&self, n: usize) -> Vec<usize> {
        let ran = |(tag, fate)| {
            assert_eq!(fate, Fate::Ran);
            tag
        };
        self.take(n).into_iter().map(ran).collect()
    }

    /// Outcomes that wait to be read.
    pub(super) fn unread(&self) -> usize {
        self.outcomes.len()
    }

    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        self.ticket.cancel();
    }
}

/// Occupies a worker, with a budget of its own, until the answer is dropped.
pub(super) fn plug(client: &Client) -> Sender<()> {
    plug_at(client, &Key::named("plug"))
}

pub(super) fn plug_at(client: &Client, key: &Key) -> Sender<()> {
    let (unplug, plugged) = bounded::<()>(0);
    let (begun, begins) = bounded(1);
    client.submit(usize::MAX, slice::from_ref(key), move || {
        begun.send(()).unwrap();
        let _ = plugged.recv();
    });
    begins.recv().unwrap();
    unplug
}

/// Runs a test with a scheduler, and tells what hangs if it hangs.
pub(super) fn with(limits: Limits, test: impl FnOnce(Rig) + Send + 'static) {
    let rig = Rig::new(limits);
    let (shared, reported) = (Arc::clone(&rig.scheduler.shared), Arc::clone(&rig.reported));
    let (running, ended) = bounded::<()>(0);
    let thread = std::thread::spawn(move || {
        let _running = running;
        test(rig);
    });
    let mut seen = 0;
    while ended.recv_timeout(LONG) == Err(RecvTimeoutError::Timeout) {
        let now = reported.load(Ordering::Relaxed);
        assert_ne!(seen, now, "hangs: {}", dump(&shared));
        seen = now;
    }
    if let Err(panic) = thread.join() {
        resume_unwind(panic);
    }
}

pub(super) fn with_workers(
    workers: usize,
    per_host: usize,
    test: impl FnOnce(Rig) + Send + 'static,
) {
    with(limits(workers, per_host), test);
}

fn dump(shared: &Shared<Job>) -> String {
    match shared.state.try_lock_for(Duration::from_secs(1)) {
        Some(state) => state.dump(),
        None => "the state is locked".to_owned(),
    }
}
