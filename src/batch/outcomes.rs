//! Outcomes as they come.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::inbox::{Inbox, Taken};
use super::intake::{Canceller, Intake, Jobs};
use super::shared::Message;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::request::Request;

/// The outcomes of requests that are pushed, as an iterator in the order in which they finish.
///
/// Made by [`Downloader::open`](crate::Downloader::open) and [`Downloader::open_with`](crate::Downloader::open_with). It ends when every [`Jobs`] is
/// gone and everything pushed has come out.
///
/// Dropping it cancels what is left.
pub struct Outcomes<T> {
    pub(super) inbox: Arc<Inbox<Message<T>>>,
    pub(super) taken: Taken<Message<T>>,
    pub(super) received: u64,
    /// Tokens of outcomes that have been handed out, to be given back.
    pub(super) owed: usize,
    /// So many of them, or more.
    pub(super) paid_at_once: usize,
    pub(super) intake: Arc<Intake>,
}

impl<T> Outcomes<T> {
    /// Lets a request in, and returns its index. Never blocks.
    ///
    /// Unlike a [`Jobs`] the outcomes do not keep themselves open: a crawler that pushes the
    /// links of each page before it asks for the next outcome ends by itself.
    pub fn push(&self, request: impl Into<Request>) -> u64 {
        self.intake.submit(request.into()).0
    }

    /// Ends what is there by then, from now, as [`Batch::timeout`](crate::Batch::timeout) does.
    /// What is pushed later comes out so as well. A second call does nothing.
    pub fn timeout(self, limit: Duration) -> Self {
        self.end_after(limit);
        self
    }

    pub(super) fn end_after(&self, limit: Duration) {
        let deadline = Deadline::of_batch(Instant::now(), limit);
        if let Some(deadline) = deadline.filter(|&one| self.intake.course.end_by(one)) {
            self.intake.ticket.end_at(deadline.at);
        }
    }

    /// A handle with which another thread can cancel what is left.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller {
            intake: Arc::downgrade(&self.intake),
        }
    }

    /// One who pushes, and keeps the stream open.
    pub(crate) fn jobs(&self) -> Jobs {
        Jobs::new(Arc::clone(&self.intake))
    }

    pub(super) fn submitted(&self) -> u64 {
        self.intake.submitted.load(Ordering::SeqCst)
    }

    /// An outcome can be had without waiting.
    pub(super) fn is_one_ready(&self) -> bool {
        !self.taken.is_empty() || !self.inbox.is_empty()
    }

    /// The next outcome; `None` where something else is to be looked at. Blocks.
    pub(super) fn receive(&mut self) -> Option<(u64, Result<T, Error>)> {
        if self.taken.is_empty() {
            self.inbox.try_take(&mut self.taken);
        }
        if self.taken.is_empty() {
            self.intake.ticket.may_wait();
            // What comes may be waiting for these.
            self.intake.ticket.read(std::mem::take(&mut self.owed));
            self.inbox.take(&mut self.taken);
        }
        let message = self.taken.pop().expect("it waits until there is one");
        let Message::Outcome {
            index,
            tokens,
            item,
        } = message
        else {
            return None;
        };
        self.received += 1;
        self.owed += tokens;
        self.pay_back();
        Some((index, item))
    }

    /// Tokens go back some at a time while there is more to hand out. Where workers wait for them, each
    /// is woken by one token: of several at once it takes the next one by itself.
    fn pay_back(&mut self) {
        if self.owed >= self.paid_at_once || self.taken.is_empty() {
            self.intake.ticket.read(std::mem::take(&mut self.owed));
        }
    }
}

impl<T> Iterator for Outcomes<T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            // In this order: who pushes holds a `Jobs` while he does.
            let open = self.intake.jobs.load(Ordering::SeqCst) > 0;
            if !open && self.received == self.submitted() {
                return None;
            }
            if let Some((_, item)) = self.receive() {
                return Some(item);
            }
        }
    }
}

impl<T> Drop for Outcomes<T> {
    fn drop(&mut self) {
        self.intake.cancel();
        self.intake.course.close();
    }
}

impl<T> fmt::Debug for Outcomes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcomes")
            .field("received", &self.received)
            .field("submitted", &self.submitted())
            .finish_non_exhaustive()
    }
}
