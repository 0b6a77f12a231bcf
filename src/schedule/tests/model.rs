//! What the scheduler promises, said naively: lists that are searched from end to end.

use std::collections::BTreeSet;

use super::super::Priority;

pub(super) const KEYS: usize = 4;
const NEVER: u64 = u64::MAX;

/// A budget with a name.
#[derive(Clone)]
pub(super) struct Budget {
    pub(super) capacity: usize,
    pub(super) out: usize,
    /// The capacity, or what was out when it was lowered and has not come back yet.
    bound: usize,
    closed_until: u64,
    /// When tokens that are out come back by themselves.
    held: Vec<u64>,
}

pub(super) struct Batch {
    pub(super) open: bool,
    pub(super) capacity: usize,
    /// Jobs that run, and outcomes that have not been read.
    pub(super) unread: usize,
    pub(super) registered: bool,
    over_at: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Is {
    Waiting,
    AsleepUntil(u64),
    Running,
    /// Its outcome is to be read.
    Ran,
    Over,
}

pub(super) struct Job {
    pub(super) batch: usize,
    pub(super) keys: Vec<usize>,
    pub(super) priority: Priority,
    pub(super) is: Is,
    /// The job that was submitted: itself, unless that has divided.
    family: usize,
    latest: u64,
    begun: bool,
    /// When it came to where it waits.
    since: u64,
    /// Of its batch's unread outcomes, those that its own has.
    tokens: usize,
}

pub(super) struct Model {
    pub(super) now: u64,
    pub(super) keys: [Budget; KEYS],
    pub(super) batches: Vec<Batch>,
    pub(super) jobs: Vec<Job>,
    /// Jobs that the scheduler has to end in this step.
    pub(super) to_end: BTreeSet<usize>,
    moves: u64,
    stopped: bool,
}

impl Model {
    pub(super) fn new(capacities: [usize; KEYS]) -> Self {
        let budget = |capacity| Budget {
            capacity,
            out: 0,
            bound: capacity,
            closed_until: 0,
            held: Vec::new(),
        };
        Self {
            now: 0,
            keys: capacities.map(budget),
            batches: Vec::new(),
            jobs: Vec::new(),
            to_end: BTreeSet::new(),
            moves: 0,
            stopped: false,
        }
    }

    pub(super) fn has_room(&self, keys: &[usize]) -> bool {
        keys.iter().all(|&key| {
            let key = &self.keys[key];
            key.closed_until <= self.now && key.out < key.capacity
        })
    }

    /// Its batch may have more unread outcomes, and all its budgets have room.
    fn can_run(&self, job: &Job) -> bool {
        let batch = &self.batches[job.batch];
        job.is == Is::Waiting && batch.unread < batch.capacity && self.has_room(&job.keys)
    }

    pub(super) fn take(&mut self, keys: &[usize]) {
        assert!(self.has_room(keys), "tokens of {keys:?} without room");
        for &key in keys {
            self.keys[key].out += 1;
        }
    }

    pub(super) fn give_back(&mut self, keys: &[usize]) {
        for &key in keys {
            let key = &mut self.keys[key];
            key.out -= 1;
            key.bound = key.capacity.max(key.bound.min(key.out));
        }
    }

    pub(super) fn set_capacity(&mut self, key: usize, capacity: usize) {
        let key = &mut self.keys[key];
        key.capacity = capacity;
        key.bound = capacity.max(key.out);
    }

    pub(super) fn close(&mut self, key: usize, until: u64) {
        let key = &mut self.keys[key];
        key.closed_until = key.closed_until.max(until);
    }

    pub(super) fn open(&mut self, capacity: usize) {
        self.batches.push(Batch {
            open: true,
            capacity,
            unread: 0,
            registered: false,
            over_at: NEVER,
        });
    }

