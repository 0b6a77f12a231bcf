//! A job that has its turn: one hop.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, StatusCode};
use url::Url;

use super::{Answer, Begun, Course, End, Finished, Job, Piece, panicked};
use crate::deadline::Deadline;
use crate::fault::{ErrorKind, Fault, Stage};
use crate::http::{Ask, Response, redirect};
use crate::outcome::{Head, Report};
use crate::retry::{self, retry_after};
use crate::schedule::{Key, Turn};
use crate::sink::{Came, Divided, Kept, Stock};

/// What a hop came to.
#[expect(clippy::large_enum_variant, reason = "nearly all are of the largest")]
pub(super) enum Hop {
    Answer(Answer),
    Redirect(Url),
    /// What the sink has is some pieces, and the others are to be asked for.
    Divide(Box<Divided>),
    /// Of a piece, which has ended.
    Piece(End),
    /// What the sink has is of no use: the same once more, without a word of it.
    Afresh,
    /// The same from where the way begins.
    FromTheStart,
    /// The host cannot be reached, and is left alone for as long.
    Later(Duration),
}

/// A job that has its turn.
pub(super) struct Running {
    pub(super) course: Arc<dyn Course>,
    pub(super) report: Report,
    pub(super) piece: Option<Piece>,
}

impl Running {
    pub(super) fn run(mut self, turn: &mut Turn<'_, Job>) {
        if self.is_stopped() {
            return self.end_piece(turn, End::Stopped);
        }
        let progress = &mut self.report.progress;
        progress.attempts += u32::from(!progress.is_in_attempt);
        progress.is_in_attempt = true;
        // Resolver and policies may be the caller's; a panic of ours must not lose the job either.
        let hop = catch_unwind(AssertUnwindSafe(|| self.hop(turn)));
        let hop = hop.unwrap_or_else(|panic| Err(panicked(panic)));
        match hop {
            Ok(Hop::Answer(answer)) => self.finish(turn, answer),
            Ok(Hop::Divide(divided)) => self.divide(turn, *divided, None),
            Ok(Hop::Piece(end)) => self.end_piece(turn, end),
            Ok(Hop::Redirect(target)) => {
                let host = Key::host(&target);
                self.report.progress.redirects.push(target);
                turn.again(self.wait_for(host), None);
            }
            Ok(Hop::Afresh) => {
                self.report.progress.is_afresh = true;
                self.report.progress.is_in_one_stream = true;
                let host = Key::host(self.url());
                turn.again(self.wait_for(host), None);
            }
            Ok(Hop::FromTheStart) => self.go_back(turn, None),
            Ok(Hop::Later(pause)) => self.wait_for_host(turn, pause),
            Err(fault) => self.fail(turn, fault),
        }
    }

    pub(super) fn finish(self, turn: &mut Turn<'_, Job>, answer: Answer) {
        let course = self.course;
        let with = |course, report| Self {
            course,
            report,
            piece: None,
        };
        match course.finish(turn, answer, self.report) {
            Ok(Finished::Delivered) => {}
            Ok(Finished::Divided(divided)) => {
                let (divided, head, report) = *divided;
                with(course, report).divide(turn, divided, Some(head));
            }
            Err(failed) => {
                let (report, fault) = *failed;
                with(course, report).fail(turn, fault);
            }
        }
    }

    /// For good. If it is a piece, that is what its file comes to.
    pub(super) fn end(self, turn: &mut Turn<'_, Job>, fault: Fault) {
        if self.piece.is_some() {
            return self.end_piece(turn, End::Failed(fault));
        }
        turn.finish(0);
        self.course.fail(self.report, fault, true);
    }

    /// The same, of one whose turn does not come.
    pub(super) fn end_without_turn(mut self, fault: Fault) {
        let Some(piece) = self.piece.take() else {
            return self.course.fail(self.report, fault, false);
        };
        let progress = std::mem::take(&mut self.report.progress);
        if let Some(last) = piece.end(progress, End::Failed(fault)) {
            let (progress, fault) = last.failed();
            self.report.progress = progress;
            self.course.fail(self.report, fault, false);
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.piece.as_ref().is_some_and(Piece::is_stopped)
    }

    fn chain(&self) -> redirect::Chain<'_> {
        self.report.chain().expect("checked when it was let in")
    }

