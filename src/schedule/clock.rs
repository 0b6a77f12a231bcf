//! What waits for a time waits here, holding neither a worker nor a token.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use super::ids::{BatchId, BudgetId, JobId};

/// What is to be done when its time has come. An event whose entry is gone by then is void.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// A job's pause is over.
    Wake(JobId),
    /// A job has waited for as long as it may.
    Late(JobId),
    /// A batch's time is over.
    Over(BatchId),
    /// A budget's gate may open.
    Open(BudgetId),
    /// A token that was held back is free.
    Release(BudgetId),
    /// The budget that has been idle the longest may be old enough to go.
    Expire,
}

pub(super) struct Alarm {
    at: Instant,
    /// First set, first rung, among alarms of one instant.
    serial: u64,
    event: Event,
}

impl PartialEq for Alarm {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Alarm {}

impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Alarm {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

/// Alarms in the order of their times. The thread that waits for the first is the scheduler's.
#[derive(Default)]
pub(super) struct Clock {
    alarms: BinaryHeap<Reverse<Alarm>>,
    serial: u64,
    /// An alarm earlier than all others has been set since the last look.
    changed: bool,
    /// How many alarms were of use when that was last looked at.
    of_use: usize,
    /// The tests' hand on the clock.
    #[cfg(test)]
    turned_to: Option<Instant>,
}

impl Clock {
    pub(super) fn now(&self) -> Instant {
        #[cfg(test)]
        if let Some(now) = self.turned_to {
            return now;
        }
        Instant::now()
    }

    #[cfg(test)]
    pub(super) fn turn_to(&mut self, now: Instant) {
        self.turned_to = Some(now);
    }

    pub(super) fn set(&mut self, at: Instant, event: Event) {
        self.serial += 1;
        self.changed |= self.next().is_none_or(|next| at < next);
        self.alarms.push(Reverse(Alarm {
            at,
            serial: self.serial,
            event,
        }));
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.alarms.peek().map(|Reverse(alarm)| alarm.at)
    }

    /// Whether the thread that waits for the first alarm has to look again.
    pub(super) fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The thread could not be started.
    pub(super) fn look_again(&mut self) {
        self.changed = true;
    }

    /// The next event whose time has come.
    pub(super) fn ring(&mut self) -> Option<Event> {
        if self.next()? > self.now() {
            return None;
        }
        self.alarms.pop().map(|Reverse(alarm)| alarm.event)
    }

    /// There are so many more than at the last look that it is worth one.
    pub(super) fn is_crowded(&self) -> bool {
        self.alarms.len() > 1024.max(2 * self.of_use)
    }

    pub(super) fn retain(&mut self, is_of_use: impl Fn(Event) -> bool) {
        self.alarms.retain(|Reverse(alarm)| is_of_use(alarm.event));
        self.of_use = self.alarms.len();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.alarms.len()
    }

    pub(super) fn clear(&mut self) {
        self.alarms = BinaryHeap::new();
    }
}
