//! What the jobs of a batch share: where their bodies go, and their outcomes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::inbox::Inbox;
use crate::body::Body;
use crate::deadline::Deadline;
use crate::digest::Check;
use crate::error::Error;
use crate::fault::Fault;
use crate::http::Response;
use crate::job::{Answer, Course, Finished, Job, panicked, read_body, undisturbed};
use crate::outcome::{Before, Head, Report};
use crate::request::Request;
use crate::rules::Rules;
use crate::schedule::{Feed, Turn};
use crate::sink::{Begun, Kept, Sink, Stock};

/// The part of a batch that its jobs share.
pub(super) struct Shared<S: Sink> {
    pub(super) sink: S,
    pub(super) rules: Arc<Rules>,
    pub(super) cancelled: AtomicBool,
    pub(super) deadline: OnceLock<Deadline>,
    /// Bounded by the scheduler: a job that runs holds a token of the batch's unread outcomes,
    /// which the consumer gives back.
    pub(super) outcomes: Arc<Inbox<Message<S::Item>>>,
}

/// What wakes the consumer.
pub(super) enum Message<T> {
    Outcome {
        index: u64,
        /// Of the batch's unread outcomes; none where the job has not run.
        tokens: usize,
        item: Result<T, Error>,
    },
    /// Look again: workers idle, or the last `Jobs` is gone.
    Look,
}

impl<S: Sink> Shared<S> {
    fn deliver(&self, index: u64, tokens: usize, item: Result<S::Item, Error>) {
        self.outcomes.send(Message::Outcome {
            index,
            tokens,
            item,
        });
    }

    fn receive(
        &self,
        turn: &Turn<'_, Job>,
        response: Response,
        stock: Stock,
        kept: Kept,
        report: &mut Report,
    ) -> (Option<Head>, Result<S::Part, Fault>) {
        let (head, part) = read_body(
            self,
            turn,
            response,
            kept,
            report,
            |reader, head, report| {
                let check = self.check(report, head, kept.length.is_some());
                let body = Body::new(head, report, reader, self.sink.limit(), kept.bytes, check);
                let whole = kept.length.filter(|_| kept.bytes == 0);
                self.sink.receive(body.of_length(whole), stock)
            },
        );
        // What there is now is of this response.
        report.progress.is_afresh = false;
        (Some(head), part)
    }

    /// The first part of a body of this length. Where it is cut, that is an attempt that failed: the
    /// rest is not for this connection to bring.
    fn begin(
        &self,
        turn: &Turn<'_, Job>,
        response: Response,
        length: u64,
        report: &mut Report,
    ) -> (Head, Result<Begun<S::Part>, Fault>) {
        let kept = Kept::default();
        read_body(
            self,
            turn,
            response,
            kept,
            report,
            |reader, head, report| {
                let check = self.check(report, head, true);
                let body = Body::new(head, report, reader, self.sink.limit(), 0, check);
                self.sink.begin(body.of_length(Some(length)))
            },
        )
    }

    fn check(&self, report: &Report, head: &Head, is_completed: bool) -> Option<Check> {
        let believes = self.rules.believes_digests;
        Check::of(&report.request, head, is_completed, believes)
    }
}

impl<S: Sink> Course for Shared<S> {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn deadline(&self) -> Option<Deadline> {
        self.deadline.get().copied()
    }

    fn end_by(&self, deadline: Deadline) -> bool {
        self.deadline.set(deadline).is_ok()
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    fn set_cancelled(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
    }

    fn close(&self) {
        self.sink.close();
    }

    fn admit(&self, request: &Request) -> Before {
        self.sink.admit(request)
    }

    fn stock(&self, report: &Report) -> Result<Stock, Fault> {
        self.sink.stock(report)
    }

    fn finish(
        &self,
        turn: &mut Turn<'_, Job>,
        answer: Answer,
        mut report: Report,
    ) -> Result<Finished, Box<(Report, Fault)>> {
        let start = Instant::now();
        let (head, part) = match answer {
            Answer::First(response, length) => {
                match self.begin(turn, response, length, &mut report) {
                    (head, Ok(Begun::First(divided))) => {
                        report.progress.timings.body += start.elapsed();
                        return Ok(Finished::Divided(Box::new((*divided, head, report))));
                    }
                    (head, Ok(Begun::All(part))) => (Some(head), Ok(part)),
                    (head, Err(fault)) => (Some(head), Err(fault)),
                }
            }
            Answer::Body(response, stock, kept) => {
                self.receive(turn, response, stock, kept, &mut report)
            }
            Answer::Here(head, stock) => {
                let had = stock.begun();
                report.progress.resumed_from = had.filter(|&had| had > 0);
                let check = head
                    .as_ref()
                    .and_then(|head| self.check(&report, head, had.is_some()));
                let settle = || self.sink.settle(stock, head.as_ref(), &report, check);
                let part = catch_unwind(AssertUnwindSafe(settle));
                (head, part.unwrap_or_else(|panic| Err(panicked(panic))))
            }
        };
        report.progress.timings.body += start.elapsed();
        let part = match part {
            Ok(part) => part,
            Err(fault) => return Err(Box::new((report, fault))),
        };
        let more = S::weight(&part);
        turn.finish(more);
        let index = report.index;
        // What the item has no place for is dropped in there: a tag of the caller's, which may
        // panic.
        let item = catch_unwind(AssertUnwindSafe(|| S::item(part, head, report)))
            .map_err(|panic| Error::bare(panicked(panic), None));
        self.deliver(index, 1 + more, item);
        Ok(Finished::Delivered)
    }

    fn fail(&self, report: Report, fault: Fault, has_run: bool) {
        undisturbed(|| self.sink.failed(&report, &fault));
        self.deliver(
            report.index,
            usize::from(has_run),
            Err(Error::new(fault, report)),
        );
    }
}

impl<S: Sink> Feed for Shared<S> {
    fn more(&self) {
        self.outcomes.send(Message::Look);
    }
}
