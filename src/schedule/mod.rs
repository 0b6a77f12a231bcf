//! Who runs when: budgets, lanes, the ring, the clock and the workers. Knows nothing of HTTP.
//!
//! The protocol, its invariants and its races are told in the README of this folder.

mod budget;
mod clock;
mod ids;
mod key;
mod lane;
mod permit;
mod slab;
mod state;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use parking_lot::{Condvar, Mutex, MutexGuard};

pub use key::Key;
pub(crate) use lane::MAX_KEYS;
pub use lane::Priority;
pub(crate) use permit::Denied;
pub use permit::Permit;
pub(crate) use state::Limits;
pub(crate) use worker::{Interrupt, Post, Turn};

use ids::BatchId;
use state::{Assignment, Effect, State};

/// A job, as the scheduler sees it.
pub(crate) trait Work: Send + Sized + 'static {
    /// What lives as long as the entry of a job's first budget: the connections to a host.
    type Resident: Send + Sync + 'static;

    /// The budgets that it needs a token of, all at once.
    fn keys(&self) -> Keys<'_>;

    fn priority(&self) -> Priority;

    /// Its batch has been cancelled. Whoever cancels makes this true before he calls
    /// [`Ticket::cancel`]; a worker that has just taken the job looks at it.
    fn is_cancelled(&self) -> bool;

    /// If its turn has not come by then, it ends: [`Ended::Late`].
    fn latest_start(&self) -> Option<Instant>;

    /// Runs on a worker, which holds the tokens until [`Turn::finish`], [`Turn::again`] or
    /// [`Turn::divide`], at the latest until this returns.
    fn run(self, turn: &mut Turn<'_, Self>);

    /// It ends without having run (again). Called under no lock, on any thread.
    fn end(self, why: Ended);
}

/// Why a job ends without having run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its batch was cancelled or dropped.
    Cancelled,
    /// It has waited for as long as it may, or its batch's time is over.
    Late,
    /// The downloader was shut down.
    Shutdown,
    /// The system gives no thread to run it on.
    NoThread,
}

/// Where a batch is told that workers idle. Called under no lock, on any thread: from within
/// [`Ticket::read`] and [`Ticket::cancel`], too. It is to be brief.
pub(crate) trait Feed: Send + Sync {
    fn more(&self);
}

/// The keys of a job or a permit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys<'a> {
    pub(crate) first: &'a Key,
    /// At most `MAX_KEYS - 1`.
    pub(crate) more: &'a [Key],
}

impl<'a> Keys<'a> {
    fn iter(self) -> impl Iterator<Item = &'a Key> {
        std::iter::once(self.first).chain(self.more)
    }
}

/// A batch's place in a scheduler. Dropping it cancels what the batch has left.
pub(crate) struct Ticket<W: Work> {
    shared: Arc<Shared<W>>,
    id: BatchId,
}

/// The owner of the threads. They end with it.
pub(crate) struct Scheduler<W: Work> {
    shared: Arc<Shared<W>>,
}

/// What the threads share.
struct Shared<W: Work> {
    /// Guards all that decides who runs. No other lock is taken while it is held; what it
    /// sends on (`ready`) never blocks, as that has room for every worker.
    state: Mutex<State<W>>,
    /// An alarm earlier than all others has been set.
    clock_changed: Condvar,
    /// From the state to idle workers. Dropped to end them.
    ready: Mutex<Option<Sender<Assignment<W>>>>,
    queue: Receiver<Assignment<W>>,
    /// There is something in it, or never will be again. Goes with `ready`.
    arrived: Condvar,
    /// What each worker is at, for those who interrupt it.
    posts: Box<[Arc<Post>]>,
    /// Set before the posts are interrupted, read by a worker that has just taken its post.
    stopped: AtomicBool,
    threads: Mutex<Threads>,
}

#[derive(Default)]
struct Threads {
    clock: bool,
    handles: Vec<JoinHandle<()>>,
    /// The tests' way to run out of them.
    #[cfg(test)]
    are_refused: bool,
}

impl<W: Work> Scheduler<W> {
    pub(crate) fn new(limits: Limits, capacities: HashMap<Key, NonZeroUsize>) -> Self {
        let workers = limits.workers.get();
        let (ready, queue) = bounded(workers);
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State::new(limits, capacities)),
                clock_changed: Condvar::new(),
                ready: Mutex::new(Some(ready)),
                queue,
                arrived: Condvar::new(),
                posts: (0..workers).map(|_| Arc::default()).collect(),
                stopped: AtomicBool::new(false),
                threads: Mutex::default(),
            }),
        }
    }

    /// Lets a batch in, of whose outcomes at most `unread` wait to be read.
    pub(crate) fn open(&self, feed: Arc<dyn Feed>, unread: NonZeroUsize) -> Ticket<W> {
        Ticket {
            id: self.shared.with(|state| state.open(feed, unread)),
            shared: Arc::clone(&self.shared),
        }
    }

    pub(crate) fn set_capacity(&self, key: &Key, capacity: NonZeroUsize) {
        self.shared.with(|state| state.set_capacity(key, capacity));
    }

    /// Ends all jobs, waiting and running, and lets the threads go.
    pub(crate) fn stop(&self) {
        self.shared.stop(Ended::Shutdown);
    }

    #[cfg(test)]
    fn entries(&self) -> usize {
        self.shared.state.lock().entries()
    }
}

