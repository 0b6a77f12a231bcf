//! The event that a handler waits for and that a test brings about.

use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_channel::{Sender, bounded, select};
use parking_lot::{Condvar, Mutex};

use super::{PATIENCE, stop};

/// A gate, shut at first: whoever comes waits until it is opened, or until [`pass`](Self::pass) lets him through.
///
/// Clones are the same gate. Handlers wait through [`Reply::after`](super::Reply::after) and
/// [`Reply::then_wait`](super::Reply::then_wait), or by calling [`wait`](Self::wait) themselves; when their origin stops
/// they stop waiting. A handler in a gate does *not* notice that its client has gone, as a server at work does not.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Who waits and who may pass; held for a few instructions only.
    state: Mutex<State>,
    /// Told whenever somebody joins the line.
    joined: Condvar,
}

#[derive(Debug, Default)]
struct State {
    open: bool,
    /// Passes given out when nobody waited.
    spare: usize,
    /// Those who wait, in the order of their coming. Whoever lets one through takes him out of the line, so that the
    /// count is exact at once and not only when the thread has woken.
    line: VecDeque<Sender<()>>,
}

impl Gate {
    /// A shut gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets everybody through, now and for ever.
    pub fn open(&self) {
        let mut state = self.inner.state.lock();
        state.open = true;
        for waiter in state.line.drain(..) {
            let_through(&waiter);
        }
    }

    /// Lets `count` through, first come, first served; what is left over is for those who come later.
    pub fn pass(&self, count: usize) {
        let mut state = self.inner.state.lock();
        for _ in 0..count {
            match state.line.pop_front() {
                Some(waiter) => let_through(&waiter),
                None => state.spare += 1,
            }
        }
    }

    /// Waits to be let through.
    ///
    /// # Panics
    /// When nobody has opened the gate for [`PATIENCE`].
    #[track_caller]
    pub fn wait(&self) {
        let (pass, passed) = bounded(1);
        {
            let mut state = self.inner.state.lock();
            if state.open {
                return;
            }
            if state.spare > 0 {
                state.spare -= 1;
                return;
            }
            state.line.push_back(pass.clone());
            self.inner.joined.notify_all();
        }
        let stopped = stop::signal();
        let stopping = select! {
            recv(passed) -> _ => return,
            recv(stopped) -> _ => true,
            default(PATIENCE) => false,
        };
        self.leave(&pass);
        if stopping {
            stop::unwind();
        }
        panic!("a gate was not opened within {PATIENCE:?}");
    }

    /// How many wait now.
    pub fn waiters(&self) -> usize {
        self.inner.state.lock().line.len()
    }

    /// Blocks until at least `count` wait at the same time.
    ///
    /// # Panics
    /// When that has not come about within [`PATIENCE`], or cannot because the gate is open.
    #[track_caller]
    pub fn wait_for_waiters(&self, count: usize) {
        let mut state = self.inner.state.lock();
        let late = self.inner.joined.wait_while_for(
            &mut state,
            |state| state.line.len() < count && !state.open,
            PATIENCE,
        );
        let (waiting, open) = (state.line.len(), state.open);
        drop(state);
        assert!(
            !late.timed_out() && waiting >= count,
            "{waiting} wait in the gate (open: {open}), not {count}, after at most {PATIENCE:?}"
        );
    }

    fn leave(&self, pass: &Sender<()>) {
        let mut state = self.inner.state.lock();
        state.line.retain(|waiter| !waiter.same_channel(pass));
    }
}

fn let_through(waiter: &Sender<()>) {
    // The one message of a channel with room for one. That nobody receives it is no fault: the waiter is being stopped.
    let _ = waiter.try_send(());
}
