//! Entries come with their first user, and go after their last.

use super::*;

/// How many entries' tokens are kept for others. They come and go one by one.
const SPARE: usize = 16;

impl<W: Work> State<W> {
    pub(super) fn tokens(&mut self, key: &Key) -> Tokens {
        match self.capacities.get(key) {
            Some(&capacity) => Tokens::new(capacity),
            None => self
                .spare
                .pop()
                .unwrap_or_else(|| Tokens::new(self.limits.per_host)),
        }
    }

    /// The budgets have one user more.
    pub(super) fn join(&mut self, needs: Needs) {
        for id in needs.iter() {
            let budget = &mut self.budgets[id];
            budget.users += 1;
            if budget.idle_since.take().is_some() {
                self.idle.remove(&mut self.budgets, id);
                self.idle_len -= 1;
            }
        }
    }

    pub(super) fn leave(&mut self, needs: Needs) {
        for id in needs.iter() {
            if let Some(budget) = self.budgets.get_mut(id) {
                budget.users -= 1;
            }
        }
        self.rest_budgets(needs);
    }

    /// Entries that nothing uses any more go: at once where nothing lives with them, otherwise
    /// when they have been idle for long, or when too many are.
    pub(super) fn rest_budgets(&mut self, needs: Needs) {
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

    pub(in super::super) fn residents(&mut self) -> Vec<Arc<OnceLock<W::Resident>>> {
        while self.idle_len > 0 {
            self.retire_longest_idle();
        }
        let ids = self.budgets.ids().into_iter();
        ids.map(|id| Arc::clone(&self.budgets[id].resident))
            .collect()
    }

    pub(super) fn retire_longest_idle(&mut self) {
        if let Some(id) = self.idle.pop_front(&mut self.budgets) {
            self.idle_len -= 1;
            self.retire(id);
        }
    }

    pub(super) fn retire(&mut self, id: BudgetId) {
        let budget = self.budgets.remove(id).expect("an entry that nothing uses");
        if let Some(key) = &budget.key {
            self.by_key.remove(key);
        }
        if self.by_key.is_empty() && self.by_key.capacity() > 1024 {
            self.by_key = HashMap::new();
        }
        if self.spare.len() < SPARE && budget.tokens.capacity() == self.limits.per_host {
            self.spare.push(budget.tokens);
        }
        if budget.resident.get().is_some() {
            self.effects.push(Effect::Retire(budget.resident));
        }
    }

    pub(super) fn set_expiry(&mut self) {
        if self.expiry_set {
            return;
        }
        let since = |id| self.budgets[id].idle_since;
        let first = self.idle.front(&self.budgets).and_then(since);
        // An age that no clock reaches is 'for ever'.
        if let Some(at) = first.and_then(|since| since.checked_add(self.limits.idle_age)) {
            self.set_alarm(at, Event::Expire);
            self.expiry_set = true;
        }
    }

    pub(super) fn expire(&mut self) {
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

    pub(super) fn drop_lane(&mut self, id: LaneId) -> Option<Lane> {
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
    pub(super) fn drain(&mut self, id: LaneId, why: Ended) {
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
}
