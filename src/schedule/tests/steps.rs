//! The state beside the model, on random histories: after every move they are compared.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError, bounded};
use proptest::prelude::*;

use super::super::lane::Needs;
use super::super::state::{Assignment, BatchId, Effect, LaneId, State};
use super::super::{Ended, Feed, Keys, Limits, Priority, Turn, Work};
use super::model::{Is, KEYS, Model};
use super::{Key, key, limits, some};

const WORKERS: usize = 4;
const CAPACITY: usize = 2;
const IDLE_AGE: u64 = 60_000;

pub(super) struct Item {
    id: usize,
    keys: Vec<Key>,
    priority: Priority,
}

impl Work for Item {
    type Resident = ();

    fn keys(&self) -> Keys<'_> {
        of(&self.keys)
    }

    fn priority(&self) -> Priority {
        self.priority
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
struct Told(AtomicUsize);

impl Feed for Told {
    fn more(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Which of those there are: taken modulo their number.
type Which = usize;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Open {
        unread: usize,
    },
    Submit {
        batch: Which,
        keys: Vec<usize>,
        priority: Priority,
    },
    Dispatch,
    Finish {
        job: Which,
        resident: bool,
    },
    Again {
        job: Which,
        keys: Option<Vec<usize>>,
        after: Option<u64>,
    },
    PutBack {
        job: Which,
    },
    Read {
        outcome: Which,
    },
    WantsMore {
        batch: Which,
    },
    Cancel {
        batch: Which,
    },
    Acquire {
        keys: Vec<usize>,
    },
    TryAcquire {
        keys: Vec<usize>,
    },
    Abandon {
        waiter: Which,
    },
    Release {
        permit: Which,
    },
    SetCapacity {
        key: usize,
        capacity: usize,
    },
    CloseGate {
        key: usize,
        millis: u64,
    },
    Wait {
        millis: u64,
    },
}

/// Out of plain numbers: strategies nested per step take longer than all that is tested.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(
        (0..52_u8, 0..1000_usize, any::<u32>()).prop_map(step),
        1..300,
    )
}

fn step((kind, which, bits): (u8, Which, u32)) -> Step {
    let keys = (0..=bits % 3)
        .map(|n| (bits >> (8 + 2 * n)) as usize % KEYS)
        .collect();
    let key = (bits >> 8) as usize % KEYS;
    let is_rare = (bits >> 16) % 5 == 0;
    let millis = 1 + u64::from(bits >> 16) % if is_rare { 2 * IDLE_AGE } else { 100 };
    let (job, batch) = (which, which);
    match kind {
        0 => Step::Open {
            unread: 1 + which % 4,
        },
        1..9 => {
            let priority = match bits >> 28 {
                0..3 => Priority::Low,
                3..6 => Priority::High,
                _ => Priority::Normal,
            };
            Step::Submit {
                batch,
                keys,
                priority,
            }
        }
        9..17 => Step::Dispatch,
        17..23 => Step::Finish {
            job,
            resident: bits % 2 == 0,
        },
        23..26 => {
            let keys = (bits >> 30 == 0).then_some(keys);
            let after = (bits >> 29 & 1 == 0).then_some(millis);
            Step::Again { job, keys, after }
        }
        26 => Step::PutBack { job },
        27..33 => Step::Read { outcome: which },
        33..35 => Step::WantsMore { batch },
        35 => Step::Cancel { batch },
        36..39 => Step::Acquire { keys },
        39 => Step::TryAcquire { keys },
        40 => Step::Abandon { waiter: which },
        41..45 => Step::Release { permit: which },
        45..47 => Step::SetCapacity {
            key,
            capacity: 1 + which % 3,
        },
        47..49 => Step::CloseGate { key, millis },
        _ => Step::Wait { millis },
    }
}

struct Waiter {
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

