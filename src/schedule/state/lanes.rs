//! Jobs come into lanes, and lanes move: into the ring, into a line, to a worker.

use super::*;

impl<W: Work> State<W> {
    pub(in super::super) fn submit(&mut self, batch: BatchId, work: W) {
        self.enter(batch, work, false, None);
    }

    /// `begun`: it goes on (a redirect, a retry), and goes first. `at`: not before then.
    pub(super) fn enter(&mut self, id: BatchId, work: W, begun: bool, at: Option<Instant>) {
        let Some(batch) = self.batches.get(id) else {
            let why = self.stopped.unwrap_or(Ended::Cancelled);
            self.effects.push(Effect::End(work, why));
            return;
        };
        let unread = batch.unread;
        let mut needs = self.needs(work.keys());
        needs.add(unread);
        let latest = work.latest_start();
        let asleep = Asleep { batch: id, needs };
        let job = self.jobs.insert(Job {
            priority: work.priority(),
            work,
            begun,
            waits: Waits::Asleep(Box::new(asleep)),
        });
        if let Some(at) = at {
            self.join(needs);
            self.batches[id].asleep.push_back(&mut self.jobs, job);
            self.set_alarm(at, Event::Wake(job));
        } else {
            self.enqueue(job, asleep);
        }
        if let Some(at) = latest {
            self.set_alarm(at, Event::Late(job));
        }
    }

    pub(super) fn enqueue(&mut self, id: JobId, Asleep { batch, needs }: Asleep) {
        let priority = self.jobs[id].priority;
        let lane = match self.batches[batch].lanes.get(&needs) {
            Some(&lane) => lane,
            None => {
                let lane = self
                    .lanes
                    .insert(Lane::new(Owner::Batch(batch), needs, priority));
                self.batches[batch].lanes.insert(needs, lane);
                self.join(needs);
                lane
            }
        };
        self.jobs[id].waits = Waits::In(lane);
        self.lanes[lane].push(&mut self.jobs, id);
        match self.lanes[lane].place {
            Place::Nowhere => self.place(lane),
            place if self.lanes[lane].priority < priority => self.rerank(lane, place),
            _ => {}
        }
    }

    /// A lane with a new job of a higher priority, or without its last of one, moves to where
    /// that belongs. That can be out of a line that has room: the lane in the ring that will
    /// wake it is of a lower one.
    pub(super) fn rerank(&mut self, lane: LaneId, place: Place) {
        self.detach(lane);
        match place {
            Place::Ring => self.enter_ring(lane),
            _ => self.place(lane),
        }
    }

    pub(super) fn needs(&mut self, keys: Keys<'_>) -> Needs {
        let mut needs = Needs::NONE;
        for key in keys.iter() {
            let id = match self.by_key.get(key) {
                Some(&id) => id,
                None => {
                    let tokens = self.tokens(key);
                    let id = self.budgets.insert(Budget::new(Some(key.clone()), tokens));
                    self.by_key.insert(key.clone(), id);
                    id
                }
            };
            needs.add(id);
        }
        needs
    }

    /// Puts a lane that has jobs and stands nowhere into the ring, or into the line of the
    /// first of its budgets without room. A waiter that has room everywhere is served.
    pub(super) fn place(&mut self, id: LaneId) {
        match self.first_full(self.lanes[id].needs) {
            Some(budget) => self.line_up(id, budget),
            None if matches!(self.lanes[id].owner, Owner::Waiter(_)) => self.grant(id),
            None => self.enter_ring(id),
        }
    }

    pub(super) fn first_full(&self, needs: Needs) -> Option<BudgetId> {
        needs.iter().find(|&id| !self.budgets[id].has_room())
    }

    pub(super) fn line_up(&mut self, id: LaneId, budget: BudgetId) {
        let lane = &mut self.lanes[id];
        lane.priority = lane.top().unwrap_or(lane.priority);
        lane.place = Place::Line(budget);
        let (priority, senior) = (lane.priority, lane.senior);
        if !senior {
            self.arrivals += 1;
            lane.since = self.arrivals;
        }
        let waits = matches!(lane.owner, Owner::Waiter(_));
        let Budget { line, waiters, .. } = &mut self.budgets[budget];
        if waits {
            waiters.push_back(&mut self.lanes, id);
        } else if senior {
            line.push_front(&mut self.lanes, id, priority);
        } else {
            line.push_back(&mut self.lanes, id, priority);
        }
    }

    /// Takes out whoever is next in a budget's line: the longest there of the highest priority.
    pub(super) fn next_in_line(&mut self, id: BudgetId) -> Option<LaneId> {
        let Budget { line, waiters, .. } = &self.budgets[id];
        let heads = [line.front(&self.lanes), waiters.front(&self.lanes)];
        let rank = |id: &LaneId| (self.lanes[*id].priority, Reverse(self.lanes[*id].since));
        let next = heads.into_iter().flatten().max_by_key(rank)?;
        self.detach(next);
        Some(next)
    }

