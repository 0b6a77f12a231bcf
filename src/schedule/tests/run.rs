//! The state beside the model: what is done to one is done to the other.

mod compare;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};

use super::super::ids::{BatchId, LaneId};
use super::super::lane::Needs;
use super::super::state::{Assignment, State};
use super::super::{Ended, Feed, Keys, Limits, Priority, Turn, Work};
use super::model::{KEYS, Model};
use super::steps::{Step, Which};
use super::{Key, key, some};

pub(super) const WORKERS: usize = 4;
pub(super) const IDLE_AGE: u64 = 60_000;

pub(super) struct Item {
    id: usize,
    keys: Vec<Key>,
    priority: Priority,
    latest: Option<Instant>,
}

impl Work for Item {
    type Resident = ();

    fn keys(&self) -> Keys<'_> {
        of(&self.keys)
    }

    fn priority(&self) -> Priority {
        self.priority
    }

    fn latest_start(&self) -> Option<Instant> {
        self.latest
    }

    fn is_cancelled(&self) -> bool {
        false
    }

    fn run(self, _: &mut Turn<'_, Self>) {
        unreachable!("there are no threads here");
    }

    fn end(self, _: Ended) {
        unreachable!("the effects are looked at instead");
    }
}

pub(super) fn of(keys: &[Key]) -> Keys<'_> {
    Keys {
        first: &keys[0],
        more: &keys[1..],
    }
}

/// How often a batch was told that workers idle.
#[derive(Default)]
pub(super) struct Told(AtomicUsize);