    pub(super) fn running(&self) -> usize {
        self.running.len()
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
            } => {
                let batch = nth(&self.batches, batch)?;
                let id = self.model.submit(batch, &each_once(&keys), priority);
                let keys = keys.into_iter().map(key).collect();
                let item = Item { id, keys, priority };
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
            Step::Finish { job, resident } => {
                let (id, job) = self.running.remove(nth(&self.running, job)?);
                if resident {
                    let _ = job.resident.set(());
                }
                self.model.finish(id);
                self.state.finish(job.needs);
                self.next();
            }
            Step::Again { job, keys, after } => {
                let (id, mut job) = self.running.remove(nth(&self.running, job)?);
                if let Some(keys) = &keys {
                    job.work.keys = keys.iter().copied().map(key).collect();
                }
                let at = after.map(|millis| self.model.now + millis);
                self.model.again(id, keys.as_deref().map(each_once), at);
                let at = at.map(|at| self.at(at));
                self.state.again(job.batch, job.needs, job.work, at);
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
                self.model.read(job);
                self.state.read(self.batches[batch].0);
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

    /// Does what the state asks for, and compares it with what the model expects.
    fn happen(&mut self) {
        for effect in std::mem::take(&mut self.state.effects) {
            match effect {
                Effect::End(item, _) => {
                    assert!(self.model.to_end.remove(&item.id), "{} is ended", item.id);
                }
                effect => effect.happen(),
            }
        }
        assert_eq!(self.model.to_end, [].into(), "not ended");
        let waiters = std::mem::take(&mut self.waiters);
        for waiter in waiters {
            if waiter.granted.try_recv().is_ok() {
                let mut earlier = self.waiters.iter();
                let is_one = waiter.keys.len() == 1;
                assert!(!is_one || !earlier.any(|other| other.keys == waiter.keys));
                self.model.take(&waiter.keys);
                self.permits.push((waiter.needs, waiter.keys));
            } else {
                self.waiters.push(waiter);
            }
        }
        for (batch, (_, told)) in self.model.batches.iter_mut().zip(&self.batches) {
            match told.0.swap(0, Ordering::Relaxed) {
                0 => {}
                times => assert_eq!((times, std::mem::take(&mut batch.registered)), (1, true)),
            }
        }
    }

    pub(super) fn check(&mut self) {
        self.happen();
        let served = !self.can_dispatch();
        if served && self.state.serve_waiters() {
            self.happen();
        }
        self.state.check();
        self.model.check();
        if !self.state.has_runnable() {
            self.model.nothing_can_run();
        }
        for waiter in self.waiters.iter().filter(|_| served) {
            assert!(!self.model.has_room(&waiter.keys), "a waiter is not served");
        }
        for n in 0..KEYS {
            let out = self.state.in_use(&key(n));
            assert_eq!(out.unwrap_or(0), self.model.keys[n].out, "tokens of {n}");
            let awaited = self.waiters.iter().any(|w| w.keys.contains(&n));
            assert!(out.is_some() || !awaited && !self.model.is_used(n));
        }
        for (batch, (id, _)) in self.model.batches.iter().zip(&self.batches) {
            assert_eq!(self.state.unread(*id), batch.open.then_some(batch.unread));
        }
    }

    fn do_all(&mut self, step: &Step) {
        while self.step(step.clone()).is_some() {
            self.check();
        }
    }

    /// Everybody does his part: then every job runs, and nothing is left.
    fn drain(&mut self) {
        while self.model.jobs.iter().any(|job| job.is != Is::Over)
            || !self.waiters.is_empty()
            || !self.permits.is_empty()
        {
            for _ in 0..WORKERS {
                self.step(Step::Dispatch);
                self.check();
            }
            self.do_all(&Step::Finish {
                job: 0,
                resident: true,
            });
            self.do_all(&Step::Read { outcome: 0 });
            self.do_all(&Step::Release { permit: 0 });
            self.wait(2 * IDLE_AGE);
            self.check();
        }
        for batch in 0..self.batches.len() {
            self.step(Step::Cancel { batch });
            self.check();
        }
        // The last gates open, and then what idles is old.
        self.wait(2 * IDLE_AGE);
        self.wait(2 * IDLE_AGE);
    }

    /// All ends at once, but for what is in somebody's hands.
    pub(super) fn stop(&mut self) {
        self.model.stop();
        self.state.stop(Ended::Shutdown);
        self.happen();
        for waiter in std::mem::take(&mut self.waiters) {
            assert_eq!(waiter.granted.try_recv(), Err(TryRecvError::Disconnected));
        }
        self.check_stopped();
        self.step(Step::Open { unread: 1 });
        self.model.cancel(self.batches.len() - 1);
        let batch = self.batches.len() - 1;
        let (keys, priority) = (vec![0], Priority::High);
        self.step(Step::Submit {
            batch,
            keys,
            priority,
        });
        self.check_stopped();
        self.do_all(&Step::Again {
            job: 0,
            keys: None,
            after: Some(1),
        });
        self.do_all(&Step::Release { permit: 0 });
    }

    fn check_stopped(&mut self) {
        self.check();
        assert!(!self.state.has_runnable());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_history_keeps_the_promises(steps in steps(), stops in any::<bool>()) {
        let mut run = Run::new(limits(WORKERS, CAPACITY));
        for step in steps {
            run.step(step);
            run.check();
        }
        if stops {
            run.stop();
        } else {
            run.drain();
        }
        run.check();
        assert_eq!(run.state.entries(), 0, "{}", run.state.dump());
    }
}