    /// One of the jobs whose outcomes are to be read.
    pub(super) fn outcome(&self, which: usize) -> Option<usize> {
        let ran = |&id: &usize| self.jobs[id].is == Is::Ran;
        let all: Vec<_> = (0..self.jobs.len()).filter(ran).collect();
        Some(all[which.checked_rem(all.len())?])
    }

    pub(super) fn submit(&mut self, batch: usize, keys: &[usize], priority: Priority) -> usize {
        let id = self.jobs.len();
        self.jobs.push(Job {
            batch,
            keys: keys.to_vec(),
            priority,
            is: Is::Over,
            family: id,
            latest: NEVER,
            begun: false,
            since: 0,
            tokens: 0,
        });
        self.enter(id, false, None);
        id
    }

    /// It is to have its turn by then.
    pub(super) fn expire(&mut self, job: usize, latest: Option<u64>) {
        self.jobs[job].latest = latest.unwrap_or(NEVER);
    }

    pub(super) fn end_at(&mut self, batch: usize, at: u64) {
        let batch = &mut self.batches[batch];
        batch.over_at = batch.over_at.min(at);
    }

    /// One of its first key's tokens comes back then, rather than with the job.
    pub(super) fn hold(&mut self, job: usize, until: u64) {
        if !self.stopped {
            let first = self.jobs[job].keys[0];
            // Taken before the one of the job comes back.
            self.keys[first].held.push(until);
            self.keys[first].out += 1;
        }
    }

    fn enter(&mut self, job: usize, begun: bool, at: Option<u64>) {
        self.moves += 1;
        let open = self.batches[self.jobs[job].batch].open;
        let entry = &mut self.jobs[job];
        (entry.begun, entry.since) = (begun, self.moves);
        entry.is = match at {
            _ if !open => Is::Over,
            Some(at) => Is::AsleepUntil(at),
            None => Is::Waiting,
        };
        if !open {
            self.to_end.insert(job);
        }
    }

    /// The scheduler has picked this job: may it?
    pub(super) fn run(&mut self, id: usize) {
        let job = &self.jobs[id];
        assert!(self.can_run(job), "{id} is run and cannot");
        let is_before = |other: &Job| {
            (other.priority, other.begun, job.since) > (job.priority, job.begun, other.since)
        };
        for (other, entry) in self.jobs.iter().enumerate() {
            let lane = entry.batch == job.batch && entry.keys == job.keys;
            assert!(
                !(lane && entry.is == Is::Waiting && is_before(entry)),
                "{other} stands before {id}"
            );
            assert!(
                !(entry.priority > job.priority && self.can_run(entry)),
                "{other} can run and is more urgent than {id}"
            );
        }
        let (batch, keys) = (job.batch, job.keys.clone());
        self.take(&keys);
        self.batches[batch].unread += 1;
        self.jobs[id].is = Is::Running;
    }

    pub(super) fn nothing_can_run(&self) {
        let job = self.jobs.iter().position(|job| self.can_run(job));
        assert_eq!(job, None, "can run and is not picked");
    }

    pub(super) fn finish(&mut self, id: usize, more: usize) {
        self.give_back(&self.jobs[id].keys.clone());
        let job = &mut self.jobs[id];
        job.is = Is::Ran;
        job.tokens = 1 + more;
        self.batches[job.batch].unread += more;
    }

    pub(super) fn again(&mut self, job: usize, keys: Option<Vec<usize>>, at: Option<u64>) {
        self.give_back(&self.jobs[job].keys.clone());
        self.batches[self.jobs[job].batch].unread -= 1;
        if let Some(keys) = keys {
            self.jobs[job].keys = keys;
        }
        self.enter(job, true, at);
    }

