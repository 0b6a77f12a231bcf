//! A job: one request's way through its attempts and their hops, to its sink.

mod again;
mod pieces;
mod resume;
mod running;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use crate::deadline::Deadline;
use crate::fault::{ErrorKind, Fault};
use crate::http::{Host, Response};
use crate::outcome::{Before, Head, Progress, Report};
use crate::request::Request;
use crate::rules::Rules;
use crate::schedule::{Ended, Key, Keys, Priority, Turn, Work};
use crate::sink::{Divided, Kept, Stock};
use again::RAISE_LIMIT;
use pieces::{End, Piece};
pub(crate) use resume::read_body;
use running::Running;

/// What a job knows of its batch.
pub(crate) trait Course: Send + Sync {
    fn rules(&self) -> &Rules;

    /// Of the whole batch.
    fn deadline(&self) -> Option<Deadline>;

    /// Gives it one. `false`: it has one, and keeps that.
    fn end_by(&self, deadline: Deadline) -> bool;

    fn is_cancelled(&self) -> bool;

    /// From now on it is.
    fn set_cancelled(&self);

    /// Nobody waits for more of its outcomes.
    fn close(&self);

    /// Of a request that is let in, in the order of the input.
    fn admit(&self, request: &Request) -> Before;

    /// What the sink has already of what is about to be asked for.
    fn stock(&self, report: &Report) -> Result<Stock, Fault>;

    /// Gives the body to the sink, the tokens back, and the outcome to the consumer. Where that
    /// fails, none of these but the first; and so where the rest of the body is yet to come.
    fn finish(
        &self,
        turn: &mut Turn<'_, Job>,
        answer: Answer,
        report: Report,
    ) -> Result<Finished, Box<(Report, Fault)>>;

    /// `has_run`: the outcome holds a token of the batch's unread ones.
    fn fail(&self, report: Report, fault: Fault, has_run: bool);
}

/// What the last hop came to.
pub(crate) enum Answer {
    /// A body; the sink may have its beginning.
    Body(Response, Stock, Kept),
    /// The first part of a body of this length.
    First(Response, u64),
    /// What the sink has is all, as the response says if there is one.
    Here(Option<Head>, Stock),
}

/// What came of an answer.
pub(crate) enum Finished {
    Delivered,
    /// The first part of the body is in its place, and the others are to be asked for.
    Divided(Box<(Divided, Head, Report)>),
}

/// Small while it waits for its first turn, as a hundred thousand may.
pub(crate) struct Job {
    course: Arc<dyn Course>,
    request: Request,
    index: u64,
    before: Before,
    /// Of the next hop.
    host: Key,
    /// Since when it waits for its turn.
    since: Instant,
    /// How it went so far, if it has had a turn.
    begun: Option<Box<Begun>>,
}

struct Begun {
    progress: Progress,
    /// It is of a file that comes in several.
    piece: Option<Piece>,
}

impl Job {
    /// `None` where the URL cannot be fetched: that has its outcome already.
    pub(crate) fn new(course: Arc<dyn Course>, request: Request, index: u64) -> Option<Self> {
        match request.checked_url().map(Key::host) {
            Ok(host) => Some(Self {
                before: course.admit(&request),
                course,
                request,
                index,
                host,
                since: Instant::now(),
                begun: None,
            }),
            Err(fault) => {
                let secrets = course.rules().client.secrets().clone();
                course.fail(
                    Report {
                        request,
                        index,
                        progress: Progress::default(),
                        secrets,
                    },
                    fault,
                    false,
                );
                None
            }
        }
    }

    fn deadline(&self) -> Option<Deadline> {
        match &self.begun {
            Some(begun) => begun.progress.deadline,
            None => {
                let limit = self.request.its_timeout();
                let limit = limit.or_else(|| self.course.rules().timeout);
                Deadline::of_job(self.since, limit?)
            }
        }
    }

    /// By when it is to have its first turn.
    fn queued_until(&self) -> Option<Instant> {
        match &self.begun {
            Some(_) => None,
            None => self.since.checked_add(self.course.rules().queue_timeout?),
        }
    }

    /// Why it ends that has waited for too long.
    fn late(&self) -> Fault {
        let doing = match &self.begun {
            Some(_) => "before its next turn came",
            None => "before its turn came",
        };
        let deadline = Deadline::first(self.deadline(), self.course.deadline());
        match (deadline, self.course.rules().queue_timeout) {
            (Some(deadline), _) if deadline.has_passed() => {
                let fault = deadline.fault(doing);
                match self.has_starved() {
                    true => fault.and(format_args!("there were no file handles: {RAISE_LIMIT}")),
                    false => fault,
                }
            }
            (_, Some(limit)) if self.queued_until().is_some_and(|at| at <= Instant::now()) => {
                let detail =
                    format!("its turn did not come within {limit:?} (see `queue_timeout`)");
                Fault::new(ErrorKind::Timeout, detail)
            }
            _ => Fault::cancelled(),
        }
    }

    fn has_starved(&self) -> bool {
        let begun = self.begun.as_ref();
        begun.is_some_and(|begun| begun.progress.starved > 0)
    }

    /// What has waited until now goes on.
    fn wake(self) -> Running {
        let deadline = self.deadline();
        let (mut progress, piece) = match self.begun {
            Some(begun) => (begun.progress, begun.piece),
            None => (Progress::default(), None),
        };
        progress.before = self.before;
        progress.timings.queued += self.since.elapsed();
        progress.deadline = deadline;
        let secrets = self.course.rules().client.secrets().clone();
        Running {
            course: self.course,
            report: Report {
                request: self.request,
                index: self.index,
                progress,
                secrets,
            },
            piece,
        }
    }
}

impl Work for Job {
    type Resident = Arc<Host>;

    fn keys(&self) -> Keys<'_> {
        Keys {
            first: &self.host,
            more: self.request.budgets(),
        }
    }

    fn priority(&self) -> Priority {
        self.request.its_priority()
    }

    fn latest_start(&self) -> Option<Instant> {
        let deadline = self.deadline().map(|deadline| deadline.at);
        deadline.into_iter().chain(self.queued_until()).min()
    }

    fn is_cancelled(&self) -> bool {
        self.course.is_cancelled()
    }

    fn run(self, turn: &mut Turn<'_, Self>) {
        self.wake().run(turn);
    }

    fn end(self, why: Ended) {
        let fault = match why {
            Ended::Shutdown => Fault::cancelled(),
            // What comes after the end of its batch is told that it was cancelled.
            Ended::Cancelled | Ended::Late => self.late(),
            Ended::NoThread => Fault::new(
                ErrorKind::Io,
                "the system gives no thread to download with; raise the limit on processes",
            ),
        };
        self.wake().end_without_turn(fault);
    }
}

/// What somebody's code said as it panicked.
pub(crate) fn panicked(payload: Box<dyn Any + Send>) -> Fault {
    let said = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("something that is not text");
    let fault = Fault::new(ErrorKind::Panicked, format!("a panic said: {said}"));
    // The payload is somebody's as well, and may panic as it goes. What that says is kept from
    // going at all.
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(another);
    }
    fault
}

/// Does what must not cost a job its outcome: a logger is somebody's code, and may panic.
pub(crate) fn undisturbed(work: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
        std::mem::forget(payload);
    }
}

/// A request's keys, for those who want its tokens but not its response.
pub(crate) fn keys_of(request: &Request) -> Result<(Key, &[Key]), Fault> {
    Ok((Key::host(request.checked_url()?), request.budgets()))
}
