//! When a job or a batch has to be over.

use std::time::{Duration, Instant};

use crate::fault::{ErrorKind, Fault};

/// As good as none, and no clock overflows.
pub(crate) const LONGEST_TIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A time by which something is over, whatever it is at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    /// How long there was.
    limit: Duration,
    whose: &'static str,
}

impl Deadline {
    /// `None` where the limit is beyond what the clock can tell: as good as none.
    pub(crate) fn of_job(since: Instant, limit: Duration) -> Option<Self> {
        Self::new(since, limit, "job")
    }

    pub(crate) fn of_batch(since: Instant, limit: Duration) -> Option<Self> {
        Self::new(since, limit, "batch")
    }

    fn new(since: Instant, limit: Duration, whose: &'static str) -> Option<Self> {
        let at = since.checked_add(limit)?;
        Some(Self { at, limit, whose })
    }

    pub(crate) fn first(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        one.into_iter().chain(other).min_by_key(|one| one.at)
    }

    pub(crate) fn has_passed(&self) -> bool {
        self.at <= Instant::now()
    }

    /// Another attempt would be as late.
    pub(crate) fn fault(&self, doing: &str) -> Fault {
        let Self { limit, whose, .. } = self;
        let detail = format!(
            "the time limit of {limit:?} for the whole {whose} (see `timeout`) was over {doing}"
        );
        Fault::new(ErrorKind::Timeout, detail).lasting()
    }
}
