//! A worker: pulls a job with its tokens, runs it, and asks for the next.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use super::ids::BatchId;
use super::state::Assignment;
use super::{Key, Shared, Work};

/// Something that a running job may be blocked on, and how to make it return.
pub(crate) trait Interrupt: Send + Sync {
    /// Must not block, nor take a lock that a job holds while it waits.
    fn interrupt(&self);
}

/// What a worker is at, so that a cancelled batch reaches the sockets of its running jobs and
/// no others'.
#[derive(Default)]
pub(crate) struct Post {
    /// Guards who is at work here and what it waits on. It is held over an interruption, which
    /// does not block: released before, the socket could be another job's by then.
    occupant: Mutex<Occupant>,
    interrupted: AtomicBool,
}

#[derive(Default)]
struct Occupant {
    batch: Option<BatchId>,
    waits_on: Option<Weak<dyn Interrupt>>,
}

impl Post {
    fn begin(&self, batch: BatchId) {
        let mut occupant = self.occupant.lock();
        occupant.batch = Some(batch);
        self.interrupted.store(false, Ordering::Release);
    }

    fn end(&self) {
        *self.occupant.lock() = Occupant::default();
    }

    /// Interrupts the job here, if it is one of those meant.
    pub(super) fn interrupt(&self, is_meant: impl FnOnce(BatchId) -> bool) {
        let occupant = self.occupant.lock();
        if !occupant.batch.is_some_and(is_meant) {
            return;
        }
        self.interrupted.store(true, Ordering::Release);
        if let Some(waits_on) = occupant.waits_on.as_ref().and_then(Weak::upgrade) {
            waits_on.interrupt();
        }
    }

    /// The job has been cancelled: it should end as soon as it can.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    /// From now on an interruption makes this return. One that came before does so at once.
    pub(crate) fn waits_on(&self, what: Weak<dyn Interrupt>) {
        let mut occupant = self.occupant.lock();
        if self.is_interrupted() {
            if let Some(what) = what.upgrade() {
                what.interrupt();
            }
        }
        occupant.waits_on = Some(what);
    }
}

/// A job's turn on a worker. Its tokens go back with [`Turn::finish`], [`Turn::again`] or
/// [`Turn::divide`], or when the job returns or panics.
pub(crate) struct Turn<'w, W: Work> {
    shared: &'w Arc<Shared<W>>,
    post: &'w Arc<Post>,
    now: Now<W>,
    /// The token of the first budget goes back then, rather than with the others.
    held: Option<Instant>,
    resident: Arc<OnceLock<W::Resident>>,
}

/// What a worker has in hand.
enum Now<W: Work> {
    /// The tokens of the job that runs.
    Holds(BatchId, super::lane::Needs),
    /// They have gone back, and this is next, if there was any.
    Next(Option<Assignment<W>>),
}

impl<W: Work> Turn<'_, W> {
    pub(crate) fn post(&self) -> &Arc<Post> {
        self.post
    }

    /// What lives with the job's first budget.
    pub(crate) fn resident(&self) -> &OnceLock<W::Resident> {
        &self.resident
    }

    /// The token of the first budget stays out until then: who was asked is still at work.
    pub(crate) fn hold(&mut self, until: Instant) {
        self.held = Some(until);
    }

    /// Nobody gets a token of this budget before then.
    pub(crate) fn close(&self, key: &Key, until: Instant) {
        self.shared.with(|state| state.close_gate(key, until));
    }

    /// Whether the gate of the first budget is open, whose token the job has.
    pub(crate) fn is_open(&self) -> bool {
        match self.now {
            Now::Holds(_, needs) => self.shared.state.lock().is_open(needs),
            Now::Next(_) => false,
        }
    }

    /// Lets go of what lives with entries that idle, and returns what lives with the others.
    pub(crate) fn residents(&self) -> Vec<Arc<OnceLock<W::Resident>>> {
        self.shared.with(super::State::residents)
    }

    /// The job is done: its tokens go back (but for the one of its unread outcome), and the
    /// worker takes its next job, all in one go. An outcome is delivered after this, so that
    /// who reads it finds the tokens free.
    ///
    /// `more`: how many tokens of unread outcomes that one takes, besides the one that it has.
    pub(crate) fn finish(&mut self, more: usize) {
        if let Now::Holds(_, needs) = self.now {
            self.post.end();
            let held = self.held;
            self.now = Now::Next(self.shared.next(|state| state.finish(needs, held, more)));
        }
    }

    /// The job goes on, on whichever worker has the next turn for it: at once if there is room
    /// in its budgets, which may be others now, or not before `at`.
    pub(crate) fn again(&mut self, work: W, at: Option<Instant>) {
        self.go_on([work], at);
    }

    /// The job goes on as all of these, each in its turn. Or as none: then its outcome is the
    /// affair of another that it was divided into, and it leaves no token with it.
    pub(crate) fn divide(&mut self, works: Vec<W>) {
        self.go_on(works, None);
    }

    fn go_on(&mut self, works: impl IntoIterator<Item = W>, at: Option<Instant>) {
        if let Now::Holds(batch, needs) = self.now {
            self.post.end();
            let held = self.held;
            self.now = Now::Next(
                self.shared
                    .next(|state| state.again(batch, needs, held, works, at)),
            );
        }
    }
}

impl<W: Work> Shared<W> {
    /// Makes a move and takes the next job for the worker that makes it.
    fn next(self: &Arc<Self>, change: impl FnOnce(&mut super::State<W>)) -> Option<Assignment<W>> {
        self.with(|state| {
            change(state);
            let next = state.pick();
            if next.is_none() {
                state.rest();
            }
            next
        })
    }
}

thread_local! {
    /// The scheduler, by its address, that this thread works for.
    static WORKS_FOR: Cell<usize> = const { Cell::new(0) };
}

impl<W: Work> Shared<W> {
    /// Whether this is one of its workers: one that waits for a job may be the very one that
    /// the job waits for.
    pub(super) fn is_served_by_this_thread(self: &Arc<Self>) -> bool {
        WORKS_FOR.get() == Arc::as_ptr(self).addr()
    }
}

/// Until the ready channel is closed.
pub(super) fn run<W: Work>(shared: &Arc<Shared<W>>, number: usize) {
    WORKS_FOR.set(Arc::as_ptr(shared).addr());
    let post = &shared.posts[number];
    while let Some(first) = shared.receive() {
        let mut next = Some(first);
        while let Some(assignment) = next {
            next = run_one(shared, post, assignment);
        }
    }
}

fn run_one<W: Work>(
    shared: &Arc<Shared<W>>,
    post: &Arc<Post>,
    assignment: Assignment<W>,
) -> Option<Assignment<W>> {
    let Assignment {
        work,
        batch,
        needs,
        resident,
    } = assignment;
    let mut turn = Turn {
        shared,
        post,
        now: Now::Holds(batch, needs),
        held: None,
        resident,
    };
    post.begin(batch);
    // Who cancels sets a flag first and looks at the posts last: one of us sees the other.
    if work.is_cancelled() || shared.stopped.load(Ordering::SeqCst) {
        post.interrupt(|_| true);
    }
    // The job answers for what its batch is told of a panic. Its tokens and the worker are
    // ours to save.
    if catch_unwind(AssertUnwindSafe(|| work.run(&mut turn))).is_err() {
        log::error!("a job panicked outside of the caller's code");
    }
    turn.finish(0);
    match turn.now {
        Now::Next(next) => next,
        Now::Holds(..) => unreachable!("finished above"),
    }
}
