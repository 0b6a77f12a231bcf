//! Time passes, and ends.

use super::*;

impl<W: Work> State<W> {
    /// Does what is due by now.
    pub(in super::super) fn tick(&mut self) {
        while let Some(event) = self.clock.ring() {
            match event {
                Event::Wake(job) => self.wake_job(job),
                Event::Late(job) => self.end_late(job),
                Event::Over(batch) => {
                    self.cancel(batch, Ended::Late);
                    self.over.push(batch);
                }
                Event::Open(budget) => self.open_gate(budget),
                Event::Release(budget) => self.release_held(budget),
                Event::Expire => self.expire(),
            }
        }
    }

    /// Alarms of what is gone stay until their time, unless they become too many.
    pub(super) fn set_alarm(&mut self, at: Instant, event: Event) {
        self.clock.set(at, event);
        if self.clock.is_crowded() {
            let (jobs, budgets, batches) = (&self.jobs, &self.budgets, &self.batches);
            self.clock.retain(|event| match event {
                Event::Wake(job) | Event::Late(job) => jobs.get(job).is_some(),
                Event::Over(batch) => batches.get(batch).is_some(),
                Event::Open(budget) | Event::Release(budget) => budgets.get(budget).is_some(),
                Event::Expire => true,
            });
        }
    }

    pub(super) fn wake_job(&mut self, id: JobId) {
        let Some(Waits::Asleep(asleep)) = self.jobs.get(id).map(|job| &job.waits) else {
            return;
        };
        let asleep = **asleep;
        let list = &mut self.batches[asleep.batch].asleep;
        list.remove(&mut self.jobs, id);
        self.enqueue(id, asleep);
        self.leave(asleep.needs);
    }

    /// The job has waited for as long as it may, asleep or for its turn.
    pub(super) fn end_late(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(id) else {
            return;
        };
        match &job.waits {
            Waits::Asleep(asleep) => {
                let asleep = **asleep;
                let list = &mut self.batches[asleep.batch].asleep;
                list.remove(&mut self.jobs, id);
                self.leave(asleep.needs);
            }
            &Waits::In(lane) => self.leave_lane(id, lane),
        }
        let job = self.jobs.remove(id).expect("looked up above");
        self.effects.push(Effect::End(job.work, Ended::Late));
    }

    fn leave_lane(&mut self, job: JobId, id: LaneId) {
        let lane = &mut self.lanes[id];
        lane.remove(&mut self.jobs, job);
        let (place, needs) = (lane.place, lane.needs);
        match lane.top() {
            Some(top) if top < lane.priority => {
                self.rerank(id, place);
                // More urgent ones in its lines relied on it to go before.
                self.wake_lines(needs);
            }
            Some(_) => {}
            None => {
                self.detach(id);
                self.drop_lane(id);
                self.wake_lines(needs);
            }
        }
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
            self.set_alarm(until, Event::Open(id));
        }
    }

    pub(in super::super) fn is_open(&self, needs: Needs) -> bool {
        let first = needs.iter().next().and_then(|id| self.budgets.get(id));
        first.is_some_and(|budget| budget.closed_until.is_none())
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
            for _ in 0..self.budgets[id].held {
                self.release_held(id);
            }
            if self.budgets.get(id).is_none() {
                continue;
            }
            if self.budgets[id].closed_until.take().is_some() {
                let mut needs = Needs::NONE;
                needs.add(id);
                self.leave(needs);
            }
        }
        self.clock.clear();
    }
}
