//! A job: one request's way through its hops, to its sink.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, StatusCode};
use url::Url;

use crate::fault::{ErrorKind, Fault};
use crate::http::{Client, Host, Response, redirect};
use crate::outcome::{Progress, Report};
use crate::request::Request;
use crate::schedule::{Ended, Key, Keys, Priority, Turn, Work};

/// What a job knows of its batch.
pub(crate) trait Course: Send + Sync {
    fn client(&self) -> &Arc<Client>;

    fn is_cancelled(&self) -> bool;

    /// From now on it is.
    fn set_cancelled(&self);

    fn status_is_error(&self) -> bool;

    /// Gives the body to the sink, the tokens back, and the outcome to the consumer.
    fn finish(&self, turn: &mut Turn<'_, Job>, response: Response, report: Report);

    /// `has_run`: the outcome holds a token of the batch's unread ones.
    fn fail(&self, report: Report, fault: Fault, has_run: bool);
}

/// Small while it waits for its first turn, as a hundred thousand may.
pub(crate) struct Job {
    course: Arc<dyn Course>,
    request: Request,
    index: u64,
    /// Of the next hop.
    host: Key,
    /// Since when it waits for its turn.
    since: Instant,
    /// How it went so far, if it has had a turn.
    begun: Option<Box<Progress>>,
}

/// What a hop came to.
enum Hop {
    Response(Response),
    Redirect(Url),
}

impl Job {
    /// `None` where the URL cannot be fetched: that has its outcome already.
    pub(crate) fn new(course: Arc<dyn Course>, request: Request, index: u64) -> Option<Self> {
        match request.checked_url().map(Key::host) {
            Ok(host) => Some(Self {
                course,
                request,
                index,
                host,
                since: Instant::now(),
                begun: None,
            }),
            Err(fault) => {
                let secrets = course.client().secrets().clone();
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

    /// What has waited until now goes on.
    fn wake(self) -> Running {
        let mut progress = self.begun.map_or_else(Progress::default, |begun| *begun);
        progress.timings.queued += self.since.elapsed();
        Running {
            report: Report {
                request: self.request,
                index: self.index,
                progress,
                secrets: self.course.client().secrets().clone(),
            },
            course: self.course,
        }
    }
}

/// A job that has its turn.
struct Running {
    course: Arc<dyn Course>,
    report: Report,
}

impl Running {
    fn run(mut self, turn: &mut Turn<'_, Job>) {
        self.report.progress.attempts = self.report.progress.attempts.max(1);
        // What the caller has to say on addresses and redirects may panic; a panic of ours must
        // not lose the job either.
        let hop = catch_unwind(AssertUnwindSafe(|| self.hop(turn)));
        let hop = hop.unwrap_or_else(|panic| Err(panicked(panic)));
        match hop {
            Ok(Hop::Response(response)) => self.course.finish(turn, response, self.report),
            Ok(Hop::Redirect(target)) => {
                let host = Key::host(&target);
                self.report.progress.redirects.push(target);
                turn.again(self.wait_for(host), None);
            }
            Err(fault) => {
                turn.finish();
                self.course.fail(self.report, fault, true);
            }
        }
    }

    /// Back to waiting for a turn, at this host.
    fn wait_for(self, host: Key) -> Job {
        let Report {
            request,
            index,
            progress,
            ..
        } = self.report;
        Job {
            course: self.course,
            request,
            index,
            host,
            since: Instant::now(),
            begun: Some(Box::new(progress)),
        }
    }

    fn hop(&mut self, turn: &Turn<'_, Job>) -> Result<Hop, Fault> {
        if turn.post().is_interrupted() {
            return Err(Fault::cancelled());
        }
        let client = Arc::clone(self.course.client());
        let host = turn.resident().get_or_init(|| client.host());
        let chain = self.report.chain().expect("checked when it was let in");
        let has_left = chain.has_left_its_origin();
        let headers = self.headers(has_left);
        let url = self
            .report
            .current_url()
            .expect("checked when it was let in");
        let mut timings = self.report.progress.timings;
        let response = client.get(host, url, &headers, has_left, turn.post(), &mut timings);
        self.report.progress.timings = timings;
        self.judge(response?, &headers)
    }

    /// The request's own headers, less what is only for the origin that was asked first.
    fn headers(&self, has_left: bool) -> HeaderMap {
        let mut headers = self.report.request.headers().cloned().unwrap_or_default();
        if has_left {
            redirect::strip_credentials(&mut headers);
        }
        headers
    }

    fn judge(&self, mut response: Response, sent: &HeaderMap) -> Result<Hop, Fault> {
        let chain = self.report.chain().expect("checked when it was let in");
        let target = self.course.client().redirect(&response.head, chain);
        match target {
            Ok(None) => {}
            other => {
                response.body.drain();
                return other.map(|target| Hop::Redirect(target.expect("not none")));
            }
        }
        let status = response.head.status;
        if status == StatusCode::SWITCHING_PROTOCOLS || is_unasked(status, sent) {
            let detail = format!("the server answered {status}, which nobody asked for");
            return Err(Fault::new(ErrorKind::Protocol, detail));
        }
        // Also those beyond 599, which are of no class (RFC 9110, section 15).
        let is_error = status.as_u16() >= 400;
        if is_error && self.course.status_is_error() {
            response.body.drain();
            return Err(Fault::status(status));
        }
        Ok(Hop::Response(response))
    }
}

/// A part or a 'not modified' must not be taken for the whole. A caller who asks for one with
/// headers of his own gets it.
fn is_unasked(status: StatusCode, sent: &HeaderMap) -> bool {
    use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH, RANGE};
    match status {
        StatusCode::PARTIAL_CONTENT => !sent.contains_key(RANGE),
        StatusCode::NOT_MODIFIED => {
            !sent.contains_key(IF_NONE_MATCH) && !sent.contains_key(IF_MODIFIED_SINCE)
        }
        _ => false,
    }
}

impl Work for Job {
    type Resident = Host;

    fn keys(&self) -> Keys<'_> {
        Keys {
            first: &self.host,
            more: self.request.budgets(),
        }
    }

    fn priority(&self) -> Priority {
        self.request.its_priority()
    }

    fn is_cancelled(&self) -> bool {
        self.course.is_cancelled()
    }

    fn run(self, turn: &mut Turn<'_, Self>) {
        self.wake().run(turn);
    }

    fn end(self, why: Ended) {
        let fault = match why {
            Ended::Cancelled | Ended::Shutdown => Fault::cancelled(),
            Ended::NoThread => Fault::new(
                ErrorKind::Io,
                "the system gives no thread to download with; raise the limit on processes",
            ),
        };
        let Running { course, report } = self.wake();
        course.fail(report, fault, false);
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

/// A request's keys, for those who want its tokens but not its response.
pub(crate) fn keys_of(request: &Request) -> Result<(Key, &[Key]), Fault> {
    Ok((Key::host(request.checked_url()?), request.budgets()))
}
