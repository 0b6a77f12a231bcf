//! The state is what the model says, after every move and at the end.

use std::sync::atomic::Ordering;

use crossbeam_channel::TryRecvError;

use super::super::model::{Is, KEYS};
use super::super::steps::Step;
use super::super::{Effect, Ended, Priority, key};
use super::{IDLE_AGE, Run, WORKERS};

impl Run {
    /// Does what the state asks for, and compares it with what the model expects.
    pub(super) fn happen(&mut self) {
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

    pub(in super::super) fn check(&mut self) {
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
            assert!(batch.open || !batch.registered, "waits for ever");
            assert_eq!(self.state.unread(*id), batch.open.then_some(batch.unread));
        }
    }

    fn do_all(&mut self, step: &Step) {
        while self.step(step.clone()).is_some() {
            self.check();
        }
    }

    /// Everybody does his part: then every job runs, and nothing is left.
    pub(in super::super) fn drain(&mut self) {
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
                held: None,
                more: 0,
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
    pub(in super::super) fn stop(&mut self) {
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
            within: None,
        });
        self.check_stopped();
        self.do_all(&Step::Again {
            job: 0,
            keys: None,
            after: Some(1),
            held: Some(1),
        });
        self.do_all(&Step::Release { permit: 0 });
    }

    fn check_stopped(&mut self) {
        self.check();
        assert!(!self.state.has_runnable());
    }
}