    /// It goes on as so many.
    pub(super) fn divide(&mut self, id: usize, keys: Option<Vec<usize>>, parts: usize) -> usize {
        self.give_back(&self.jobs[id].keys.clone());
        let job = &mut self.jobs[id];
        job.is = Is::Over;
        let (batch, family, latest) = (job.batch, job.family, job.latest);
        let (keys, priority) = (keys.unwrap_or_else(|| job.keys.clone()), job.priority);
        self.batches[batch].unread -= 1;
        let first = self.jobs.len();
        for id in first..first + parts {
            self.jobs.push(Job {
                batch,
                keys: keys.clone(),
                priority,
                is: Is::Over,
                family,
                latest,
                begun: true,
                since: 0,
                tokens: 0,
            });
            self.enter(id, true, None);
        }
        first
    }

    /// Whether all that it was divided into with it have ended: then it has the outcome.
    pub(super) fn is_last(&self, id: usize) -> bool {
        let lives = |job: &Job| !matches!(job.is, Is::Over | Is::Ran);
        let family = self.jobs[id].family;
        let mut jobs = self.jobs.iter().enumerate();
        !jobs.any(|(other, job)| other != id && job.family == family && lives(job))
    }

    /// How many tokens come back with it.
    pub(super) fn read(&mut self, id: usize) -> usize {
        let job = &mut self.jobs[id];
        job.is = Is::Over;
        self.batches[job.batch].unread -= job.tokens;
        job.tokens
    }

    pub(super) fn cancel(&mut self, batch: usize) {
        self.batches[batch].open = false;
        for (id, job) in self.jobs.iter_mut().enumerate() {
            if job.batch == batch && matches!(job.is, Is::Waiting | Is::AsleepUntil(_)) {
                job.is = Is::Over;
                self.to_end.insert(id);
            }
        }
    }

    pub(super) fn stop(&mut self) {
        self.stopped = true;
        self.release_held(NEVER);
        (0..self.batches.len()).for_each(|batch| self.cancel(batch));
        self.keys.iter_mut().for_each(|key| key.closed_until = 0);
    }

    /// Sleepers wake in the order of their times.
    pub(super) fn turn_to(&mut self, now: u64) {
        self.now = now;
        self.release_held(now);
        let due = |job: &Job| match job.is {
            Is::AsleepUntil(at) if at <= now => at,
            _ => NEVER,
        };
        let mut ids: Vec<_> = (0..self.jobs.len())
            .filter(|&id| due(&self.jobs[id]) != NEVER)
            .collect();
        ids.sort_by_key(|&id| (due(&self.jobs[id]), self.jobs[id].since));
        for id in ids {
            self.enter(id, self.jobs[id].begun, None);
        }
        for id in 0..self.jobs.len() {
            let job = &mut self.jobs[id];
            let waits = matches!(job.is, Is::Waiting | Is::AsleepUntil(_));
            if waits && job.latest <= now {
                job.is = Is::Over;
                self.to_end.insert(id);
            }
        }
        for batch in 0..self.batches.len() {
            if self.batches[batch].open && self.batches[batch].over_at <= now {
                self.cancel(batch);
            }
        }
    }

    fn release_held(&mut self, now: u64) {
        for key in 0..KEYS {
            let held = std::mem::take(&mut self.keys[key].held);
            let (due, later) = held.into_iter().partition(|&at| at <= now);
            self.keys[key].held = later;
            let due: Vec<u64> = due;
            due.iter().for_each(|_| self.give_back(&[key]));
        }
    }

    pub(super) fn is_hungry(&self, batch: usize, spare: usize) -> bool {
        let batch = &self.batches[batch];
        batch.open && spare > 0 && batch.unread < batch.capacity
    }

    pub(super) fn is_used(&self, key: usize) -> bool {
        let waits = |job: &Job| matches!(job.is, Is::Waiting | Is::AsleepUntil(_));
        let budget = &self.keys[key];
        let mut jobs = self.jobs.iter();
        budget.out > 0
            || budget.closed_until > self.now
            || jobs.any(|job| waits(job) && job.keys.contains(&key))
    }

    pub(super) fn check(&self) {
        for (n, key) in self.keys.iter().enumerate() {
            assert!(key.out <= key.bound, "{} tokens of {n} are out", key.out);
        }
    }
}
