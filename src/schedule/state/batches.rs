//! Batches come and go, and ask for more.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::*;

impl<W: Work> State<W> {
    /// After the stop it names nothing: what is submitted under it ends at once.
    pub(in super::super) fn open(&mut self, feed: Arc<dyn Feed>, unread: NonZeroUsize) -> BatchId {
        if self.stopped.is_some() {
            self.effects.push(Effect::Close(feed));
            return Id::NONE;
        }
        let unread = self.budgets.insert(Budget::new(None, Tokens::new(unread)));
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
    pub(in super::super) fn cancel(&mut self, id: BatchId, why: Ended) {
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
            if let Waits::Asleep(asleep) = job.waits {
                self.leave(asleep.needs);
            }
            self.effects.push(Effect::End(job.work, why));
        }
        for lane in batch.lanes.into_values() {
            self.drain(lane, why);
        }
        self.budgets.remove(batch.unread);
        self.effects.push(Effect::Close(batch.feed));
    }

    /// Whatever the batch has left at that time ends.
    pub(in super::super) fn end_batch_at(&mut self, id: BatchId, at: Instant) {
        self.set_alarm(at, Event::Over(id));
    }

    /// The consumer has read an outcome whose job had run.
    pub(in super::super) fn read(&mut self, id: BatchId) {
        if let Some(batch) = self.batches.get(id) {
            let unread = batch.unread;
            self.budgets[unread].tokens.give_back();
            self.wake_line(unread);
            self.feed_if_hungry(id);
        }
    }

    /// Whether a job more would be of use now: workers idle, and not because the batch's own
    /// outcomes are unread.
    pub(in super::super) fn is_hungry(&self, id: BatchId) -> bool {
        self.spare_workers() > 0
            && self
                .batches
                .get(id)
                .is_some_and(|batch| self.budgets[batch.unread].has_room())
    }

    /// As `is_hungry`; if not, the batch's feed is called once it is, or when the batch ends.
    pub(in super::super) fn wants_more(&mut self, id: BatchId) -> bool {
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
    pub(super) fn feed_if_hungry(&mut self, id: BatchId) {
        if self.batches.get(id).is_some_and(|batch| batch.hungry) && self.is_hungry(id) {
            self.hungry.remove(&mut self.batches, id);
            self.feed(id);
        }
    }

    pub(super) fn feed(&mut self, id: BatchId) {
        let batch = &mut self.batches[id];
        batch.hungry = false;
        self.effects.push(Effect::Feed(Arc::clone(&batch.feed)));
    }
}