    pub(super) fn enter_ring(&mut self, id: LaneId) {
        let lane = &mut self.lanes[id];
        lane.priority = lane.top().unwrap_or(lane.priority);
        lane.place = Place::Ring;
        let priority = lane.priority;
        self.ring.push_back(&mut self.lanes, id, priority);
    }

    pub(super) fn detach(&mut self, id: LaneId) {
        let lane = &mut self.lanes[id];
        let (place, priority) = (lane.place, lane.priority);
        let waits = matches!(lane.owner, Owner::Waiter(_));
        lane.place = Place::Nowhere;
        match place {
            Place::Nowhere => {}
            Place::Ring => self.ring.remove(&mut self.lanes, id, priority),
            Place::Line(budget) => {
                let Budget { line, waiters, .. } = &mut self.budgets[budget];
                if waits {
                    waiters.remove(&mut self.lanes, id);
                } else {
                    line.remove(&mut self.lanes, id, priority);
                }
            }
        }
    }

    /// Upholds the invariant for one budget: where it has room and its line is not empty, a
    /// lane that uses it stands in the ring. Called whenever a token comes back or a gate
    /// opens, and whenever a lane that uses the budget has left the ring.
    pub(super) fn wake_line(&mut self, id: BudgetId) {
        while self.budgets.get(id).is_some_and(Budget::has_room) {
            let Some(lane) = self.next_in_line(id) else {
                return;
            };
            // Another of its budgets may be full by now: then it waits there, as the newest.
            self.lanes[lane].senior = self.first_full(self.lanes[lane].needs).is_none();
            self.place(lane);
            let in_ring = |lane: &Lane| lane.place == Place::Ring;
            if self.lanes.get(lane).is_some_and(in_ring) {
                if !self.budgets[id].waiters.is_empty() {
                    self.passed_over.push(id);
                }
                return;
            }
        }
    }

    /// Called when the workers there are have picked what they can: tokens left over now wait
    /// for a worker, and a waiter needs none. Whether one was served; the lanes that were
    /// before him keep their turn.
    pub(in super::super) fn serve_waiters(&mut self) -> bool {
        while let Some(id) = self.passed_over.pop() {
            while self.budgets.get(id).is_some_and(Budget::has_room) {
                let Some(waiter) = self.budgets[id].waiters.front(&self.lanes) else {
                    break;
                };
                self.detach(waiter);
                self.place(waiter);
            }
        }
        !self.effects.is_empty()
    }

    pub(super) fn wake_lines(&mut self, needs: Needs) {
        for id in needs.iter() {
            self.wake_line(id);
        }
    }

    /// The next job that can run, with its tokens taken.
    pub(in super::super) fn pick(&mut self) -> Option<Assignment<W>> {
        loop {
            let id = self.ring.pop_front(&mut self.lanes)?;
            self.lanes[id].place = Place::Nowhere;
            let needs = self.lanes[id].needs;
            if let Some(full) = self.first_full(needs) {
                self.line_up(id, full);
                self.wake_lines(needs);
                continue;
            }
            self.take(needs);
            let lane = &mut self.lanes[id];
            lane.senior = false;
            let job = lane
                .pop(&mut self.jobs)
                .expect("a lane in the ring has jobs");
            let Owner::Batch(batch) = lane.owner else {
                unreachable!("a waiter's lane is never in the ring");
            };
            if lane.top().is_some() {
                self.place(id);
            } else {
                self.drop_lane(id);
            }
            self.wake_lines(needs);
            let job = self.jobs.remove(job).expect("a job of the lane");
            let first = needs.iter().next().expect("a job has a budget");
            return Some(Assignment {
                work: job.work,
                batch,
                needs,
                resident: Arc::clone(&self.budgets[first].resident),
            });
        }
    }

    pub(in super::super) fn has_runnable(&self) -> bool {
        !self.ring.is_empty()
    }

    /// Workers that wait for work, or could be started.
    pub(in super::super) fn spare_workers(&self) -> usize {
        self.idle_workers + self.may_start.saturating_sub(self.started)
    }

    /// A worker has nothing to do: who has more to give is told.
    pub(in super::super) fn rest(&mut self) {
        self.idle_workers += 1;
        while let Some(id) = self.hungry.pop_front(&mut self.batches) {
            self.feed(id);
        }
    }

    /// A picked job goes back, because no worker could be started for it. After the stop it ends.
    pub(in super::super) fn put_back(&mut self, assignment: Assignment<W>) {
        let Assignment {
            work, batch, needs, ..
        } = assignment;
        self.again(batch, needs, None, [work], None);
    }
}
