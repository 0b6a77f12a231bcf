//! What the tests see of the state: its parts compared with each other.

use std::fmt::Write as _;

use super::*;

impl<W: Work> State<W> {
    /// Entries in all tables: none when nothing is going on and nothing idles.
    pub(in super::super) fn entries(&self) -> usize {
        self.budgets.len() + self.by_key.len() + self.lanes.len() + self.jobs.len()
    }

    /// Unused budgets that are kept for what lives with them.
    pub(in super::super) fn idle_entries(&self) -> usize {
        self.idle_len
    }

    /// The tokens of a budget that are out; `None` where it has no entry.
    pub(in super::super) fn in_use(&self, key: &Key) -> Option<usize> {
        let id = self.by_key.get(key)?;
        Some(self.budgets[*id].tokens.in_use())
    }

    /// How many stand in a budget's line for a permit.
    pub(in super::super) fn waiters(&self, key: &Key) -> usize {
        let budget = self.by_key.get(key).map(|&id| &self.budgets[id]);
        budget.map_or(0, |budget| budget.waiters.ids(&self.lanes).len())
    }

    /// Those of a batch's unread outcomes.
    pub(in super::super) fn unread(&self, batch: BatchId) -> Option<usize> {
        let batch = self.batches.get(batch)?;
        Some(self.budgets[batch.unread].tokens.in_use())
    }

    /// The invariants of the README, as far as the state alone shows them.
    pub(in super::super) fn check(&self) {
        self.check_places();
        self.check_jobs();
        self.check_lines();
        self.check_entries();
        self.check_batches();
    }

    /// A lane stands where it says that it does, and nowhere else.
    fn check_places(&self) {
        let mut standing = 0;
        let mut stands = |place: Place, id: LaneId, priority: Priority| {
            let lane = &self.lanes[id];
            assert_eq!((lane.place, lane.priority), (place, priority), "{id:?}");
            if matches!(lane.owner, Owner::Batch(_)) {
                assert_eq!(lane.top(), Some(priority), "{id:?}");
            }
            standing += 1;
        };
        for (priority, id) in self.ring.ids(&self.lanes) {
            stands(Place::Ring, id, priority);
            assert!(matches!(self.lanes[id].owner, Owner::Batch(_)));
        }
        for budget in self.budgets.ids() {
            let Budget { line, waiters, .. } = &self.budgets[budget];
            let waiters = waiters.ids(&self.lanes).into_iter();
            let waiters = waiters.map(|id| (Priority::Normal, id));
            for (priority, id) in line.ids(&self.lanes).into_iter().chain(waiters) {
                stands(Place::Line(budget), id, priority);
                let mut needs = self.lanes[id].needs.iter();
                assert!(needs.any(|need| need == budget));
            }
        }
        assert_eq!(standing, self.lanes.len(), "lanes that stand somewhere");
    }

    fn asleep(&self, job: JobId) -> Option<&Asleep> {
        match &self.jobs[job].waits {
            Waits::Asleep(asleep) => Some(asleep),
            Waits::In(_) => None,
        }
    }

    /// A job is in one lane, that of its batch and budgets, or asleep.
    fn check_jobs(&self) {
        let mut found = 0;
        for id in self.lanes.ids() {
            let lane = &self.lanes[id];
            for job in lane.jobs(&self.jobs) {
                assert!(matches!(self.jobs[job].waits, Waits::In(lane) if lane == id));
                let Owner::Batch(batch) = lane.owner else {
                    panic!("jobs in a waiter's lane");
                };
                assert_eq!(self.batches[batch].lanes[&lane.needs], id);
                found += 1;
            }
        }
        for batch in self.batches.ids() {
            for job in self.batches[batch].asleep.ids(&self.jobs) {
                assert_eq!(self.asleep(job).map(|asleep| asleep.batch), Some(batch));
                found += 1;
            }
        }
        assert_eq!(found, self.jobs.len(), "jobs that are somewhere");
    }

