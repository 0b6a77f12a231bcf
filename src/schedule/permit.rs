//! Tokens in the hand of the caller.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{RecvTimeoutError, bounded};

use super::lane::Needs;
use super::{Keys, Scheduler, Shared, Work};

/// A token of each of a request's budgets, held until this is dropped.
///
/// For HTTP that is done by other means than this crate's, but shall count: as long as it
/// lives, one connection less is open to the host.
///
/// ```
/// use fetchpool::Downloader;
///
/// let downloader = Downloader::new();
/// {
///     let _hold = downloader.permit("http://127.0.0.1:8080/")?;
///     // … talk to the host by whatever means …
/// } // and here the next in line has it
/// # Ok::<(), fetchpool::Error>(())
/// ```
#[must_use = "the tokens go back as soon as it is dropped"]
pub struct Permit {
    needs: Needs,
    scheduler: Arc<dyn TakesBack>,
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        Arc::clone(&self.scheduler).take_back(self.needs);
    }
}

/// The scheduler, whatever its jobs are.
trait TakesBack: Send + Sync {
    fn take_back(self: Arc<Self>, needs: Needs);
}

impl<W: Work> TakesBack for Shared<W> {
    fn take_back(self: Arc<Self>, needs: Needs) {
        self.with(|state| state.release(needs));
    }
}

/// Why there is no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// Not within the time.
    TimedOut,
    /// The scheduler has been stopped.
    Stopped,
}

impl<W: Work> Scheduler<W> {
    /// Waits for a token of each budget, in the line of all others that want one.
    ///
    /// # Panics
    /// Without a deadline on one of the scheduler's own workers.
    pub(crate) fn acquire(
        &self,
        keys: Keys<'_>,
        deadline: Option<Instant>,
    ) -> Result<Permit, Denied> {
        if deadline.is_none() {
            self.shared.may_wait();
        }
        let (grant, granted) = bounded(1);
        let (lane, needs) = self.shared.with(|state| {
            if state.stopped.is_some() {
                return Err(Denied::Stopped);
            }
            Ok(state.acquire(keys, grant))
        })?;
        let outcome = match deadline {
            Some(deadline) => granted.recv_deadline(deadline),
            None => granted.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match outcome {
            Ok(()) => Ok(self.permit(needs)),
            Err(RecvTimeoutError::Disconnected) => Err(Denied::Stopped),
            // Whether it was granted in this very moment is decided under the lock: a token
            // is handed to a waiter that takes it, or to the next.
            Err(RecvTimeoutError::Timeout) => {
                if self.shared.with(|state| state.abandon(lane)) {
                    Err(Denied::TimedOut)
                } else {
                    granted
                        .recv()
                        .map(|()| self.permit(needs))
                        .map_err(|_| Denied::Stopped)
                }
            }
        }
    }

    /// The tokens, if they are all there and nobody waits for one of them.
    pub(crate) fn try_acquire(&self, keys: Keys<'_>) -> Result<Permit, Denied> {
        self.shared
            .with(|state| {
                if state.stopped.is_some() {
                    return Err(Denied::Stopped);
                }
                state.try_acquire(keys).ok_or(Denied::TimedOut)
            })
            .map(|needs| self.permit(needs))
    }

    fn permit(&self, needs: Needs) -> Permit {
        Permit {
            needs,
            scheduler: Arc::clone(&self.shared) as _,
        }
    }
}
