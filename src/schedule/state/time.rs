//! Time passes, and ends.

use super::*;

impl<W: Work> State<W> {
    /// Does what is due by now.
    pub(in super::super) fn tick(&mut self) {
        while let Some(event) = self.clock.ring() {
            match event {
                Event::Wake(job) => self.wake_job(job),
                Event::Open(budget) => self.open_gate(budget),
                Event::Expire => self.expire(),
            }
        }
    }

    pub(super) fn wake_job(&mut self, id: JobId) {
        let Some(asleep) = self.jobs.get_mut(id).and_then(|job| job.asleep.take()) else {
            return;
        };
        let Asleep { batch, needs } = *asleep;
        self.batches[batch].asleep.remove(&mut self.jobs, id);
        self.enqueue(id, batch, needs);
        self.leave(needs);
    }

    pub(super) fn open_gate(&mut self, id: BudgetId) {
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
    pub(in super::super) fn close_gate(&mut self, key: &Key, until: Instant) {
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
    pub(in super::super) fn stop(&mut self, why: Ended) {
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