    pub(super) fn url(&self) -> &Url {
        self.report
            .current_url()
            .expect("checked when it was let in")
    }

    /// Back to waiting for a turn, at this host.
    pub(super) fn wait_for(self, host: Key) -> Job {
        let Report {
            request,
            index,
            progress,
            ..
        } = self.report;
        Job {
            before: progress.before,
            course: self.course,
            request,
            index,
            host,
            since: Instant::now(),
            begun: Some(Box::new(Begun {
                progress,
                piece: self.piece,
            })),
        }
    }

    fn hop(&mut self, turn: &Turn<'_, Job>) -> Result<Hop, Fault> {
        if turn.post().is_interrupted() {
            return Err(Fault::cancelled());
        }
        let deadline = deadline(&*self.course, &self.report);
        if let Some(deadline) = deadline.filter(Deadline::has_passed) {
            return Err(deadline.fault("before it was asked for"));
        }
        let rules = self.course.rules();
        let host = turn.resident().get_or_init(Arc::default);
        if let Some(pause) = host.closed_for(&rules.breaker) {
            return match rules.breaker.waits {
                true => Ok(Hop::Later(pause)),
                false => Err(unreachable_host(pause)),
            };
        }
        match self.piece.clone() {
            None => self.fetch(turn),
            Some(piece) => self.fetch_piece(turn, &piece),
        }
    }

    fn fetch(&mut self, turn: &Turn<'_, Job>) -> Result<Hop, Fault> {
        let stock = match self.course.stock(&self.report)? {
            Stock::Divided(divided) => return Ok(Hop::Divide(divided)),
            stock if stock.is_settled() => return Ok(Hop::Answer(Answer::Here(None, stock))),
            stock => stock,
        };
        let mut headers = sent_headers(&self.report);
        let asked = Asked::by(&headers);
        stock.ask(&mut headers);
        let response = self.get(turn, &headers)?;
        self.judge(response, asked, stock)
    }

    pub(super) fn get(
        &mut self,
        turn: &Turn<'_, Job>,
        headers: &HeaderMap,
    ) -> Result<Response, Fault> {
        let rules = self.course.rules();
        let host = turn.resident().get_or_init(Arc::default);
        let ask = ask(&*self.course, turn, &self.report, headers);
        let mut timings = self.report.progress.timings;
        let begun = Instant::now();
        let response = rules.client.get(host, &ask, &mut timings);
        if let Some(reached) = was_reached(&response, begun.elapsed()) {
            host.note(&rules.breaker, reached);
        }
        self.report.progress.timings = timings;
        response
    }

    pub(super) fn redirect(&self, response: &mut Response) -> Result<Option<Url>, Fault> {
        let client = &self.course.rules().client;
        let target = client.redirect(&response.head, self.chain());
        if !matches!(target, Ok(None)) {
            response.body.drain();
        }
        target
    }

    /// Where a status that is an error makes one of the job.
    pub(super) fn refusal(&self, response: &mut Response) -> Option<Fault> {
        let fault = refusal(&response.head).filter(|_| self.course.rules().status_is_error);
        if fault.is_some() {
            response.body.drain();
        }
        fault
    }

    fn judge(&self, mut response: Response, asked: Asked, stock: Stock) -> Result<Hop, Fault> {
        if let Some(target) = self.redirect(&mut response)? {
            return Ok(Hop::Redirect(target));
        }
        let kept = match stock.judge(&response.head) {
            Came::Whole => Kept::default(),
            Came::Rest(kept) => {
                stock.complete(&mut response.head.headers);
                kept
            }
            Came::First(length) => return Ok(Hop::Answer(Answer::First(response, length))),
            Came::NothingNew => {
                response.body.drain();
                stock.complete(&mut response.head.headers);
                return Ok(Hop::Answer(Answer::Here(Some(response.head), stock)));
            }
            Came::Useless => {
                response.body.drain();
                return Ok(Hop::Afresh);
            }
        };
        let status = response.head.status;
        let is_rest = kept.length.is_some();
        if status == StatusCode::SWITCHING_PROTOCOLS || !is_rest && asked.not_for(status) {
            let detail = format!("the server answered {status}, which nobody asked for");
            return Err(Fault::new(ErrorKind::Protocol, detail));
        }
        if let Some(fault) = self.refusal(&mut response) {
            return Err(fault);
        }
        Ok(Hop::Answer(Answer::Body(response, stock, kept)))
    }
}

