//! A file in pieces: each is a job like any other, and all have one outcome between them.
//!
//! What they share lives until the last of them has ended. That one has it for himself then, and with
//! it what is to be done: give the file its name, tell the first error, or ask for the whole once
//! more, in one piece. The others end as none (see `Turn::divide`).

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use url::Url;

use super::running::{Hop, Running, sent_headers};
use super::{Answer, Begun, Job};
use crate::fault::{ErrorKind, Fault};
use crate::http::Response;
use crate::outcome::{Head, Progress, Report, Timings};
use crate::schedule::{Key, Turn};
use crate::sink::{Divided, Stock};

/// One piece's hold on the file. A clone lives no longer than the turn in which it is made: until
/// then its piece has not ended.
#[derive(Clone)]
pub(super) struct Piece {
    file: Arc<Pieces>,
    span: usize,
}

/// What the pieces of one file share.
struct Pieces {
    divided: Divided,
    /// How the job went that was divided.
    before: Progress,
    /// The pieces that are left are of no use any more: read by them before their turns and between
    /// their reads. Set after the reason, under its lock.
    are_stopped: AtomicBool,
    /// Guards what they tell each other, for a few instructions at a time. No other lock is taken
    /// meanwhile, and there is no I/O.
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    timings: Timings,
    retries: u32,
    /// A response that was of the file, and the redirects that led to it.
    head: Option<(Head, Vec<Url>)>,
    why: Option<Why>,
}

/// Why the file does not come in pieces.
enum Why {
    /// The server sends no pieces after all, or of another version.
    Useless,
    /// One has failed for good, at the end of these redirects.
    Failed(Fault, Vec<Url>),
}

/// How a piece ends.
pub(super) enum End {
    Whole,
    /// It is of no use any more.
    Stopped,
    /// What came is not the piece.
    Useless,
    Failed(Fault),
}

/// What the last to end has for himself.
pub(super) struct Last {
    divided: Divided,
    progress: Progress,
    head: Option<Head>,
    why: Option<Why>,
}

impl Piece {
    pub(super) fn is_stopped(&self) -> bool {
        self.file.are_stopped.load(Ordering::Acquire)
    }

    fn keep_head(&self, head: Head, progress: &Progress) {
        let mut told = self.file.told.lock();
        told.head
            .get_or_insert_with(|| (head, progress.redirects.clone()));
    }

    /// `None` if there are others that have not ended.
    pub(super) fn end(self, progress: Progress, end: End) -> Option<Last> {
        self.tell(progress, end);
        // Of all the pieces' holds, one is the last to be let go.
        Arc::into_inner(self.file).map(Pieces::last)
    }

    fn tell(&self, progress: Progress, end: End) {
        let mut told = self.file.told.lock();
        told.timings += progress.timings;
        told.retries += progress.attempts.saturating_sub(1);
        // By reference: a fault that is not kept is dropped once the lock is open.
        let is_kept = match (&end, &told.why) {
            (End::Whole | End::Stopped, _) | (_, Some(Why::Failed(..))) => false,
            (End::Useless, why) => why.is_none(),
            (End::Failed(_), _) => true,
        };
        if is_kept {
            told.why = Some(match end {
                End::Failed(fault) => Why::Failed(fault, progress.redirects),
                _ => Why::Useless,
            });
            self.file.are_stopped.store(true, Ordering::Release);
        }
    }
}

impl Pieces {
    fn new(divided: Divided, head: Option<Head>, before: Progress) -> Self {
        let told = Told {
            head: head.map(|head| (head, before.redirects.clone())),
            ..Told::default()
        };
        Self {
            divided,
            before,
            are_stopped: AtomicBool::new(false),
            told: Mutex::new(told),
        }
    }

    /// Where a piece begins: where the job was led.
    fn begin(&self) -> Progress {
        let before = &self.before;
        Progress {
            before: before.before,
            deadline: before.deadline,
            mirrors: before.mirrors,
            redirects: before.redirects.clone(),
            was_led: before.is_redirected(),
            ..Progress::default()
        }
    }

    fn last(self) -> Last {
        let Told {
            timings,
            retries,
            head,
            why,
        } = self.told.into_inner();
        let mut progress = self.before;
        progress.timings += timings;
        progress.retries_of_pieces += retries;
        progress.resumed_from = Some(self.divided.had()).filter(|&had| had > 0);
        let head = head.map(|(head, redirects)| {
            progress.redirects = redirects;
            head
        });
        Last {
            divided: self.divided,
            progress,
            head,
            why,
        }
    }
}

