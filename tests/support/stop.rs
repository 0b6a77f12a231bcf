//! How an origin's threads learn that they must end, wherever they wait.
//!
//! The origin holds the only sender of a channel that nobody sends on; dropping it wakes every wait at once. A thread that
//! is woken so unwinds with [`Stopped`], which also ends a handler that waits in a gate of its own accord. The unwinding
//! skips the panic hook, so nothing is printed.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, never};

/// What the threads of an origin unwind with when it stops.
struct Stopped;

thread_local! {
    /// The stop signal of the origin that this thread belongs to; one that never comes elsewhere.
    static SIGNAL: RefCell<Receiver<()>> = const { RefCell::new(never()) };
}

/// Makes this thread one of the origin whose stop signal is given.
pub(super) fn obey(signal: Receiver<()>) {
    SIGNAL.with(|current| *current.borrow_mut() = signal);
}

/// The signal that this thread obeys: it becomes ready (disconnected) when the origin stops.
pub(super) fn signal() -> Receiver<()> {
    SIGNAL.with(|current| current.borrow().clone())
}

/// Ends the current thread's work; only for a thread whose signal came.
pub(super) fn unwind() -> ! {
    panic::resume_unwind(Box::new(Stopped))
}

/// Lets time pass, and unwinds at once when the origin stops.
pub(super) fn pause(time: Duration) {
    if signal().recv_timeout(time) == Err(RecvTimeoutError::Disconnected) {
        unwind();
    }
}

/// Runs `work`. A stop counts as done; the message of any other panic is the error.
pub(super) fn catch(work: impl FnOnce()) -> Result<(), String> {
    match panic::catch_unwind(AssertUnwindSafe(work)) {
        Err(payload) if !payload.is::<Stopped>() => Err(message(&*payload)),
        _ => Ok(()),
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}
