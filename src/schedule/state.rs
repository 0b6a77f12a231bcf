//! The scheduler's state and its moves, without threads: what the one lock guards.
//!
//! Nothing in here blocks, runs the caller's code or frees what the caller owns. What a move
//! asks of the world outside the lock is left in `effects`, for whoever holds the lock to do
//! once it is released. The protocol and its invariants are told in this folder's README.

mod batches;
mod entries;
mod lanes;
#[cfg(test)]
mod probe;
mod time;
mod tokens;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use super::budget::{Budget, Tokens};
use super::clock::{Clock, Event};
use super::ids::{BatchId, BatchKind, BudgetId, BudgetKind, JobId, JobKind, LaneId, LaneKind};
use super::key::Key;
use super::lane::{Asleep, Job, Jobs, Lane, Needs, Owner, Place, Priority, Rank, Waits};
use super::slab::{Id, List, Slab};
use super::{Ended, Feed, Keys, Work};

/// One batch's part in the scheduler.
struct Batch {
    feed: Arc<dyn Feed>,
    lanes: HashMap<Needs, LaneId>,
    asleep: List<JobKind>,
    /// The budget of its unread outcomes. A job takes one of these tokens as it takes its
    /// host's; the consumer gives it back as it reads the outcome. So a batch that nobody
    /// reads waits in a line of its own, and no other batch notices.
    unread: BudgetId,
    /// Stands in the list of those that want to be told when workers idle.
    hungry: bool,
}

/// A job with its tokens, on its way to a worker or running there.
pub(super) struct Assignment<W: Work> {
    pub(super) work: W,
    pub(super) batch: BatchId,
    pub(super) needs: Needs,
    pub(super) resident: Arc<OnceLock<W::Resident>>,
}

/// What is to be done after the lock is released.
pub(super) enum Effect<W: Work> {
    /// The waiter has its tokens.
    Grant(Sender<()>),
    /// The job ends without having run (again).
    End(W, Ended),
    /// Workers idle, and this batch said that it has more.
    Feed(Arc<dyn Feed>),
    /// The batch is no more: let go of what it is fed by.
    Close(Arc<dyn Feed>),
    /// Nothing uses the entry any more: let go of what lived with it.
    Retire(Arc<OnceLock<W::Resident>>),
}

/// What does not change while the scheduler lives.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) workers: NonZeroUsize,
    pub(crate) per_host: NonZeroUsize,
    /// How long an unused entry, with its idle connections, is kept.
    pub(crate) idle_age: Duration,
    /// How many unused entries are kept.
    pub(crate) idle_entries: usize,
}

pub(super) struct State<W: Work> {
    limits: Limits,
    /// Capacities that the caller has set.
    capacities: HashMap<Key, NonZeroUsize>,
    by_key: HashMap<Key, BudgetId>,
    budgets: Slab<BudgetKind, Budget<W::Resident>>,
    lanes: Slab<LaneKind, Lane>,
    jobs: Jobs<W>,
    batches: Slab<BatchKind, Batch>,
    /// The lanes that can be served, in turn.
    ring: Rank<LaneKind>,
    /// Arrivals in lines so far.
    arrivals: u64,
    /// Budgets that had room for the waiters in their lines when a lane before these took to
    /// the ring. If no worker comes for it, they are served.
    passed_over: Vec<BudgetId>,
    /// Budgets that nothing uses, the longest idle first.
    idle: List<BudgetKind>,
    idle_len: usize,
    /// Tokens of entries that have gone, for those that come: a crawl makes an entry for nearly
    /// every job, and a channel is the dearest part of it.
    spare: Vec<Tokens>,
    hungry: List<BatchKind>,
    pub(super) clock: Clock,
    /// An `Expire` is on the clock.
    expiry_set: bool,
    /// Workers that wait for the ready channel, beyond those it already holds a job for.
    pub(super) idle_workers: usize,
    /// Workers that there are, idle or not.
    pub(super) started: usize,
    /// Workers that there may be; less than the limit once the system has refused one.
    pub(super) may_start: usize,
    pub(super) stopped: Option<Ended>,
    pub(super) effects: Vec<Effect<W>>,
    /// Batches whose time is over, and whose running jobs are still to be interrupted.
    pub(super) over: Vec<BatchId>,
}

impl<W: Work> State<W> {
    pub(super) fn new(limits: Limits, capacities: HashMap<Key, NonZeroUsize>) -> Self {
        Self {
            may_start: limits.workers.get(),
            limits,
            capacities,
            by_key: HashMap::new(),
            budgets: Slab::new(),
            lanes: Slab::new(),
            jobs: Slab::new(),
            batches: Slab::new(),
            ring: Rank::default(),
            arrivals: 0,
            passed_over: Vec::new(),
            idle: List::default(),
            idle_len: 0,
            spare: Vec::new(),
            hungry: List::default(),
            clock: Clock::default(),
            expiry_set: false,
            idle_workers: 0,
            started: 0,
            stopped: None,
            effects: Vec::new(),
            over: Vec::new(),
        }
    }
}
