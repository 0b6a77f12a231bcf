//! Tokens are taken and given back, by jobs and by permits.

use super::*;

impl<W: Work> State<W> {
    pub(super) fn take(&self, needs: Needs) {
        for id in needs.iter() {
            self.budgets[id].tokens.take();
        }
    }

    /// All come back first, then the lines are looked at: a lane that waits for two of them is
    /// moved once.
    pub(super) fn give_back(&mut self, needs: Needs) {
        for id in needs.iter() {
            // The budget of unread outcomes goes with its batch, tokens and all.
            if let Some(budget) = self.budgets.get_mut(id) {
                budget.tokens.give_back();
            }
        }
        self.wake_lines(needs);
        self.rest_budgets(needs);
    }

    /// A job is done. The token of its unread outcome stays with that, which takes so many `more`
    /// of them. That of its first budget is held back until then, if there is a time.
    pub(in super::super) fn finish(&mut self, needs: Needs, held: Option<Instant>, more: usize) {
        let mut back = Needs::NONE;
        for id in self.hold(needs, held).iter() {
            match self.budgets.get_mut(id) {
                Some(budget) if budget.key.is_some() => back.add(id),
                Some(unread) => unread.tokens.charge(more),
                None => {}
            }
        }
        self.give_back(back);
    }

    /// A job gives its tokens back, that of its unread outcome too, and goes on as these: now, or
    /// at a time. As a rule it is one. Where it is none, the outcome is another's to deliver.
    pub(in super::super) fn again(
        &mut self,
        batch: BatchId,
        needs: Needs,
        held: Option<Instant>,
        works: impl IntoIterator<Item = W>,
        at: Option<Instant>,
    ) {
        let back = self.hold(needs, held);
        self.give_back(back);
        for work in works {
            self.enter(batch, work, true, at);
        }
        self.feed_if_hungry(batch);
    }

    /// Keeps the first token, if there is a time until when. Those that are left go back now.
    fn hold(&mut self, needs: Needs, until: Option<Instant>) -> Needs {
        let Some(until) = until.filter(|_| self.stopped.is_none()) else {
            return needs;
        };
        let mut rest = needs.iter();
        if let Some(first) = rest.next() {
            self.budgets[first].held += 1;
            self.set_alarm(until, Event::Release(first));
        }
        let mut left = Needs::NONE;
        rest.for_each(|id| left.add(id));
        left
    }

    pub(super) fn release_held(&mut self, id: BudgetId) {
        self.budgets[id].held -= 1;
        let mut needs = Needs::NONE;
        needs.add(id);
        self.give_back(needs);
    }

    pub(in super::super) fn set_capacity(&mut self, key: &Key, capacity: NonZeroUsize) {
        self.capacities.insert(key.clone(), capacity);
        if let Some(&id) = self.by_key.get(key) {
            self.budgets[id].tokens.set_capacity(capacity);
            self.wake_line(id);
        }
    }

    pub(in super::super) fn acquire(
        &mut self,
        keys: Keys<'_>,
        granted: Sender<()>,
    ) -> (LaneId, Needs) {
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
    pub(in super::super) fn try_acquire(&mut self, keys: Keys<'_>) -> Option<Needs> {
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
    pub(in super::super) fn abandon(&mut self, id: LaneId) -> bool {
        let waits = self.lanes.get(id).is_some();
        if waits {
            self.detach(id);
            self.drop_lane(id);
        }
        waits
    }

    pub(super) fn grant(&mut self, id: LaneId) {
        let needs = self.lanes[id].needs;
        self.take(needs);
        if let Some(lane) = self.drop_lane(id) {
            if let Owner::Waiter(granted) = lane.owner {
                self.effects.push(Effect::Grant(granted));
            }
        }
    }

    pub(in super::super) fn release(&mut self, needs: Needs) {
        self.give_back(needs);
    }
}
