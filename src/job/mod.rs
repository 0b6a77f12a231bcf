//! A job: one request's way through its attempts and their hops, to its sink.

mod resume;

use std::any::Any;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, StatusCode};
use url::Url;

use crate::deadline::Deadline;
use crate::fault::{ErrorKind, Fault, Stage};
use crate::http::{Ask, Host, Response, redirect};
use crate::outcome::{Head, Progress, Report};
use crate::request::Request;
use crate::retry::{Attempt, Failure, Next, retry_after};
use crate::rules::Rules;
use crate::schedule::{Ended, Key, Keys, Priority, Turn, Work};
use resume::Resuming;

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

    /// Gives the body to the sink, the tokens back, and the outcome to the consumer. Where that
    /// fails, none of these but the first.
    fn finish(
        &self,
        turn: &mut Turn<'_, Job>,
        response: Response,
        report: Report,
    ) -> Result<(), Box<(Report, Fault)>>;

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
    /// The host cannot be reached, and is left alone for as long.
    Later(Duration),
}

/// How long a job waits that found no file handle left, and how often before it fails: by then
/// it is not the connections that are about to end which hold them.
const STARVED: Duration = Duration::from_millis(100);
const MOST_STARVED: u32 = 100;

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
            Some(begun) => begun.deadline,
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
            (Some(deadline), _) if deadline.has_passed() => deadline.fault(doing),
            (_, Some(limit)) if self.queued_until().is_some_and(|at| at <= Instant::now()) => {
                let detail = format!("its turn did not come within {limit:?}");
                Fault::new(ErrorKind::Timeout, detail)
            }
            _ => Fault::cancelled(),
        }
    }

    /// What has waited until now goes on.
    fn wake(self) -> Running {
        let deadline = self.deadline();
        let mut progress = self.begun.map_or_else(Progress::default, |begun| *begun);
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
        let progress = &mut self.report.progress;
        progress.attempts += u32::from(!progress.is_in_attempt);
        progress.is_in_attempt = true;
        // Resolver and policies may be the caller's; a panic of ours must not lose the job either.
        let hop = catch_unwind(AssertUnwindSafe(|| self.hop(turn)));
        let hop = hop.unwrap_or_else(|panic| Err(panicked(panic)));
        match hop {
            Ok(Hop::Response(response)) => {
                let Self { course, report } = self;
                if let Err(failed) = course.finish(turn, response, report) {
                    let (report, fault) = *failed;
                    Self { course, report }.fail(turn, fault);
                }
            }
            Ok(Hop::Redirect(target)) => {
                let host = Key::host(&target);
                self.report.progress.redirects.push(target);
                turn.again(self.wait_for(host), None);
            }
            Ok(Hop::Later(pause)) => self.wait_for_host(turn, pause),
            Err(fault) => self.fail(turn, fault),
        }
    }

    /// The host's other jobs wait as well: none of them would get further.
    fn wait_for_host(mut self, turn: &mut Turn<'_, Job>, pause: Duration) {
        let progress = &mut self.report.progress;
        // Nothing was tried. A redirect's target is part of an attempt that has begun.
        if progress.redirects.is_empty() {
            progress.attempts -= 1;
            progress.is_in_attempt = false;
        }
        let host = Key::host(self.url());
        match Instant::now().checked_add(pause) {
            Some(until) => {
                turn.close(&host, until);
                turn.again(self.wait_for(host), Some(until));
            }
            None => self.end(turn, unreachable_host(pause)),
        }
    }

    /// An attempt failed: there is another, or that is the outcome.
    fn fail(self, turn: &mut Turn<'_, Job>, fault: Fault) {
        let now = Instant::now();
        let fault = self.meaning_of(fault);
        if fault.is_out_of_handles() && self.report.progress.starved < MOST_STARVED {
            return self.wait_for_handles(turn, now + STARVED);
        }
        let rules = self.course.rules();
        if fault.kind == ErrorKind::Timeout && fault.stage == Stage::Asked {
            // No time is none: a token that is held comes back by way of the clock.
            let until = now.checked_add(rules.timeout_grace);
            if let Some(until) = until.filter(|&until| until > now) {
                turn.hold(until);
            }
        }
        let attempt = Attempt {
            failure: Failure {
                kind: fault.kind,
                status: fault.status,
                is_transient: fault.is_transient,
                attempts: self.report.progress.attempts,
                url: self.url(),
            },
            index: self.report.index,
            paused: self.report.progress.paused,
            retry_after: fault.retry_after,
        };
        let judged = catch_unwind(AssertUnwindSafe(|| rules.retries.judge(&attempt)));
        let verdict = match judged {
            Ok(verdict) => verdict,
            Err(panic) => return self.end(turn, panicked(panic)),
        };
        if let Some(until) = verdict.host.and_then(|pause| now.checked_add(pause)) {
            turn.close(&Key::host(self.url()), until);
        }
        match verdict.job {
            Next::Again(pause) => self.try_again(turn, pause, fault),
            Next::TooLong(pause) => self.end(
                turn,
                fault.and(format_args!(
                    "it asks to be left alone for {pause:?}, which is longer than is waited for"
                )),
            ),
            Next::Fail => self.end(turn, fault),
        }
    }

    /// A batch whose time is over interrupts its jobs. One that began before there was a limit
    /// does not know why.
    fn meaning_of(&self, fault: Fault) -> Fault {
        let over = self.course.deadline().filter(Deadline::has_passed);
        match over {
            Some(over) if fault.kind == ErrorKind::Cancelled && !self.course.is_cancelled() => {
                over.fault("while it was under way").while_at(fault.stage)
            }
            _ => fault,
        }
    }

    fn try_again(mut self, turn: &mut Turn<'_, Job>, pause: Duration, fault: Fault) {
        let deadline = Deadline::first(self.report.progress.deadline, self.course.deadline());
        let in_time = |at: &Instant| deadline.is_none_or(|deadline| *at < deadline.at);
        let Some(at) = Instant::now().checked_add(pause).filter(in_time) else {
            return self.end(
                turn,
                fault.and(format_args!(
                    "there is no time for another attempt, {pause:?} from now"
                )),
            );
        };
        log::debug!(
            "{}: attempt {} failed, another in {pause:?}: {fault}",
            self.report.shown(self.url()),
            self.report.progress.attempts,
        );
        let progress = &mut self.report.progress;
        progress.paused += pause;
        progress.is_in_attempt = false;
        progress.redirects.clear();
        let host = Key::host(self.url());
        turn.again(self.wait_for(host), Some(at));
    }

    /// Idle connections are closed, and the job comes again when some of the others are through.
    fn wait_for_handles(mut self, turn: &mut Turn<'_, Job>, at: Instant) {
        self.report.progress.starved += 1;
        let client = &self.course.rules().client;
        for host in turn.residents() {
            if let Some(host) = host.get() {
                host.shed(client);
            }
        }
        let progress = &mut self.report.progress;
        if progress.redirects.is_empty() {
            progress.attempts -= 1;
            progress.is_in_attempt = false;
        }
        let host = Key::host(self.url());
        turn.again(self.wait_for(host), Some(at));
    }

    fn end(self, turn: &mut Turn<'_, Job>, fault: Fault) {
        turn.finish();
        self.course.fail(self.report, fault, true);
    }

    fn chain(&self) -> redirect::Chain<'_> {
        self.report.chain().expect("checked when it was let in")
    }

    fn url(&self) -> &Url {
        self.report
            .current_url()
            .expect("checked when it was let in")
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
        let deadline = Deadline::first(self.report.progress.deadline, self.course.deadline());
        if let Some(deadline) = deadline.filter(Deadline::has_passed) {
            return Err(deadline.fault("before it was asked for"));
        }
        let rules = self.course.rules();
        let host = turn.resident().get_or_init(|| rules.client.host());
        if let Some(pause) = host.closed_for() {
            return match rules.breaker.waits {
                true => Ok(Hop::Later(pause)),
                false => Err(unreachable_host(pause)),
            };
        }
        let headers = sent_headers(&self.report);
        let ask = Ask {
            url: self.url(),
            headers: &headers,
            has_left: self.chain().has_left_its_origin(),
            post: turn.post(),
            deadline,
        };
        let mut timings = self.report.progress.timings;
        let response = rules.client.get(host, &ask, &mut timings);
        match &response {
            // A certificate that is not trusted was shown by a host that is there.
            Err(fault) if fault.stage == Stage::Connecting && fault.is_transient => {
                if !fault.is_out_of_handles() {
                    host.note(&rules.breaker, false);
                }
            }
            // Cut short, before or after there was a connection.
            Err(fault) if fault.kind == ErrorKind::Cancelled => {}
            Err(fault) if fault.kind == ErrorKind::Timeout && fault.stage != Stage::Asked => {}
            _ => host.note(&rules.breaker, true),
        }
        self.report.progress.timings = timings;
        self.judge(response?, &headers)
    }

    fn judge(&self, mut response: Response, sent: &HeaderMap) -> Result<Hop, Fault> {
        let client = &self.course.rules().client;
        let target = client.redirect(&response.head, self.chain());
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
        if is_error && self.course.rules().status_is_error {
            let mut fault = Fault::status(status);
            fault.retry_after = retry_after(&response.head.headers);
            response.body.drain();
            return Err(fault);
        }
        Ok(Hop::Response(response))
    }
}

