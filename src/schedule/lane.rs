//! A lane: the jobs of one batch with one set of budgets.

use std::hash::{Hash, Hasher};

use crossbeam_channel::Sender;

use super::ids::{BatchId, BudgetId, JobId, JobKind, LaneId};
use super::slab::{Id, List, Slab};

/// Which of two jobs that could both run is taken first.
///
/// Priority orders the jobs of one batch and host, and the hosts among each other. It is
/// strict: while there is a job of a higher priority that can run, no lower one is started. It
/// does not take a connection away from a job that has begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// After all others.
    Low,
    /// The default.
    #[default]
    Normal,
    /// Before all others.
    High,
}

impl Priority {
    const FROM_THE_TOP: [Self; 3] = [Self::High, Self::Normal, Self::Low];
}

/// First in, first out within a priority.
pub(super) struct Rank<K>([List<K>; 3]);

impl<K> Default for Rank<K> {
    fn default() -> Self {
        Self(Default::default())
    }
}

impl<K> Rank<K> {
    pub(super) fn is_empty(&self) -> bool {
        self.top().is_none()
    }

    pub(super) fn top(&self) -> Option<Priority> {
        Priority::FROM_THE_TOP
            .into_iter()
            .find(|&priority| !self.0[priority as usize].is_empty())
    }

    pub(super) fn front<T>(&self, slab: &Slab<K, T>) -> Option<Id<K>> {
        self.0[self.top()? as usize].front(slab)
    }

    pub(super) fn push_back<T>(&mut self, slab: &mut Slab<K, T>, id: Id<K>, priority: Priority) {
        self.0[priority as usize].push_back(slab, id);
    }

    pub(super) fn push_front<T>(&mut self, slab: &mut Slab<K, T>, id: Id<K>, priority: Priority) {
        self.0[priority as usize].push_front(slab, id);
    }

    pub(super) fn pop_front<T>(&mut self, slab: &mut Slab<K, T>) -> Option<Id<K>> {
        self.0[self.top()? as usize].pop_front(slab)
    }

    pub(super) fn remove<T>(&mut self, slab: &mut Slab<K, T>, id: Id<K>, priority: Priority) {
        self.0[priority as usize].remove(slab, id);
    }

    /// All of them in their order, with the priority under which they stand here.
    #[cfg(test)]
    pub(super) fn ids<T>(&self, slab: &Slab<K, T>) -> Vec<(Priority, Id<K>)> {
        Priority::FROM_THE_TOP
            .into_iter()
            .flat_map(|p| {
                self.0[p as usize]
                    .ids(slab)
                    .into_iter()
                    .map(move |id| (p, id))
            })
            .collect()
    }
}

/// How many keys one job can have: its host's and three more of the caller's.
pub(crate) const MAX_KEYS: usize = 4;

/// The budgets of a lane, each once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Needs {
    ids: [BudgetId; MAX_KEYS + 1],
    len: u8,
}

impl Hash for Needs {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Most have two, and each job's way through its batch's table hashes them three times.
        self.iter().for_each(|id| id.hash(state));
    }
}

impl Needs {
    pub(super) const NONE: Self = Self {
        ids: [Id::NONE; MAX_KEYS + 1],
        len: 0,
    };

    pub(super) fn add(&mut self, id: BudgetId) {
        if !self.iter().any(|other| other == id) {
            self.ids[usize::from(self.len)] = id;
            self.len += 1;
        }
    }

    pub(super) fn iter(self) -> impl Iterator<Item = BudgetId> {
        self.ids.into_iter().take(self.len.into())
    }
}

/// Where a lane stands. It is in one list at most, so in one place only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// On its way from one to another.
    Nowhere,
    /// Every budget had room when it came here; a worker will look again.
    Ring,
    /// Waits for room in this budget.
    Line(BudgetId),
}

/// Whose turn it is when the lane's turn comes.
pub(super) enum Owner {
    /// A job's, on a worker.
    Batch(BatchId),
    /// A thread of the caller's that waits for a permit. It needs no worker.
    Waiter(Sender<()>),
}

pub(super) struct Lane {
    pub(super) owner: Owner,
    pub(super) needs: Needs,
    pub(super) place: Place,
    /// The priority under which it stands in its place.
    pub(super) priority: Priority,
    /// Which arrival in a line it was, among all: those of jobs and of waiters are one queue.
    pub(super) since: u64,
    /// It was at the head of a line when a token came back and has not been served since: if
    /// another lane is quicker to take the token, it waits at the head again.
    pub(super) senior: bool,
    /// Jobs that go on (a redirect, a retry), before all that have not begun.
    begun: Rank<JobKind>,
    fresh: Rank<JobKind>,
}

pub(super) type Jobs<W> = Slab<JobKind, Job<W>>;

/// A job that waits: in a lane, or asleep until the clock rings.
///
/// Small: a hundred thousand may wait.
pub(super) struct Job<W> {
    pub(super) work: W,
    pub(super) priority: Priority,
    pub(super) begun: bool,
    pub(super) waits: Waits,
}

/// Where a job waits.
pub(super) enum Waits {
    /// For its turn. Whose it is and what it needs its lane knows.
    In(LaneId),
    /// Until the clock rings.
    Asleep(Box<Asleep>),
}

/// What is to be known of a job that is in no lane.
#[derive(Clone, Copy)]
pub(super) struct Asleep {
    pub(super) batch: BatchId,
    pub(super) needs: Needs,
}

impl Lane {
    pub(super) fn new(owner: Owner, needs: Needs, priority: Priority) -> Self {
        Self {
            owner,
            needs,
            place: Place::Nowhere,
            priority,
            since: 0,
            senior: false,
            begun: Rank::default(),
            fresh: Rank::default(),
        }
    }

    pub(super) fn push<W>(&mut self, jobs: &mut Jobs<W>, job: JobId) {
        let entry = &jobs[job];
        let (begun, priority) = (entry.begun, entry.priority);
        if begun {
            self.begun.push_back(jobs, job, priority);
        } else {
            self.fresh.push_back(jobs, job, priority);
        }
    }

    pub(super) fn pop<W>(&mut self, jobs: &mut Jobs<W>) -> Option<JobId> {
        // A job that has begun goes first among its equals, not before a higher priority.
        if self.begun.top() >= self.fresh.top() {
            self.begun.pop_front(jobs)
        } else {
            self.fresh.pop_front(jobs)
        }
    }

    pub(super) fn remove<W>(&mut self, jobs: &mut Jobs<W>, job: JobId) {
        let entry = &jobs[job];
        let (begun, priority) = (entry.begun, entry.priority);
        if begun {
            self.begun.remove(jobs, job, priority);
        } else {
            self.fresh.remove(jobs, job, priority);
        }
    }

    #[cfg(test)]
    pub(super) fn jobs<W>(&self, jobs: &Jobs<W>) -> Vec<JobId> {
        let ranked = [&self.begun, &self.fresh].map(|rank| rank.ids(jobs));
        ranked.into_iter().flatten().map(|(_, id)| id).collect()
    }

    /// The highest priority of its jobs.
    pub(super) fn top(&self) -> Option<Priority> {
        self.begun.top().max(self.fresh.top())
    }
}
