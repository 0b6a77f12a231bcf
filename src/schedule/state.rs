//! The scheduler's state and its moves, without threads: what the one lock guards.
//!
//! Nothing in here blocks, runs the caller's code or frees what the caller owns. What a move
//! asks of the world outside the lock is left in `effects`, for whoever holds the lock to do
//! once it is released. The protocol and its invariants are told in this folder's README.

#[cfg(test)]
mod probe;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use super::budget::Budget;
use super::clock::{Clock, Event};
use super::key::Key;
use super::lane::{JobKind, Lane, Needs, Owner, Place, Priority, Rank};
use super::slab::{Id, List, Slab};
use super::{Ended, Feed, Keys, Work};

pub(super) enum LaneKind {}
pub(super) enum BudgetKind {}
#[derive(Debug)]
pub(crate) enum BatchKind {}

pub(super) type JobId = Id<JobKind>;
pub(super) type LaneId = Id<LaneKind>;
pub(super) type BudgetId = Id<BudgetKind>;
pub(super) type BatchId = Id<BatchKind>;

pub(super) type Jobs<W> = Slab<JobKind, Job<W>>;

/// A job that waits: in a lane, or asleep until the clock rings.
pub(super) struct Job<W> {
    work: W,
    batch: BatchId,
    pub(super) priority: Priority,
    pub(super) begun: bool,
    needs: Needs,
}

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
            hungry: List::default(),
            clock: Clock::default(),
            expiry_set: false,
            idle_workers: 0,
            started: 0,
            stopped: None,
            effects: Vec::new(),
        }
    }

    // Batches.

    /// After the stop it names nothing: what is submitted under it ends at once.
    pub(super) fn open(&mut self, feed: Arc<dyn Feed>, unread: NonZeroUsize) -> BatchId {
        if self.stopped.is_some() {
            self.effects.push(Effect::Close(feed));
            return Id::NONE;
        }
        let unread = self.budgets.insert(Budget::new(None, unread));
        self.batches.insert(Batch {
            feed,
            lanes: HashMap::new(),
            asleep: List::default(),
            unread,
            hungry: false,
        })
    }

    /// Takes out all that the batch has waiting, and the batch. Its running jobs go on; they
    /// give their tokens back as ever.
    pub(super) fn cancel(&mut self, id: BatchId, why: Ended) {
        let Some(batch) = self.batches.get_mut(id) else {
            return;
        };
        if batch.hungry {
            // Or it would wait for that for ever.
            self.hungry.remove(&mut self.batches, id);
            self.feed(id);
        }
        let mut batch = self.batches.remove(id).expect("looked up above");
        while let Some(job) = batch.asleep.pop_front(&mut self.jobs) {
            let job = self.jobs.remove(job).expect("a sleeper of the list");
            self.leave(job.needs);
            self.effects.push(Effect::End(job.work, why));
        }
        for lane in batch.lanes.into_values() {
            self.drain(lane, why);
        }
        self.budgets.remove(batch.unread);
        self.effects.push(Effect::Close(batch.feed));
    }

    /// The consumer has read an outcome whose job had run.
    pub(super) fn read(&mut self, id: BatchId) {
        if let Some(batch) = self.batches.get(id) {
            let unread = batch.unread;
            self.budgets[unread].tokens.give_back();
            self.wake_line(unread);
            self.feed_if_hungry(id);
        }
    }

    /// Whether a job more would be of use now: workers idle, and not because the batch's own
    /// outcomes are unread.
    pub(super) fn is_hungry(&self, id: BatchId) -> bool {
        self.spare_workers() > 0
            && self
                .batches
                .get(id)
                .is_some_and(|batch| self.budgets[batch.unread].has_room())
    }

    /// As `is_hungry`; if not, the batch's feed is called once it is, or when the batch ends.
    pub(super) fn wants_more(&mut self, id: BatchId) -> bool {
        let hungry = self.is_hungry(id);
        if let Some(batch) = self.batches.get_mut(id) {
            if !hungry && !batch.hungry {
                batch.hungry = true;
                self.hungry.push_back(&mut self.batches, id);
            }
        }
        hungry
    }

    /// Its unread outcomes, or jobs that run, may have been what kept it from growing.
    fn feed_if_hungry(&mut self, id: BatchId) {
        if self.batches.get(id).is_some_and(|batch| batch.hungry) && self.is_hungry(id) {
            self.hungry.remove(&mut self.batches, id);
            self.feed(id);
        }
    }

    fn feed(&mut self, id: BatchId) {
        let batch = &mut self.batches[id];
        batch.hungry = false;
        self.effects.push(Effect::Feed(Arc::clone(&batch.feed)));
    }

    // Jobs come in.

    pub(super) fn submit(&mut self, batch: BatchId, work: W) {
        self.enter(batch, work, false, None);
    }

    /// `begun`: it goes on (a redirect, a retry), and goes first. `at`: not before then.
    fn enter(&mut self, id: BatchId, work: W, begun: bool, at: Option<Instant>) {
        let Some(batch) = self.batches.get(id) else {
            let why = self.stopped.unwrap_or(Ended::Cancelled);
            self.effects.push(Effect::End(work, why));
            return;
        };
        let unread = batch.unread;
        let mut needs = self.needs(work.keys());
        needs.add(unread);
        let job = self.jobs.insert(Job {
            priority: work.priority(),
            work,
            batch: id,
            begun,
            needs,
        });
        if let Some(at) = at {
            self.join(needs);
            self.batches[id].asleep.push_back(&mut self.jobs, job);
            self.clock.set(at, Event::Wake(job));
        } else {
            self.enqueue(job);
        }
    }

    fn enqueue(&mut self, id: JobId) {
        let (batch, needs, priority) = {
            let job = &self.jobs[id];
            (job.batch, job.needs, job.priority)
        };
        let lane = match self.batches[batch].lanes.get(&needs) {
            Some(&lane) => lane,
            None => {
                let lane = self
                    .lanes
                    .insert(Lane::new(Owner::Batch(batch), needs, priority));
                self.batches[batch].lanes.insert(needs, lane);
                self.join(needs);
                lane
            }
        };
        self.lanes[lane].push(&mut self.jobs, id);
        match self.lanes[lane].place {
            Place::Nowhere => self.place(lane),
            place if self.lanes[lane].priority < priority => self.promote(lane, place),
            _ => {}
        }
    }

    /// A lane with a new job of a higher priority moves to where that belongs. That can be out
    /// of a line that has room: the lane in the ring that will wake it is of a lower one.
    fn promote(&mut self, lane: LaneId, place: Place) {
        self.detach(lane);
        match place {
            Place::Ring => self.enter_ring(lane),
            _ => self.place(lane),
        }
    }

    fn needs(&mut self, keys: Keys<'_>) -> Needs {
        let mut needs = Needs::NONE;
        for key in keys.iter() {
            let id = match self.by_key.get(key) {
                Some(&id) => id,
                None => {
                    let capacity = self.capacities.get(key).copied();
                    let id = self.budgets.insert(Budget::new(
                        Some(key.clone()),
                        capacity.unwrap_or(self.limits.per_host),
                    ));
                    self.by_key.insert(key.clone(), id);
                    id
                }
            };
            needs.add(id);
        }
        needs
    }

    // Lanes move.

    /// Puts a lane that has jobs and stands nowhere into the ring, or into the line of the
    /// first of its budgets without room. A waiter that has room everywhere is served.
    fn place(&mut self, id: LaneId) {
        match self.first_full(self.lanes[id].needs) {
            Some(budget) => self.line_up(id, budget),
            None if matches!(self.lanes[id].owner, Owner::Waiter(_)) => self.grant(id),
            None => self.enter_ring(id),
        }
    }

    fn first_full(&self, needs: Needs) -> Option<BudgetId> {
        needs.iter().find(|&id| !self.budgets[id].has_room())
    }

    fn line_up(&mut self, id: LaneId, budget: BudgetId) {
        let lane = &mut self.lanes[id];
        lane.priority = lane.top().unwrap_or(lane.priority);
        lane.place = Place::Line(budget);
        let (priority, senior) = (lane.priority, lane.senior);
        if !senior {
            self.arrivals += 1;
            lane.since = self.arrivals;
        }
        let waits = matches!(lane.owner, Owner::Waiter(_));
        let Budget { line, waiters, .. } = &mut self.budgets[budget];
        if waits {
            waiters.push_back(&mut self.lanes, id);
        } else if senior {
            line.push_front(&mut self.lanes, id, priority);
        } else {
            line.push_back(&mut self.lanes, id, priority);
        }
    }

    /// Takes out whoever is next in a budget's line: the longest there of the highest priority.
    fn next_in_line(&mut self, id: BudgetId) -> Option<LaneId> {
        let Budget { line, waiters, .. } = &self.budgets[id];
        let heads = [line.front(&self.lanes), waiters.front(&self.lanes)];
        let rank = |id: &LaneId| (self.lanes[*id].priority, Reverse(self.lanes[*id].since));
        let next = heads.into_iter().flatten().max_by_key(rank)?;
        self.detach(next);
        Some(next)
    }

    fn enter_ring(&mut self, id: LaneId) {
        let lane = &mut self.lanes[id];
        lane.priority = lane.top().unwrap_or(lane.priority);
        lane.place = Place::Ring;
        let priority = lane.priority;
        self.ring.push_back(&mut self.lanes, id, priority);
    }

    fn detach(&mut self, id: LaneId) {
        let lane = &mut self.lanes[id];
        let (place, priority) = (lane.place, lane.priority);
        let waits = matches!(lane.owner, Owner::Waiter(_));
        lane.place = Place::Nowhere;
        match place {
            Place::Nowhere => {}
            Place::Ring => self.ring.remove(&mut self.lanes, id, priority),
            Place::Line(budget) => {
                let Budget { line, waiters, .. } = &mut self.budgets[budget];
                if waits {
                    waiters.remove(&mut self.lanes, id);
                } else {
                    line.remove(&mut self.lanes, id, priority);
                }
            }
        }
    }

    /// Upholds the invariant for one budget: where it has room and its line is not empty, a
    /// lane that uses it stands in the ring. Called whenever a token comes back or a gate
    /// opens, and whenever a lane that uses the budget has left the ring.
    fn wake_line(&mut self, id: BudgetId) {
        while self.budgets.get(id).is_some_and(Budget::has_room) {
            let Some(lane) = self.next_in_line(id) else {
                return;
            };
            // Another of its budgets may be full by now: then it waits there, as the newest.
            self.lanes[lane].senior = self.first_full(self.lanes[lane].needs).is_none();
            self.place(lane);
            let in_ring = |lane: &Lane| lane.place == Place::Ring;
            if self.lanes.get(lane).is_some_and(in_ring) {
                if !self.budgets[id].waiters.is_empty() {
                    self.passed_over.push(id);
                }
                return;
            }
        }
    }

    /// Called when the workers there are have picked what they can: tokens left over now wait
    /// for a worker, and a waiter needs none. Whether one was served; the lanes that were
    /// before him keep their turn.
    pub(super) fn serve_waiters(&mut self) -> bool {
        while let Some(id) = self.passed_over.pop() {
            while self.budgets.get(id).is_some_and(Budget::has_room) {
                let Some(waiter) = self.budgets[id].waiters.front(&self.lanes) else {
                    break;
                };
                self.detach(waiter);
                self.place(waiter);
            }
        }
        !self.effects.is_empty()
    }

    fn wake_lines(&mut self, needs: Needs) {
        for id in needs.iter() {
            self.wake_line(id);
        }
    }

    /// The next job that can run, with its tokens taken.
    pub(super) fn pick(&mut self) -> Option<Assignment<W>> {
        loop {
            let id = self.ring.pop_front(&mut self.lanes)?;
            self.lanes[id].place = Place::Nowhere;
            let needs = self.lanes[id].needs;
            if let Some(full) = self.first_full(needs) {
                self.line_up(id, full);
                self.wake_lines(needs);
                continue;
            }
            self.take(needs);
            let lane = &mut self.lanes[id];
            lane.senior = false;
            let job = lane
                .pop(&mut self.jobs)
                .expect("a lane in the ring has jobs");
            if lane.top().is_some() {
                self.place(id);
            } else {
                self.drop_lane(id);
            }
            self.wake_lines(needs);
            let job = self.jobs.remove(job).expect("a job of the lane");
            let first = needs.iter().next().expect("a job has a budget");
            return Some(Assignment {
                work: job.work,
                batch: job.batch,
                needs,
                resident: Arc::clone(&self.budgets[first].resident),
            });
        }
    }

    pub(super) fn has_runnable(&self) -> bool {
        !self.ring.is_empty()
    }

    /// Workers that wait for work, or could be started.
    pub(super) fn spare_workers(&self) -> usize {
        self.idle_workers + self.may_start.saturating_sub(self.started)
    }

    /// A worker has nothing to do: who has more to give is told.
    pub(super) fn rest(&mut self) {
        self.idle_workers += 1;
        while let Some(id) = self.hungry.pop_front(&mut self.batches) {
            self.feed(id);
        }
    }

    /// A picked job goes back, because no worker could be started for it. After the stop it ends.
    pub(super) fn put_back(&mut self, assignment: Assignment<W>) {
        let Assignment {
            work, batch, needs, ..
        } = assignment;
        self.again(batch, needs, work, None);
    }

    // Tokens.

    fn take(&self, needs: Needs) {
        for id in needs.iter() {
            self.budgets[id].tokens.take();
        }
    }

    /// All come back first, then the lines are looked at: a lane that waits for two of them is
    /// moved once.
    fn give_back(&mut self, needs: Needs) {
        for id in needs.iter() {
            // The budget of unread outcomes goes with its batch, tokens and all.
            if let Some(budget) = self.budgets.get_mut(id) {
                budget.tokens.give_back();
            }
        }
        self.wake_lines(needs);
        self.rest_budgets(needs);
    }

    /// A job is done. The token of its unread outcome stays with that.
    pub(super) fn finish(&mut self, needs: Needs) {
        let mut kept = Needs::NONE;
        for id in needs.iter() {
            if self.budgets.get(id).is_some_and(|b| b.key.is_some()) {
                kept.add(id);
            }
        }
        self.give_back(kept);
    }

    /// A job gives its tokens back and goes on: now, or at a time.
    pub(super) fn again(&mut self, batch: BatchId, needs: Needs, work: W, at: Option<Instant>) {
        self.give_back(needs);
        self.enter(batch, work, true, at);
        self.feed_if_hungry(batch);
    }

    pub(super) fn set_capacity(&mut self, key: &Key, capacity: NonZeroUsize) {
        self.capacities.insert(key.clone(), capacity);
        if let Some(&id) = self.by_key.get(key) {
            self.budgets[id].tokens.set_capacity(capacity);
            self.wake_line(id);
        }
    }

    // Permits for threads of the caller's.

    pub(super) fn acquire(&mut self, keys: Keys<'_>, granted: Sender<()>) -> (LaneId, Needs) {
        let needs = self.needs(keys);
        let lane = Lane::new(Owner::Waiter(granted), needs, Priority::Normal);
        let id = self.lanes.insert(lane);
        self.join(needs);
        // Where there is room and a waiter, that one is about to be served: after him.
        let must_wait = |budget: &Budget<_>| !budget.has_room() || !budget.waiters.is_empty();
        match needs.iter().find(|&need| must_wait(&self.budgets[need])) {
            Some(budget) => self.line_up(id, budget),
            None => self.grant(id),
        }
        (id, needs)
    }

    /// Takes the tokens now, if all are there and nobody stands in line for them.
    pub(super) fn try_acquire(&mut self, keys: Keys<'_>) -> Option<Needs> {
        let needs = self.needs(keys);
        let free = needs.iter().all(|id| {
            let budget = &self.budgets[id];
            budget.has_room() && !budget.has_line()
        });
        if free {
            self.join(needs);
            self.take(needs);
            self.leave(needs);
            Some(needs)
        } else {
            self.rest_budgets(needs);
            None
        }
    }

    /// The waiter goes. `false` if it was granted its tokens before.
    pub(super) fn abandon(&mut self, id: LaneId) -> bool {
        let waits = self.lanes.get(id).is_some();
        if waits {
            self.detach(id);
            self.drop_lane(id);
        }
        waits
    }

    fn grant(&mut self, id: LaneId) {
        let needs = self.lanes[id].needs;
        self.take(needs);
        if let Some(lane) = self.drop_lane(id) {
            if let Owner::Waiter(granted) = lane.owner {
                self.effects.push(Effect::Grant(granted));
            }
        }
    }

    pub(super) fn release(&mut self, needs: Needs) {
        self.give_back(needs);
    }

    // Entries come and go.

    /// The budgets have one user more.
    fn join(&mut self, needs: Needs) {
        for id in needs.iter() {
            let budget = &mut self.budgets[id];
            budget.users += 1;
            if budget.idle_since.take().is_some() {
                self.idle.remove(&mut self.budgets, id);
                self.idle_len -= 1;
            }
        }
    }

    fn leave(&mut self, needs: Needs) {
        for id in needs.iter() {
            if let Some(budget) = self.budgets.get_mut(id) {
                budget.users -= 1;
            }
        }
        self.rest_budgets(needs);
    }

    /// Entries that nothing uses any more go: at once where nothing lives with them, otherwise
    /// when they have been idle for long, or when too many are.
    fn rest_budgets(&mut self, needs: Needs) {
        for id in needs.iter() {
            let Some(budget) = self.budgets.get_mut(id) else {
                continue;
            };
            if budget.key.is_none() || !budget.is_unused() || budget.idle_since.is_some() {
                continue;
            }
            if budget.resident.get().is_none() || self.stopped.is_some() {
                self.retire(id);
                continue;
            }
            let now = self.clock.now();
            budget.idle_since = Some(now);
            self.idle.push_back(&mut self.budgets, id);
            self.idle_len += 1;
            if self.idle_len > self.limits.idle_entries {
                self.retire_longest_idle();
            }
            self.set_expiry();
        }
    }

    fn retire_longest_idle(&mut self) {
        if let Some(id) = self.idle.pop_front(&mut self.budgets) {
            self.idle_len -= 1;
            self.retire(id);
        }
    }

    fn retire(&mut self, id: BudgetId) {
        let budget = self.budgets.remove(id).expect("an entry that nothing uses");
        if let Some(key) = &budget.key {
            self.by_key.remove(key);
        }
        if self.by_key.is_empty() && self.by_key.capacity() > 1024 {
            self.by_key = HashMap::new();
        }
        if budget.resident.get().is_some() {
            self.effects.push(Effect::Retire(budget.resident));
        }
    }

    fn set_expiry(&mut self) {
        if self.expiry_set {
            return;
        }
        let since = |id| self.budgets[id].idle_since;
        let first = self.idle.front(&self.budgets).and_then(since);
        // An age that no clock reaches is 'for ever'.
        if let Some(at) = first.and_then(|since| since.checked_add(self.limits.idle_age)) {
            self.clock.set(at, Event::Expire);
            self.expiry_set = true;
        }
    }

    fn expire(&mut self) {
        self.expiry_set = false;
        let now = self.clock.now();
        while let Some(id) = self.idle.front(&self.budgets) {
            let old = |since: Instant| now.duration_since(since) >= self.limits.idle_age;
            if !self.budgets[id].idle_since.is_some_and(old) {
                break;
            }
            self.retire_longest_idle();
        }
        self.set_expiry();
    }

    fn drop_lane(&mut self, id: LaneId) -> Option<Lane> {
        let lane = self.lanes.remove(id)?;
        if let Owner::Batch(batch) = lane.owner {
            // Gone where the whole batch is being cancelled.
            if let Some(batch) = self.batches.get_mut(batch) {
                batch.lanes.remove(&lane.needs);
                if batch.lanes.is_empty() && batch.lanes.capacity() > 1024 {
                    batch.lanes = HashMap::new();
                }
            }
        }
        self.leave(lane.needs);
        Some(lane)
    }

    /// Ends all jobs of a lane, and the lane.
    fn drain(&mut self, id: LaneId, why: Ended) {
        self.detach(id);
        while let Some(job) = self.lanes[id].pop(&mut self.jobs) {
            let job = self.jobs.remove(job).expect("a job of the lane");
            self.effects.push(Effect::End(job.work, why));
        }
        let needs = self.lanes[id].needs;
        self.drop_lane(id);
        // It may have been the one in the ring that others in its lines relied on.
        self.wake_lines(needs);
    }

    // Time passes.

    /// Does what is due by now.
    pub(super) fn tick(&mut self) {
        while let Some(event) = self.clock.ring() {
            match event {
                Event::Wake(job) => self.wake_job(job),
                Event::Open(budget) => self.open_gate(budget),
                Event::Expire => self.expire(),
            }
        }
    }

    fn wake_job(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(id) else {
            return;
        };
        let (batch, needs) = (job.batch, job.needs);
        self.batches[batch].asleep.remove(&mut self.jobs, id);
        self.enqueue(id);
        self.leave(needs);
    }

    fn open_gate(&mut self, id: BudgetId) {
        let now = self.clock.now();
        let Some(budget) = self.budgets.get_mut(id) else {
            return;
        };
        // A gate that was closed for longer meanwhile has a later event of its own.
        if budget.closed_until.is_some_and(|until| until <= now) {
            budget.closed_until = None;
            self.wake_line(id);
            let mut needs = Needs::NONE;
            needs.add(id);
            self.leave(needs);
        }
    }

    /// Nobody gets a token of these budgets before `until`, nor before an earlier call's time.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "for `Retry-After` and cool-downs")
    )]
    pub(super) fn close_gate(&mut self, key: &Key, until: Instant) {
        if self.stopped.is_some() {
            return;
        }
        // Of a host that nobody is at just now, too.
        let needs = self.needs(Keys {
            first: key,
            more: &[],
        });
        for id in needs.iter() {
            match &mut self.budgets[id].closed_until {
                Some(earlier) if *earlier >= until => return,
                Some(earlier) => *earlier = until,
                gate => {
                    *gate = Some(until);
                    self.join(needs);
                }
            }
            self.clock.set(until, Event::Open(id));
        }
    }

    /// Ends everything; from now on nothing is let in.
    pub(super) fn stop(&mut self, why: Ended) {
        if self.stopped.is_some() {
            return;
        }
        self.stopped = Some(why);
        for id in self.batches.ids() {
            self.cancel(id, why);
        }
        // Only waiters are left: their channels break, which tells them.
        for id in self.lanes.ids() {
            self.abandon(id);
        }
        while self.idle_len > 0 {
            self.retire_longest_idle();
        }
        for id in self.budgets.ids() {
            if self.budgets[id].closed_until.take().is_some() {
                let mut needs = Needs::NONE;
                needs.add(id);
                self.leave(needs);
            }
        }
        self.clock.clear();
    }
}