    /// Where a budget has room and its line is not empty, a lane that uses it is in the ring.
    fn check_lines(&self) {
        let ring = self.ring.ids(&self.lanes);
        for id in self.budgets.ids() {
            let budget = &self.budgets[id];
            let uses = |lane: LaneId| self.lanes[lane].needs.iter().any(|need| need == id);
            assert!(
                !budget.has_room() || !budget.has_line() || ring.iter().any(|&(_, l)| uses(l)),
                "{:?} has room, and nobody will look at its line",
                budget.key
            );
            assert!(
                !budget.has_room() || budget.waiters.is_empty() || self.passed_over.contains(&id),
                "{:?} has room, and nobody will look at its waiters",
                budget.key
            );
        }
    }

    /// A budget is in the table while something uses it, or while it idles with a resident.
    fn check_entries(&self) {
        let mut users: HashMap<BudgetId, usize> = HashMap::new();
        let lanes = self.lanes.ids().into_iter().map(|id| self.lanes[id].needs);
        let batches = self.batches.ids().into_iter().map(|id| &self.batches[id]);
        let asleep = batches.flat_map(|batch| batch.asleep.ids(&self.jobs));
        let asleep = asleep.filter_map(|job| Some(self.asleep(job)?.needs));
        for id in lanes.chain(asleep).flat_map(Needs::iter) {
            *users.entry(id).or_default() += 1;
        }
        let mut named = 0;
        for id in self.budgets.ids() {
            let budget = &self.budgets[id];
            let users = users.remove(&id).unwrap_or(0) + usize::from(budget.closed_until.is_some());
            assert_eq!(budget.users, users, "users of {:?}", budget.key);
            let Some(key) = &budget.key else { continue };
            assert_eq!(self.by_key[key], id);
            named += 1;
            let idles = budget.idle_since.is_some();
            assert_eq!(idles, budget.is_unused(), "{key:?} is kept");
            assert!(
                !idles || budget.resident.get().is_some(),
                "{key:?} is empty"
            );
        }
        assert_eq!(named, self.by_key.len());
        assert!(users.is_empty(), "used, but not in the table");

        let idle = self.idle.ids(&self.budgets);
        assert_eq!(idle.len(), self.idle_len);
        assert!(idle.len() <= self.limits.idle_entries);
        let since: Vec<_> = idle.iter().map(|&id| self.budgets[id].idle_since).collect();
        assert!(since.is_sorted() && since.iter().all(Option::is_some));
        assert!(idle.is_empty() || self.expiry_set, "nothing will end them");
    }

    /// A batch that asked to be told when workers idle stands in the list, and they do not.
    fn check_batches(&self) {
        let hungry = self.hungry.ids(&self.batches);
        for id in self.batches.ids() {
            let batch = &self.batches[id];
            assert_eq!(batch.hungry, hungry.contains(&id));
            assert!(!batch.hungry || !self.is_hungry(id), "{id:?} is not told");
            for (needs, &lane) in &batch.lanes {
                assert_eq!(self.lanes[lane].needs, *needs);
            }
        }
    }

    /// For whoever finds that nothing moves any more.
    pub(in super::super) fn dump(&self) -> String {
        let mut text = format!(
            "workers: {} of {} started, {} idle; {} jobs, {} lanes, {} batches, {} asleep until {:?}\n",
            self.started,
            self.may_start,
            self.idle_workers,
            self.jobs.len(),
            self.lanes.len(),
            self.batches.len(),
            self.batches
                .ids()
                .iter()
                .map(|&id| self.batches[id].asleep.ids(&self.jobs).len())
                .sum::<usize>(),
            self.clock.next(),
        );
        let _ = writeln!(text, "ring: {:?}", self.ring.ids(&self.lanes));
        for id in self.budgets.ids().into_iter().take(100) {
            let budget = &self.budgets[id];
            let _ = writeln!(
                text,
                "{id:?} {:?}: {} out, room: {}, users: {}, line: {:?}, waiters: {:?}",
                budget.key,
                budget.tokens.in_use(),
                budget.has_room(),
                budget.users,
                budget.line.ids(&self.lanes),
                budget.waiters.ids(&self.lanes),
            );
        }
        text
    }
}
