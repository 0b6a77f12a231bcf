//! What happens on the wire during one hop.
//!
//! ureq calls its resolver, connector and transport on the thread that makes the request, and
//! has no way to hand anything through to them. So the hop's notes lie in a thread-local.

use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::tls::ClientAuth;
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
    /// Reads are to end by then, whatever the idle time limit.
    pub(super) until: Option<Instant>,
    /// What the server got that asked for a client certificate in the handshake.
    pub(super) client_auth: ClientAuth,
    /// Idle connections are not to be used.
    pub(super) fresh: bool,
    post: Option<Arc<Post>>,
}

thread_local! {
    static WIRE: RefCell<Wire> = RefCell::default();
}

/// Starts the notes of a hop of the job at this post. `fresh`: on a new connection.
pub(super) fn begin(post: &Arc<Post>, fresh: bool) {
    WIRE.with_borrow_mut(|wire| {
        *wire = Wire {
            post: Some(Arc::clone(post)),
            fresh,
            ..Wire::default()
        };
    });
}

/// What was noted up to the end of the response's header. The post stays: the body is read
/// on this thread as well.
pub(super) fn end_of_header() -> Wire {
    WIRE.with_borrow_mut(|wire| {
        let post = wire.post.clone();
        std::mem::replace(
            wire,
            Wire {
                post,
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

pub(super) fn is_interrupted() -> bool {
    note(|wire| wire.post.as_ref().is_some_and(|post| post.is_interrupted()))
}