impl<W: Work> Drop for Scheduler<W> {
    fn drop(&mut self) {
        self.stop();
        let handles = std::mem::take(&mut self.shared.threads.lock().handles);
        let current = std::thread::current().id();
        for handle in handles {
            // The last owner may be a closure that runs on one of the workers: that one
            // cannot wait for itself, and ends right after.
            if handle.thread().id() != current {
                // A worker catches its jobs' panics; there is none left to tell of.
                let _ = handle.join();
            }
        }
    }
}

impl<W: Work> Ticket<W> {
    /// Lets a job in. Returns whether workers idle still, so that another would be of use.
    pub(crate) fn submit(&self, work: W) -> bool {
        let mut state = self.shared.state.lock();
        state.submit(self.id, work);
        self.shared.settle(&mut state);
        state.is_hungry(self.id)
    }

    /// # Panics
    /// On one of the scheduler's own workers.
    pub(crate) fn may_wait(&self) {
        self.shared.may_wait();
    }

    /// Whether workers idle. If not, the batch's [`Feed`] is called when they do, or when the
    /// batch ends.
    pub(crate) fn wants_more(&self) -> bool {
        self.shared.state.lock().wants_more(self.id)
    }

    /// The consumer has read the outcomes of this many jobs that had run.
    pub(crate) fn read(&self, count: usize) {
        if count > 0 {
            self.shared
                .with(|state| (0..count).for_each(|_| state.read(self.id)));
        }
    }

    /// Ends the batch's jobs that wait at that time, and lets none in after it.
    pub(crate) fn end_at(&self, at: Instant) {
        self.shared.with(|state| state.end_batch_at(self.id, at));
    }

    /// Ends the batch's jobs, waiting and running. Those submitted later end at once.
    pub(crate) fn cancel(&self) {
        self.shared
            .with(|state| state.cancel(self.id, Ended::Cancelled));
        for post in &self.shared.posts {
            post.interrupt(|batch| batch == self.id);
        }
    }
}

impl<W: Work> Drop for Ticket<W> {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl<W: Work> Shared<W> {
    /// A closure that waits for its own downloader works as long as some worker does not, and
    /// stops for ever once all do: better to say so the first time.
    ///
    /// # Panics
    /// On one of its own workers.
    fn may_wait(self: &Arc<Self>) {
        assert!(
            !self.is_served_by_this_thread(),
            "a closure that runs on a worker must not wait for the same downloader: when all \
             workers do, nobody is left to work. Push the request (see `Downloader::open_with`), \
             or use another downloader"
        );
    }

    /// Makes a move under the lock, and does after it what it asks for.
    fn with<T>(self: &Arc<Self>, change: impl FnOnce(&mut State<W>) -> T) -> T {
        let mut state = self.state.lock();
        let result = change(&mut state);
        self.settle(&mut state);
        result
    }

    /// Hands runnable jobs to idle workers and does the effects. The lock is open meanwhile.
    fn settle(self: &Arc<Self>, state: &mut MutexGuard<'_, State<W>>) {
        loop {
            if !state.effects.is_empty() {
                let effects = std::mem::take(&mut state.effects);
                MutexGuard::unlocked(state, || effects.into_iter().for_each(Effect::happen));
            } else if state.has_runnable() && state.spare_workers() > 0 {
                self.dispatch(state);
            } else if state.serve_waiters() {
                // They are told.
            } else if state.clock.has_changed() {
                if !MutexGuard::unlocked(state, || self.start_clock()) {
                    // The next move, say of a job that finishes, tries again.
                    state.clock.look_again();
                    return;
                }
                self.clock_changed.notify_one();
            } else {
                return;
            }
        }
    }

    fn dispatch(self: &Arc<Self>, state: &mut MutexGuard<'_, State<W>>) {
        let Some(assignment) = state.pick() else {
            return;
        };
        let number = if state.idle_workers > 0 {
            state.idle_workers -= 1;
            None
        } else {
            state.started += 1;
            Some(state.started - 1)
        };
        MutexGuard::unlocked(state, || {
            self.send(assignment);
            if let Some(number) = number {
                self.start_worker(number);
            }
        });
    }

