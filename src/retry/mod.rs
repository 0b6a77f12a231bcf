//! Whether a failed attempt is made again, and when. Decides; waits for nothing.

mod after;
mod backoff;

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use url::Url;

use crate::fault::ErrorKind;

pub(crate) use self::after::retry_after;

/// With the pauses below, 3.5 s at most: a connection that was reset, a worker that was restarted.
const DEFAULT_RETRIES: u32 = 3;
const DEFAULT_BASE: Duration = Duration::from_millis(500);
const DEFAULT_CAP: Duration = Duration::from_secs(30);
const DEFAULT_TOTAL_PAUSE: Duration = Duration::from_secs(120);
/// Rate limits are by the minute more often than by the hour.
const DEFAULT_LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// How often and when what failed is tried again.
///
/// An attempt is the whole chain of redirects, from the request's own URL. One that fails is
/// made again if its cause may pass:
///
/// - the statuses 408, 425, 429, 500, 502, 503 and 504;
/// - errors of the kinds [`Dns`](ErrorKind::Dns) (but not where a name is known not to be there),
///   [`Connect`](ErrorKind::Connect), [`Timeout`](ErrorKind::Timeout) and
///   [`Truncated`](ErrorKind::Truncated);
/// - what [`decide`](Self::decide) says.
///
/// Before that it waits, holding neither a worker nor a token: *base*·2ⁿ⁻¹ before retry *n*, at
/// most [`cap`](Self::cap), less up to half of it at random, so that requests that failed
/// together do not come back together. If the response has a `Retry-After`, for no less than
/// that, and so does every other request of the host.
///
/// ```
/// use std::time::Duration;
/// use fetchpool::{ErrorKind, RetryPolicy};
///
/// let policy = RetryPolicy::new()
///     .retries(5)
///     .cap(Duration::from_secs(10))
///     // This host is under maintenance when it answers 403; and no name comes back.
///     .decide(|failure| match (failure.kind(), failure.status()) {
///         (_, Some(status)) if status == 403 => Some(true),
///         (ErrorKind::Dns, _) => Some(false),
///         _ => None,
///     });
/// ```
#[derive(Clone)]
#[must_use = "a policy does nothing by itself"]
pub struct RetryPolicy {
    retries: u32,
    base: Duration,
    cap: Duration,
    total_pause: Duration,
    longest_retry_after: Duration,
    seed: Option<u64>,
    decide: Option<Arc<Decide>>,
}

type Decide = dyn Fn(&Failure<'_>) -> Option<bool> + Send + Sync;

impl RetryPolicy {
    /// Up to three retries; each setter tells its default.
    pub fn new() -> Self {
        Self {
            retries: DEFAULT_RETRIES,
            base: DEFAULT_BASE,
            cap: DEFAULT_CAP,
            total_pause: DEFAULT_TOTAL_PAUSE,
            longest_retry_after: DEFAULT_LONGEST_RETRY_AFTER,
            seed: None,
            decide: None,
        }
    }

    /// Every request has one attempt. A `Retry-After` still makes the others of its host wait.
    pub fn none() -> Self {
        Self::new().retries(0)
    }

    /// How often a request is tried again at most, besides the first time. The default is 3.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// The pause before the first retry; it doubles with each. The default is 500 ms.
    pub fn base(mut self, pause: Duration) -> Self {
        self.base = pause;
        self
    }

    /// The longest pause that doubling comes to. The default is 30 s.
    pub fn cap(mut self, pause: Duration) -> Self {
        self.cap = pause;
        self
    }

    /// How long a request may pause in sum; where the next pause would be more, it fails. The
    /// default is 2 min.
    ///
    /// Waiting in line for the host's tokens is not counted.
    pub fn total_pause(mut self, pauses: Duration) -> Self {
        self.total_pause = pauses;
        self
    }

    /// The longest `Retry-After` that is waited for. One above fails the request at once, and
    /// nothing waits for it. The default is 60 s.
    pub fn longest_retry_after(mut self, pause: Duration) -> Self {
        self.longest_retry_after = pause;
        self
    }

    /// Makes what is random about the pauses the same each time, for tests. The default is
    /// another seed for each downloader.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Overrules which failures are tried again: `Some(true)` is yes, `Some(false)` is no, `None`
    /// is as if nothing had been asked. The default is to ask nothing.
    ///
    /// It is not asked before a cut body goes on where it broke off; that counts as an attempt.
    ///
    /// Called on a worker, so it should not block. Not called where there is nothing to decide:
    /// no retry is left, or the request was cancelled.
    pub fn decide(
        mut self,
        decide: impl Fn(&Failure<'_>) -> Option<bool> + Send + Sync + 'static,
    ) -> Self {
        self.decide = Some(Arc::new(decide));
        self
    }
}

impl Default for RetryPolicy {
    /// As [`new`](Self::new).
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RetryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            retries,
            base,
            cap,
            total_pause,
            longest_retry_after,
            seed,
            decide,
        } = self;
        f.debug_struct("RetryPolicy")
            .field("retries", retries)
            .field("base", base)
            .field("cap", cap)
            .field("total_pause", total_pause)
            .field("longest_retry_after", longest_retry_after)
            .field("seed", seed)
            .field("decide", &decide.as_ref().map(|_| ".."))
            .finish()
    }
}