/// A status that is an error; also those beyond 599, which are of no class (RFC 9110, section 15).
pub(super) fn refusal(head: &Head) -> Option<Fault> {
    if head.status.as_u16() < 400 {
        return None;
    }
    let mut fault = Fault::status(head.status);
    fault.is_transient = retry::is_transient(head.status);
    fault.retry_after = retry_after(&head.headers);
    Some(fault)
}

/// The first that ends this job: its own or its batch's.
pub(super) fn deadline(course: &dyn Course, report: &Report) -> Option<Deadline> {
    Deadline::first(report.progress.deadline, course.deadline())
}

/// What is asked for in the present hop.
pub(super) fn ask<'a>(
    course: &dyn Course,
    turn: &'a Turn<'_, Job>,
    report: &'a Report,
    headers: &'a HeaderMap,
) -> Ask<'a> {
    let chain = report.chain().expect("checked when it was let in");
    Ask {
        url: chain.followed.last().unwrap_or(chain.asked),
        headers,
        has_left: chain.has_left_its_origin(),
        post: turn.post(),
        deadline: deadline(course, report),
    }
}

/// The request's own headers, less what is only for the origin that was asked first.
pub(super) fn sent_headers(report: &Report) -> HeaderMap {
    let mut headers = report.request.headers().cloned().unwrap_or_default();
    if report
        .chain()
        .is_some_and(|chain| chain.has_left_its_origin())
    {
        redirect::strip_credentials(&mut headers);
    }
    headers
}

/// What a hop tells of whether the host takes connections; `None` where it did not come to that.
fn was_reached(response: &Result<Response, Fault>, took: Duration) -> Option<bool> {
    let Err(fault) = response else {
        return Some(true);
    };
    match (fault.stage, fault.kind) {
        _ if fault.is_out_of_handles() => None,
        (Stage::Asked, _) | (_, ErrorKind::Truncated | ErrorKind::Protocol) => Some(true),
        // The job's own time was over: the host's fault only if it had a fair part of it.
        (Stage::Connecting, ErrorKind::Timeout) if !fault.is_transient => {
            (took >= FAIR).then_some(false)
        }
        // By a host that is there, but is not who it should be.
        (Stage::Connecting, ErrorKind::Tls) if !fault.is_transient => Some(true),
        (Stage::Connecting, _) if fault.is_transient => Some(false),
        _ => None,
    }
}

/// How long a connection may well take, to a host that is there.
const FAIR: Duration = Duration::from_secs(1);

pub(super) fn unreachable_host(pause: Duration) -> Fault {
    let detail = "not tried: the host took no connection the last times";
    // As long as that is for ever.
    let detail = match pause.as_secs() {
        0..1_000_000_000 => {
            format!("{detail}; the next try is in {pause:.1?} (see `host_breaker`)")
        }
        _ => format!("{detail}, and is not tried again (see `host_breaker`)"),
    };
    Fault::new(ErrorKind::Connect, detail)
}

/// What the caller's own headers ask for besides the whole.
#[derive(Clone, Copy)]
struct Asked {
    for_a_part: bool,
    if_changed: bool,
}

impl Asked {
    fn by(headers: &HeaderMap) -> Self {
        use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH, RANGE};
        Self {
            for_a_part: headers.contains_key(RANGE),
            if_changed: headers.contains_key(IF_NONE_MATCH)
                || headers.contains_key(IF_MODIFIED_SINCE),
        }
    }

    /// A part or a 'not modified' must not be taken for the whole. A caller who asks for one with
    /// headers of his own gets it.
    fn not_for(self, status: StatusCode) -> bool {
        match status {
            StatusCode::PARTIAL_CONTENT => !self.for_a_part,
            StatusCode::NOT_MODIFIED => !self.if_changed,
            _ => false,
        }
    }
}