impl Last {
    /// Of those that ended one has failed: what has come is left for another run.
    pub(super) fn failed(self) -> (Progress, Fault) {
        self.divided.leave();
        let Some(Why::Failed(fault, redirects)) = self.why else {
            unreachable!("a fault takes the place of all else");
        };
        let mut progress = self.progress;
        progress.redirects = redirects;
        (progress, fault)
    }
}

impl Running {
    /// Goes on as the pieces of its file that are missing.
    pub(super) fn divide(self, turn: &mut Turn<'_, Job>, divided: Divided, head: Option<Head>) {
        let host = Key::host(self.url());
        let Report {
            request,
            index,
            progress,
            ..
        } = self.report;
        let missing = divided.missing();
        debug_assert!(!missing.is_empty(), "the outcome would be lost");
        let file = Arc::new(Pieces::new(divided, head, progress));
        let job = |span| Job {
            course: Arc::clone(&self.course),
            request: request.clone(),
            index,
            before: file.before.before,
            host: host.clone(),
            since: Instant::now(),
            begun: Some(Box::new(Begun {
                progress: file.begin(),
                piece: Some(Piece {
                    file: Arc::clone(&file),
                    span,
                }),
            })),
        };
        let pieces = missing.into_iter().map(job).collect();
        // One of the pieces is to be the last that has a hold on it.
        drop(file);
        turn.divide(pieces);
    }

    /// One hop of a piece.
    pub(super) fn fetch_piece(
        &mut self,
        turn: &Turn<'_, Job>,
        piece: &Piece,
    ) -> Result<Hop, Fault> {
        let divided = &piece.file.divided;
        let mut headers = sent_headers(&self.report);
        divided.ask(piece.span, &mut headers);
        let mut response = self.get(turn, &headers)?;
        if let Some(target) = self.redirect(&mut response)? {
            return Ok(Hop::Redirect(target));
        }
        if divided.is_it(piece.span, &response.head, &self.report) {
            return self.take_piece(piece, response);
        }
        // That there is no such part says something of the file, not of the request.
        let is_there = response.head.status != http::StatusCode::RANGE_NOT_SATISFIABLE;
        match self.refusal(&mut response).filter(|_| is_there) {
            // A redirect that was good for a time, it may be: the first URL leads to another.
            Some(fault) if self.report.progress.was_led && !fault.is_transient => {
                Ok(Hop::FromTheStart)
            }
            Some(fault) => Err(fault),
            None => {
                response.body.drain();
                Ok(Hop::Piece(End::Useless))
            }
        }
    }

    fn take_piece(&mut self, piece: &Piece, response: Response) -> Result<Hop, Fault> {
        let Response { mut head, mut body } = response;
        piece.file.divided.complete(&mut head.headers);
        piece.keep_head(head, &self.report.progress);
        let start = Instant::now();
        let mut body = Stopping {
            piece,
            body: &mut body,
        };
        let taken = piece.file.divided.take(piece.span, &mut body);
        self.report.progress.timings.body += start.elapsed();
        Ok(Hop::Piece(match taken? {
            true => End::Whole,
            false => End::Useless,
        }))
    }

    /// A piece has ended, with which all may have.
    pub(super) fn end_piece(mut self, turn: &mut Turn<'_, Job>, end: End) {
        let piece = self.piece.take().expect("it is a piece");
        let progress = std::mem::take(&mut self.report.progress);
        let Some(last) = piece.end(progress, end) else {
            return turn.divide(Vec::new());
        };
        self.report.progress = last.progress;
        match last.why {
            Some(Why::Failed(fault, redirects)) => {
                last.divided.leave();
                self.report.progress.redirects = redirects;
                self.turn_to_mirror(turn, fault);
            }
            Some(Why::Useless) => {
                last.divided.discard();
                self.begin_anew(turn);
            }
            None => {
                let stock = Stock::Divided(Box::new(last.divided));
                self.finish(turn, Answer::Here(last.head, stock));
            }
        }
    }

    /// In one piece. It is the same attempt, and the first that asks for all.
    fn begin_anew(mut self, turn: &mut Turn<'_, Job>) {
        let progress = &mut self.report.progress;
        // Also where the part cannot be removed: it would be gone on with for ever.
        progress.is_afresh = true;
        progress.is_in_one_stream = true;
        progress.resumed_from = None;
        self.go_back(turn, None);
    }
}

/// A piece's body, which ends where the piece is of no use any more.
struct Stopping<'a> {
    piece: &'a Piece,
    body: &'a mut dyn Read,
}

impl Read for Stopping<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_stopped() {
            let detail = "another piece of the file has failed";
            return Err(Fault::new(ErrorKind::Cancelled, detail).into_io());
        }
        self.body.read(buffer)
    }
}