/// A failed attempt, as [`RetryPolicy::decide`] sees it.
pub struct Failure<'a> {
    pub(crate) kind: ErrorKind,
    pub(crate) status: Option<StatusCode>,
    pub(crate) attempts: u32,
    pub(crate) url: &'a Url,
    /// It may pass, as far as can be told.
    pub(crate) is_transient: bool,
}

impl<'a> Failure<'a> {
    /// What kind of error it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The status of the response, if the error is about one.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.status
    }

    /// How many attempts have been made, this one included.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The URL that failed, after redirects; with user name and password, if it has any.
    #[must_use]
    pub fn url(&self) -> &'a Url {
        self.url
    }
}

impl fmt::Debug for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure")
            .field("kind", &self.kind)
            .field("status", &self.status)
            .field("attempts", &self.attempts)
            .field("url", &crate::redact::without_values(self.url))
            .finish()
    }
}

/// The statuses that speak of the moment, not of the request (RFC 9110, section 15; RFC 6585,
/// section 4; RFC 8470, section 5.2). 500 does not say which.
pub(crate) fn is_transient(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504)
}

/// A failed attempt, with what the caller does not see.
pub(crate) struct Attempt<'a> {
    pub(crate) failure: Failure<'a>,
    /// Of the job in its batch.
    pub(crate) index: u64,
    /// The job's pauses so far, in sum.
    pub(crate) paused: Duration,
    /// What the response asks for: see [`retry_after`].
    pub(crate) retry_after: Option<Duration>,
}

/// What follows from a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) job: Next,
    /// Nobody is to ask the host for as long as this, whatever becomes of the job.
    pub(crate) host: Option<Duration>,
}

/// What becomes of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The failure is its outcome.
    Fail,
    /// As well, though it might pass: the server asks for this pause, and that is too long.
    TooLong(Duration),
    /// Another attempt, after this pause.
    Again(Duration),
}

/// A policy as a downloader follows it.
#[derive(Debug)]
pub(crate) struct Retries {
    policy: RetryPolicy,
    seed: u64,
}

impl Retries {
    /// Draws the seed, if the caller gave none.
    pub(crate) fn new(policy: RetryPolicy) -> Self {
        // The only randomness in std. A policy that serves two downloaders gets two.
        let seed = policy.seed;
        let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(()));
        Self { policy, seed }
    }

    /// How many retries are left after so many attempts.
    pub(crate) fn left(&self, attempts: u32) -> u32 {
        self.policy
            .retries
            .saturating_add(1)
            .saturating_sub(attempts)
    }

    /// Calls the caller's function, which may panic.
    pub(crate) fn judge(&self, attempt: &Attempt<'_>) -> Verdict {
        let Attempt {
            failure,
            index,
            paused,
            retry_after,
        } = attempt;
        let policy = &self.policy;
        let is_transient = failure.is_transient;
        let is_left = failure.attempts <= policy.retries && failure.kind != ErrorKind::Cancelled;
        let again = is_left && self.overruled(failure).unwrap_or(is_transient);
        // Beside a failure of another sort, what the header says is of no use.
        let asked = retry_after.filter(|_| is_transient || again);
        let too_long = asked.filter(|asked| *asked > policy.longest_retry_after);
        let host = match too_long {
            Some(_) => None,
            None => asked.filter(|asked| !asked.is_zero()),
        };
        let job = match too_long {
            _ if !again => Next::Fail,
            Some(asked) => Next::TooLong(asked),
            None => {
                let (base, cap) = (policy.base, policy.cap);
                let pause = backoff::pause(base, cap, failure.attempts, self.seed, *index);
                // Also a server that says 0 each time is not asked in a tight loop.
                let pause = pause.max(asked.unwrap_or_default());
                if paused.saturating_add(pause) > policy.total_pause {
                    Next::Fail
                } else {
                    Next::Again(pause)
                }
            }
        };
        Verdict { job, host }
    }

    fn overruled(&self, failure: &Failure<'_>) -> Option<bool> {
        let decide = self.policy.decide.as_ref()?;
        decide(failure)
    }
}

#[cfg(test)]
mod tests;
