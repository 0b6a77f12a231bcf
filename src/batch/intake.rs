//! Where requests are let in, and how what is left of them is ended.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use crate::engine::Engine;
use crate::job::{Course, Job};
use crate::request::Request;
use crate::schedule::{Feed, Ticket};

/// Where requests are let in.
pub(crate) struct Intake {
    pub(super) course: Arc<dyn Course>,
    pub(super) feed: Arc<dyn Feed>,
    pub(super) ticket: Ticket<Job>,
    pub(super) submitted: AtomicU64,
    /// How many `Jobs` there are.
    pub(super) jobs: AtomicUsize,
    /// Keeps the workers.
    pub(super) engine: Arc<Engine>,
}

impl Intake {
    /// Its index, and whether another request would be of use now.
    pub(super) fn submit(&self, request: Request) -> (u64, bool) {
        let index = self.submitted.fetch_add(1, Ordering::SeqCst);
        let hungry = match Job::new(Arc::clone(&self.course), request, index) {
            Some(job) => self.ticket.submit(job),
            // Its outcome is to be read first.
            None => false,
        };
        (index, hungry)
    }

    pub(super) fn cancel(&self) {
        self.course.set_cancelled();
        self.ticket.cancel();
    }
}

/// Pushes requests, from any thread or from a closure that runs on a worker.
///
/// Cheap to clone. As long as there is one, the [`Outcomes`](crate::Outcomes) stay open.
pub struct Jobs {
    intake: Arc<Intake>,
}

impl Jobs {
    pub(crate) fn new(intake: Arc<Intake>) -> Self {
        intake.jobs.fetch_add(1, Ordering::SeqCst);
        Self { intake }
    }

    /// Lets a request in, and returns its index. Never blocks: what is pushed faster than it
    /// is fetched waits in memory.
    ///
    /// Once the outcomes have been dropped or cancelled it is cancelled at once: its outcome says
    /// so, where there is anybody to read it.
    pub fn push(&self, request: impl Into<Request>) -> u64 {
        self.intake.submit(request.into()).0
    }
}

impl Clone for Jobs {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.intake))
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        if self.intake.jobs.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.intake.feed.more();
        }
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").finish_non_exhaustive()
    }
}

/// Cancels a batch from another thread.
///
/// Cheap to clone; does not keep the batch.
#[derive(Clone)]
pub struct Canceller {
    pub(super) intake: Weak<Intake>,
}

impl Canceller {
    /// Ends what the batch has left: the rest of its input is not read, and what has been read
    /// and is not done comes out as [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
    ///
    /// Does nothing where the batch is gone.
    pub fn cancel(&self) {
        if let Some(intake) = self.intake.upgrade() {
            intake.cancel();
        }
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canceller").finish_non_exhaustive()
    }
}
