//! What happens on the wire during one hop.
//!
//! ureq calls its resolver, connector and transport on the thread that makes the request, and
//! has no way to hand anything through to them. So the hop's notes lie in a thread-local.

use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::deadline::Deadline;
use crate::schedule::{Interrupt, Post};

#[derive(Default)]
pub(super) struct Wire {
    pub(super) resolve: Duration,
    pub(super) connect: Duration,
    pub(super) tls: Duration,
    /// When the request was sent.
    pub(super) sent: Option<Instant>,
    /// When the first byte of the response came.
    pub(super) answered: Option<Instant>,
    /// The connection had served an earlier request.
    pub(super) reused: bool,
    /// Bytes that have been read since the last that were of use: a server may send interim
    /// responses, or trailers, without end.
    pub(super) fruitless: usize,
    /// The response's header has been read.
    pub(super) is_in_body: bool,
    /// What reads are not to outlast, besides the idle time limit.
    pub(super) deadline: Option<Deadline>,
    pub(super) header: Option<Limit>,
    pub(super) drain: Option<Limit>,
    pub(super) pace: Option<Limit>,
    post: Option<Arc<Post>>,
}

/// A time by which something is to be over, and how long there was for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) at: Instant,
    pub(super) time: Duration,
}

impl Limit {
    /// From now on.
    pub(super) fn of(time: Duration) -> Option<Self> {
        let at = Instant::now().checked_add(time)?;
        Some(Self { at, time })
    }
}

impl Wire {
    /// When the first of the limits is reached, and what that means.
    pub(super) fn next_limit(&self) -> Option<(Instant, Reached)> {
        let of = |limit: Option<Limit>, reached: fn(Duration) -> Reached| {
            limit.map(|limit| (limit.at, reached(limit.time)))
        };
        let limits = [
            self.deadline
                .map(|deadline| (deadline.at, Reached::Deadline(deadline))),
            of(self.header, Reached::Header),
            of(self.drain, Reached::Drain),
            of(self.pace, Reached::Pace),
        ];
        limits.into_iter().flatten().min_by_key(|&(at, _)| at)
    }

    pub(super) fn doing(&self) -> &'static str {
        if self.is_in_body {
            "while the body was read"
        } else if self.sent.is_some() {
            "while the response was awaited"
        } else {
            "while the request was sent"
        }
    }
}

/// A limit that was reached.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reached {
    Deadline(Deadline),
    Header(Duration),
    Drain(Duration),
    Pace(Duration),
}

thread_local! {
    static WIRE: RefCell<Wire> = RefCell::default();
}

/// Starts the notes of an exchange of the job at this post.
pub(super) fn begin(post: &Arc<Post>, deadline: Option<Deadline>) {
    WIRE.set(Wire {
        post: Some(Arc::clone(post)),
        deadline,
        ..Wire::default()
    });
}

/// What was noted up to the end of the response's header. The post stays: the body is read
/// on this thread as well.
pub(super) fn end_of_header() -> Wire {
    WIRE.with_borrow_mut(|wire| {
        let post = wire.post.clone();
        let deadline = wire.deadline;
        std::mem::replace(
            wire,
            Wire {
                post,
                deadline,
                is_in_body: true,
                ..Wire::default()
            },
        )
    })
}

pub(super) fn note<T>(note: impl FnOnce(&mut Wire) -> T) -> T {
    WIRE.with_borrow_mut(note)
}

/// From now on an interruption of the job makes this return.
pub(super) fn waits_on(what: Weak<dyn Interrupt>) {
    // The post's lock is taken outside of the borrow: an interruption may come at once.
    if let Some(post) = note(|wire| wire.post.clone()) {
        post.waits_on(what);
    }
}

pub(super) fn deadline_passed() -> Option<Deadline> {
    note(|wire| wire.deadline).filter(Deadline::has_passed)
}

pub(super) fn is_interrupted() -> bool {
    note(|wire| wire.post.as_ref().is_some_and(|post| post.is_interrupted()))
}
