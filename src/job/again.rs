//! What becomes of a job whose hop came to nothing: another attempt, a wait, or its end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::running::{Running, deadline, unreachable_host};
use super::{End, Job, panicked, undisturbed};
use crate::deadline::Deadline;
use crate::fault::{ErrorKind, Fault, Stage};
use crate::retry::{Attempt, Failure, Next};
use crate::schedule::{Key, Turn};

/// How long a job waits that found no file handle left, and how often before it fails: by then
/// it is not the connections that are about to end which hold them.
const STARVED: Duration = Duration::from_millis(100);
const MOST_STARVED: u32 = 100;
pub(super) const RAISE_LIMIT: &str = "raise the limit on open files (`ulimit -n`)";

impl Running {
    /// The attempt does not count, unless it has begun with other hops than this.
    fn has_not_tried(&mut self) {
        let progress = &mut self.report.progress;
        if !progress.is_redirected() {
            progress.attempts -= 1;
            progress.is_in_attempt = false;
        }
    }

    /// The host's other jobs wait as well: none of them would get further.
    pub(super) fn wait_for_host(mut self, turn: &mut Turn<'_, Job>, pause: Duration) {
        self.has_not_tried();
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
    pub(super) fn fail(self, turn: &mut Turn<'_, Job>, fault: Fault) {
        if self.is_stopped() {
            return self.end_piece(turn, End::Stopped);
        }
        let now = Instant::now();
        let mut fault = self.meaning_of(fault);
        if fault.is_out_of_handles() {
            if self.report.progress.starved < MOST_STARVED {
                return self.wait_for_handles(turn, now + STARVED);
            }
            fault = fault.and(format_args!("{RAISE_LIMIT}"));
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
                attempts: self.report.attempts_here(),
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
            // At the very time at which the host's gate opens: so it goes before the others.
            Next::Again(pause) => self.try_again(turn, now, pause, fault),
            Next::TooLong(pause) => self.turn_to_mirror(
                turn,
                fault.and(format_args!(
                    "it asks to be left alone for {pause:?}, which is longer than is waited for"
                )),
            ),
            Next::Fail => self.turn_to_mirror(turn, fault),
        }
    }

    /// Nothing more is to be had here. A mirror is for all pieces of a file, once they have ended.
    pub(super) fn turn_to_mirror(mut self, turn: &mut Turn<'_, Job>, fault: Fault) {
        use ErrorKind::{Cancelled, InvalidUrl, Io, Panicked};
        let is_ours = matches!(fault.kind, Cancelled | InvalidUrl | Io | Panicked);
        let is_over = deadline(&*self.course, &self.report).is_some_and(|end| end.has_passed());
        let is_piece = self.piece.is_some();
        if is_piece || is_ours || is_over || self.report.mirrors_left() == 0 {
            return self.end(turn, fault);
        }
        undisturbed(|| {
            log::debug!("{}: turning to a mirror: {fault}", self.report.shown_url());
        });
        let progress = &mut self.report.progress;
        progress.mirrors += 1;
        progress.attempts_elsewhere = progress.attempts;
        progress.is_afresh = false;
        progress.is_in_one_stream = false;
        self.begin_again(turn, None);
    }

    /// Another attempt.
    fn begin_again(mut self, turn: &mut Turn<'_, Job>, at: Option<Instant>) {
        self.report.progress.is_in_attempt = false;
        self.go_back(turn, at);
    }

    /// To where the way begins.
    pub(super) fn go_back(mut self, turn: &mut Turn<'_, Job>, at: Option<Instant>) {
        let mirror = self.report.mirror().cloned();
        let progress = &mut self.report.progress;
        progress.was_led = false;
        progress.redirects.clear();
        progress.redirects.extend(mirror);
        let host = Key::host(self.url());
        turn.again(self.wait_for(host), at);
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

    fn try_again(mut self, turn: &mut Turn<'_, Job>, now: Instant, pause: Duration, fault: Fault) {
        let deadline = deadline(&*self.course, &self.report);
        let in_time = |at: &Instant| deadline.is_none_or(|deadline| *at < deadline.at);
        let Some(at) = now.checked_add(pause).filter(in_time) else {
            return self.end(
                turn,
                fault.and(format_args!(
                    "there is no time for another attempt, which would be in {pause:.1?}"
                )),
            );
        };
        undisturbed(|| {
            log::debug!(
                "{}: attempt {} failed, another in {pause:?}: {fault}",
                self.report.shown(self.url()),
                self.report.progress.attempts,
            );
        });
        self.report.progress.paused += pause;
        self.begin_again(turn, Some(at));
    }

    /// Idle connections are closed, and the job comes again when some of the others are through.
    fn wait_for_handles(mut self, turn: &mut Turn<'_, Job>, at: Instant) {
        self.report.progress.starved += 1;
        if self.course.rules().client.may_shed() {
            for host in turn.residents() {
                if let Some(host) = host.get() {
                    host.shed();
                }
            }
        }
        self.has_not_tried();
        let host = Key::host(self.url());
        turn.again(self.wait_for(host), Some(at));
    }
}