/// The request's own headers, less what is only for the origin that was asked first.
fn sent_headers(report: &Report) -> HeaderMap {
    let mut headers = report.request.headers().cloned().unwrap_or_default();
    if report
        .chain()
        .is_some_and(|chain| chain.has_left_its_origin())
    {
        redirect::strip_credentials(&mut headers);
    }
    headers
}

fn unreachable_host(pause: Duration) -> Fault {
    let detail = format!(
        "not tried: the host took no connection the last times; the next try is in {pause:.1?}"
    );
    Fault::new(ErrorKind::Connect, detail)
}

/// Gives a body to who reads it, with its rest where it is cut on the way.
pub(crate) fn read_body<T>(
    course: &dyn Course,
    turn: &Turn<'_, Job>,
    response: Response,
    report: &mut Report,
    read: impl FnOnce(&mut dyn Read, &Head, &Report) -> Result<T, Fault>,
) -> (Head, Result<T, Fault>) {
    let Response { head, body } = response;
    let rules = course.rules();
    let host = turn.resident().get().expect("it has just answered");
    let headers = sent_headers(report);
    let mut made = 0;
    let read = {
        let report = &*report;
        let ask = Ask {
            url: report.current_url().expect("it has just answered"),
            headers: &headers,
            has_left: report
                .chain()
                .is_some_and(|chain| chain.has_left_its_origin()),
            post: turn.post(),
            deadline: Deadline::first(report.progress.deadline, course.deadline()),
        };
        let left = rules.retries.left(report.progress.attempts);
        let mut source = Resuming::new((&rules.client, host), ask, &head, body, left);
        let read = catch_unwind(AssertUnwindSafe(|| {
            let part = read(&mut source, &head, report)?;
            source.drain();
            Ok(part)
        }));
        made += source.made;
        read.unwrap_or_else(|panic| Err(panicked(panic)))
    };
    report.progress.attempts += made;
    (head, read)
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