    /// Never blocks: there is a worker, idle or about to start, for every job in the channel.
    fn send(self: &Arc<Self>, assignment: Assignment<W>) {
        // Under the lock: what is sent before `stop` closes the channel, `stop` finds in it.
        let refused = match &*self.ready.lock() {
            Some(ready) => ready.try_send(assignment).err().map(|e| e.into_inner()),
            None => Some(assignment),
        };
        match refused {
            None => drop(self.arrived.notify_one()),
            Some(assignment) => self.with(|state| state.put_back(assignment)),
        }
    }

    /// Waits for a job; `None` once there are none any more. Not by the channel's own `recv`, which
    /// looks again and again before it sleeps: as many workers that idle for a moment do so, it costs
    /// each of their jobs several system calls.
    fn receive(&self) -> Option<Assignment<W>> {
        let mut ready = self.ready.lock();
        loop {
            match self.queue.try_recv() {
                Ok(assignment) => return Some(assignment),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => self.arrived.wait(&mut ready),
            }
        }
    }

    fn stop(self: &Arc<Self>, why: Ended) {
        self.with(|state| state.stop(why));
        self.stopped.store(true, Ordering::SeqCst);
        for post in &self.posts {
            post.interrupt(|_| true);
        }
        // Idle workers find the channel closed, busy ones when they come back to it.
        self.ready.lock().take();
        self.arrived.notify_all();
        // One that was sent meanwhile and that no worker has taken.
        while let Ok(assignment) = self.queue.try_recv() {
            self.with(|state| state.put_back(assignment));
        }
        self.clock_changed.notify_all();
    }

    fn start_worker(self: &Arc<Self>, number: usize) {
        let shared = Arc::clone(self);
        let run = move || worker::run(&shared, number);
        let spawned = self.spawn(&mut self.threads.lock(), &number.to_string(), run);
        if let Err(error) = spawned {
            self.do_with_fewer_workers(&error);
        }
    }

    /// Not after the stop: whoever joins the threads has all of them then.
    fn spawn(
        &self,
        threads: &mut Threads,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<()> {
        #[cfg(test)]
        if threads.are_refused {
            return Err(std::io::Error::other("refused"));
        }
        if !self.stopped.load(Ordering::SeqCst) {
            let thread = std::thread::Builder::new().name(format!("fetchpool-{name}"));
            threads.handles.push(thread.spawn(run)?);
        }
        Ok(())
    }

    fn do_with_fewer_workers(self: &Arc<Self>, error: &std::io::Error) {
        log::warn!("cannot start another worker thread: {error}; going on with those there are");
        let back = self.queue.try_recv();
        let alone = self.with(|state| {
            state.started -= 1;
            state.may_start = state.started;
            match back {
                Ok(assignment) => state.put_back(assignment),
                // An idle worker has taken it, and is idle no more.
                Err(_) => state.idle_workers = state.idle_workers.saturating_sub(1),
            }
            state.started == 0
        });
        if alone {
            self.stop(Ended::NoThread);
        }
    }

    /// Whether there is such a thread now.
    fn start_clock(self: &Arc<Self>) -> bool {
        let mut threads = self.threads.lock();
        if !threads.clock {
            let shared = Arc::clone(self);
            match self.spawn(&mut threads, "clock", move || shared.run_clock()) {
                Ok(()) => threads.clock = true,
                Err(error) => log::warn!("cannot start the clock's thread: {error}"),
            }
        }
        threads.clock
    }

    fn run_clock(self: &Arc<Self>) {
        let mut state = self.state.lock();
        while state.stopped.is_none() {
            state.tick();
            self.settle(&mut state);
            let over = std::mem::take(&mut state.over);
            if !over.is_empty() {
                MutexGuard::unlocked(&mut state, || {
                    for post in &self.posts {
                        post.interrupt(|batch| over.contains(&batch));
                    }
                });
            }
            match state.clock.next() {
                // Stopped while that had let go of the lock: nobody is going to wake us.
                _ if state.stopped.is_some() => {}
                // Set meanwhile, or due already: look again.
                Some(at) if at <= state.clock.now() => {}
                Some(at) => {
                    self.clock_changed.wait_until(&mut state, at);
                }
                None => self.clock_changed.wait(&mut state),
            }
        }
    }
}

impl<W: Work> Effect<W> {
    fn happen(self) {
        // Behind most of these is the caller's code. Its panic costs neither the effects that
        // follow nor the job that a worker has just picked and holds while it does this.
        let happens = AssertUnwindSafe(|| match self {
            Self::Grant(granted) => {
                // Never blocks: the channel has room for the one grant there is.
                let _ = granted.try_send(());
            }
            Self::End(work, why) => work.end(why),
            Self::Feed(feed) => feed.more(),
            Self::Close(feed) => drop(feed),
            Self::Retire(resident) => drop(resident),
        });
        if catch_unwind(happens).is_err() {
            log::error!("what a batch does when it is told of its jobs panicked");
        }
    }
}