impl Feed for Told {
    fn more(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

pub(super) struct Waiter {
    lane: LaneId,
    needs: Needs,
    keys: Vec<usize>,
    granted: Receiver<()>,
}

pub(super) struct Run {
    pub(super) state: State<Item>,
    model: Model,
    start: Instant,
    batches: Vec<(BatchId, Arc<Told>)>,
    running: Vec<(usize, Assignment<Item>)>,
    waiters: Vec<Waiter>,
    permits: Vec<(Needs, Vec<usize>)>,
}

fn each_once(keys: &[usize]) -> Vec<usize> {
    let mut once = Vec::new();
    for &key in keys {
        if !once.contains(&key) {
            once.push(key);
        }
    }
    once
}

fn nth<T>(list: &[T], which: Which) -> Option<usize> {
    which.checked_rem(list.len())
}

impl Run {
    pub(super) fn new(limits: Limits) -> Self {
        let model = Model::new([limits.per_host.get(); KEYS]);
        let mut state = State::new(limits, HashMap::new());
        let start = Instant::now();
        state.clock.turn_to(start);
        Self {
            state,
            model,
            start,
            batches: Vec::new(),
            running: Vec::new(),
            waiters: Vec::new(),
            permits: Vec::new(),
        }
    }

    pub(super) fn permits(&self) -> usize {
        self.permits.len()
    }

    /// The jobs that run, by the order in which they were submitted.
    pub(super) fn running(&self) -> Vec<usize> {
        self.running.iter().map(|&(id, _)| id).collect()
    }

    pub(super) fn alarms(&self) -> usize {
        self.state.clock.len()
    }

    fn at(&self, millis: u64) -> Instant {
        self.start + Duration::from_millis(millis)
    }

    /// `None` if there is nothing that the step could be done to.
    pub(super) fn step(&mut self, step: Step) -> Option<()> {
        match step {
            Step::Open { unread } => {
                let told = Arc::<Told>::default();
                let id = self.state.open(Arc::clone(&told) as _, some(unread));
                self.batches.push((id, told));
                self.model.open(unread);
            }
            Step::Submit {
                batch,
                keys,
                priority,
                within,
            } => {
                let batch = nth(&self.batches, batch)?;
                let id = self.model.submit(batch, &each_once(&keys), priority);
                let latest = within.map(|millis| self.model.now + millis);
                self.model.expire(id, latest);
                let keys = keys.into_iter().map(key).collect();
                let latest = latest.map(|at| self.at(at));
                let item = Item {
                    id,
                    keys,
                    priority,
                    latest,
                };
                self.state.submit(self.batches[batch].0, item);
            }
            Step::Dispatch => {
                if self.can_dispatch() && self.pick() {
                    if self.state.idle_workers > 0 {
                        self.state.idle_workers -= 1;
                    } else {
                        self.state.started += 1;
                    }
                }
            }
            Step::Finish {
                job,
                resident,
                held,
                more,
            } => {
                let (id, job) = self.running.remove(nth(&self.running, job)?);
                if resident {
                    let _ = job.resident.set(());
                }
                let held = self.hold(id, held);
                if self.model.is_last(id) {
                    self.model.finish(id, more);
                    self.state.finish(job.needs, held, more);
                } else {
                    self.model.divide(id, None, 0);
                    self.state.again(job.batch, job.needs, held, [], None);
                }
                self.next();
            }
            Step::Divide {
                job,
                keys,
                parts,
                held,
            } => {
                let (id, mut job) = self.running.remove(nth(&self.running, job)?);
                if let Some(keys) = &keys {
                    job.work.keys = keys.iter().copied().map(key).collect();
                }
                let held = self.hold(id, held);
                let keys = keys.as_deref().map(each_once);
                let first = self.model.divide(id, keys, parts);
                let piece = |id| Item {
                    id,
                    keys: job.work.keys.clone(),
                    ..job.work
                };
                let pieces = (first..first + parts).map(piece);
                self.state.again(job.batch, job.needs, held, pieces, None);
                self.next();
            }
            Step::Again {
                job,
                keys,
                after,
                held,
            } => {
                let (id, mut job) = self.running.remove(nth(&self.running, job)?);
                if let Some(keys) = &keys {
                    job.work.keys = keys.iter().copied().map(key).collect();
                }
                let held = self.hold(id, held);
                let at = after.map(|millis| self.model.now + millis);
                self.model.again(id, keys.as_deref().map(each_once), at);
                let at = at.map(|at| self.at(at));
                self.state.again(job.batch, job.needs, held, [job.work], at);
                self.next();
            }
            Step::PutBack { job } => {
                let (id, job) = self.running.remove(nth(&self.running, job)?);
                self.model.again(id, None, None);
                self.state.put_back(job);
                self.state.rest();
            }
            Step::Read { outcome } => {
                let job = self.model.outcome(outcome)?;
                let batch = self.model.jobs[job].batch;
                let tokens = self.model.read(job);
                (0..tokens).for_each(|_| self.state.read(self.batches[batch].0));
            }
            Step::WantsMore { batch } => {
                let batch = nth(&self.batches, batch)?;
                let hungry = self.state.wants_more(self.batches[batch].0);
                assert_eq!(hungry, self.is_hungry(batch));
                let batch = &mut self.model.batches[batch];
                batch.registered |= batch.open && !hungry;
            }
            Step::Cancel { batch } => {
                let batch = nth(&self.batches, batch)?;
                self.model.cancel(batch);
                self.state.cancel(self.batches[batch].0, Ended::Cancelled);
            }
            Step::EndAt { batch, millis } => {
                let batch = nth(&self.batches, batch)?;
                let at = self.model.now + millis;
                self.model.end_at(batch, at);
                self.state.end_batch_at(self.batches[batch].0, self.at(at));
            }
            Step::Acquire { keys } => {
                let names: Vec<_> = keys.iter().copied().map(key).collect();
                let (grant, granted) = bounded(1);
                let (lane, needs) = self.state.acquire(of(&names), grant);
                let keys = each_once(&keys);
                self.waiters.push(Waiter {
                    lane,
                    needs,
                    keys,
                    granted,
                });
            }
            Step::TryAcquire { keys } => {
                let names: Vec<_> = keys.iter().copied().map(key).collect();
                let needs = self.state.try_acquire(of(&names))?;
                let keys = each_once(&keys);
                self.model.take(&keys);
                self.permits.push((needs, keys));
            }
            Step::Abandon { waiter } => {
                let waiter = self.waiters.remove(nth(&self.waiters, waiter)?);
                assert!(self.state.abandon(waiter.lane), "it has no grant");
            }
            Step::Release { permit } => {
                let (needs, keys) = self.permits.remove(nth(&self.permits, permit)?);
                self.model.give_back(&keys);
                self.state.release(needs);
            }
            Step::SetCapacity { key: n, capacity } => {
                self.model.set_capacity(n, capacity);
                self.state.set_capacity(&key(n), some(capacity));
            }
            Step::CloseGate { key: n, millis } => {
                let until = self.model.now + millis;
                self.model.close(n, until);
                self.state.close_gate(&key(n), self.at(until));
            }
            Step::Wait { millis } => self.wait(millis),
        }
        Some(())
    }

    fn hold(&mut self, job: usize, millis: Option<u64>) -> Option<Instant> {
        let until = self.model.now + millis?;
        self.model.hold(job, until);
        Some(self.at(until))
    }

    fn wait(&mut self, millis: u64) {
        self.model.turn_to(self.model.now + millis);
        self.state.clock.turn_to(self.at(self.model.now));
        self.state.tick();
    }

    fn can_dispatch(&self) -> bool {
        self.state.has_runnable() && self.state.spare_workers() > 0
    }

    fn is_hungry(&self, batch: usize) -> bool {
        self.model.is_hungry(batch, self.state.spare_workers())
    }

    /// What a worker does that is through with a job.
    fn next(&mut self) {
        if !self.pick() {
            self.state.rest();
        }
    }

    fn pick(&mut self) -> bool {
        let picked = self.state.pick();
        self.happen();
        let Some(assignment) = picked else {
            self.model.nothing_can_run();
            return false;
        };
        let id = assignment.work.id;
        self.model.run(id);
        self.running.push((id, assignment));
        true
    }
}
