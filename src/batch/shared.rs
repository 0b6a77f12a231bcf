//! What the jobs of a batch share: where their bodies go, and their outcomes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::inbox::Inbox;
use crate::body::Body;
use crate::error::Error;
use crate::fault::Fault;
use crate::http::{Client, Response};
use crate::job::{Course, Job, panicked};
use crate::outcome::Report;
use crate::schedule::{Feed, Turn};
use crate::sink::Sink;

/// The part of a batch that its jobs share.
pub(super) struct Shared<S: Sink> {
    pub(super) sink: S,
    pub(super) client: Arc<Client>,
    pub(super) status_is_error: bool,
    pub(super) cancelled: AtomicBool,
    /// Bounded by the scheduler: a job that runs holds a token of the batch's unread outcomes,
    /// which the consumer gives back.
    pub(super) outcomes: Arc<Inbox<Message<S::Item>>>,
}

/// What wakes the consumer.
pub(super) enum Message<T> {
    Outcome {
        index: u64,
        has_run: bool,
        item: Result<T, Error>,
    },
    /// Look again: workers idle, or the last `Jobs` is gone.
    Look,
}

impl<S: Sink> Shared<S> {
    fn deliver(&self, index: u64, has_run: bool, item: Result<S::Item, Error>) {
        self.outcomes.send(Message::Outcome {
            index,
            has_run,
            item,
        });
    }
}

impl<S: Sink> Course for Shared<S> {
    fn client(&self) -> &Arc<Client> {
        &self.client
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    fn set_cancelled(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
    }

    fn status_is_error(&self) -> bool {
        self.status_is_error
    }

    fn finish(&self, turn: &mut Turn<'_, Job>, response: Response, mut report: Report) {
        let Response { head, mut body } = response;
        let start = Instant::now();
        let part = catch_unwind(AssertUnwindSafe(|| {
            let part =
                self.sink
                    .receive(Body::new(&head, &report, &mut body, self.sink.limit()))?;
            body.drain();
            Ok(part)
        }));
        // What is left of the body, and with it the connection, goes before the token.
        drop(body);
        report.progress.timings.body += start.elapsed();
        turn.finish();
        let part = part.unwrap_or_else(|panic| Err(panicked(panic)));
        let index = report.index;
        let item = match part {
            // What the item has no place for is dropped in there: a tag of the caller's, which
            // may panic.
            Ok(part) => catch_unwind(AssertUnwindSafe(|| S::item(part, head, report)))
                .map_err(|panic| Error::bare(panicked(panic), None)),
            Err(fault) => Err(Error::new(fault, report)),
        };
        self.deliver(index, true, item);
    }

    fn fail(&self, report: Report, fault: Fault, has_run: bool) {
        self.deliver(report.index, has_run, Err(Error::new(fault, report)));
    }
}

impl<S: Sink> Feed for Shared<S> {
    fn more(&self) {
        self.outcomes.send(Message::Look);
    }
}
