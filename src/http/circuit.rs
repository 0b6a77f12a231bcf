//! A host that takes no connection is not asked for each of its thousand jobs.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

const DEFAULT_FAILURES: u32 = 10;
const DEFAULT_COOL_DOWN: Duration = Duration::from_secs(1);
const DEFAULT_LONGEST: Duration = Duration::from_secs(60);

/// What is done about a host that takes no connection: it refuses, or is silent until the connect
/// limit, in the TLS handshake too.
///
/// After some such failures in a row, without one connection between them, the host is left
/// alone for a *cool-down*. Then one request goes out as a probe: if it is connected, all go on;
/// if not, the next cool-down is twice as long. Other hosts do not feel it. What is known of a host
/// is forgotten when nobody has asked for it for [`Builder::idle_age`](crate::Builder::idle_age).
///
/// What happens to the host's other requests meanwhile is a choice: by default an attempt fails
/// at once with [`ErrorKind::Connect`](crate::ErrorKind::Connect), and the
/// [`RetryPolicy`](crate::RetryPolicy) says whether there is another; with
/// [`wait`](Self::wait) they wait. Failing fast uses up an attempt: a host that is away for longer
/// than the retries take loses its requests.
///
/// ```
/// use fetchpool::{Downloader, HostBreaker};
///
/// let patient = HostBreaker::new().wait(true);
/// let downloader = Downloader::builder().host_breaker(patient).build()?;
/// # Ok::<(), fetchpool::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a policy does nothing by itself"]
pub struct HostBreaker {
    failures: Option<NonZeroU32>,
    cool_down: Duration,
    longest: Duration,
    pub(crate) waits: bool,
    /// How long a probe can take, before it is taken for lost.
    probe: Duration,
}

impl HostBreaker {
    /// After ten failures, 1 s to 60 s, failing fast; each setter tells its default.
    pub fn new() -> Self {
        Self {
            failures: NonZeroU32::new(DEFAULT_FAILURES),
            cool_down: DEFAULT_COOL_DOWN,
            longest: DEFAULT_LONGEST,
            waits: false,
            probe: Duration::ZERO,
        }
    }

    /// Each request finds out by itself.
    pub fn off() -> Self {
        Self {
            failures: None,
            ..Self::new()
        }
    }

    /// How many failures in a row it takes. The default is 10.
    pub fn failures(mut self, failures: NonZeroU32) -> Self {
        self.failures = Some(failures);
        self
    }

    /// The first cool-down; it doubles with each probe that fails. The default is 1 s.
    pub fn cool_down(mut self, time: Duration) -> Self {
        self.cool_down = time;
        self
    }

    /// The longest cool-down. The default is 60 s.
    pub fn longest_cool_down(mut self, time: Duration) -> Self {
        self.longest = time;
        self
    }

    /// Whether the host's requests wait until it can be reached, instead of failing at once. The
    /// default is `false`.
    ///
    /// They wait for as long as their time limits let them
    /// ([`Builder::timeout`](crate::Builder::timeout)); those that are the probe count an attempt.
    pub fn wait(mut self, yes: bool) -> Self {
        self.waits = yes;
        self
    }
}

impl HostBreaker {
    pub(crate) fn probing_for(self, limit: Duration) -> Self {
        Self {
            probe: limit,
            ..self
        }
    }
}

impl Default for HostBreaker {
    /// As [`new`](Self::new).
    fn default() -> Self {
        Self::new()
    }
}

/// A host's failures in a row.
#[derive(Debug, Default)]
pub(super) struct Circuit {
    failures: u32,
    cool_down: Option<CoolDown>,
}

#[derive(Debug)]
struct CoolDown {
    time: Duration,
    until: Option<Instant>,
    /// Somebody is finding out whether it is over.
    is_probed: bool,
}

impl CoolDown {
    fn new(time: Duration, now: Instant) -> Self {
        Self {
            time,
            // Beyond what the clock can tell is 'for ever'.
            until: now.checked_add(time),
            is_probed: false,
        }
    }
}

impl Circuit {
    /// `None`: go on, as the probe if there is a cool-down.
    pub(super) fn closed_for(&mut self, breaker: &HostBreaker, now: Instant) -> Option<Duration> {
        let cool_down = self.cool_down.as_mut()?;
        match cool_down.until {
            None => return Some(Duration::MAX),
            Some(until) if now < until => return Some(until - now),
            Some(_) => {}
        }
        // The others wait for the probe; and as long again where that is lost.
        let lost = cool_down.time.max(breaker.probe);
        cool_down.until = now.checked_add(lost);
        cool_down.is_probed = true;
        None
    }

    /// Whether a connection was had. Returns whether all is well.
    pub(super) fn note(&mut self, breaker: &HostBreaker, reached: bool, now: Instant) -> bool {
        if reached {
            *self = Self::default();
            return true;
        }
        self.failures = self.failures.saturating_add(1);
        if breaker
            .failures
            .is_some_and(|limit| self.failures >= limit.get())
        {
            match &mut self.cool_down {
                None => self.cool_down = Some(CoolDown::new(breaker.cool_down, now)),
                Some(last) if last.is_probed => {
                    let time = last.time.saturating_mul(2).min(breaker.longest);
                    *last = CoolDown::new(time, now);
                }
                // Of a request that was under way already: it makes it no worse.
                Some(_) => {}
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn breaker() -> HostBreaker {
        HostBreaker::new().failures(NonZeroU32::new(2).unwrap())
    }

    #[test]
    fn it_closes_after_failures_in_a_row_and_a_success_starts_the_count_again() {
        let (mut circuit, breaker, now) = (Circuit::default(), breaker(), Instant::now());
        for reached in [false, true, false] {
            circuit.note(&breaker, reached, now);
            assert_eq!(circuit.closed_for(&breaker, now), None);
        }
        circuit.note(&breaker, false, now);
        assert_eq!(circuit.closed_for(&breaker, now), Some(SECOND));
    }

    #[test]
    fn one_probe_goes_out_when_the_cool_down_is_over_and_each_doubles_it() {
        let breaker = breaker().longest_cool_down(3 * SECOND);
        let (mut circuit, mut now) = (Circuit::default(), Instant::now());
        (0..2).for_each(|_| {
            circuit.note(&breaker, false, now);
        });
        for seconds in [1, 2, 3, 3] {
            let cool_down = seconds * SECOND;
            assert_eq!(circuit.closed_for(&breaker, now), Some(cool_down));
            now += cool_down;
            assert_eq!(circuit.closed_for(&breaker, now), None, "the probe");
            assert_eq!(
                circuit.closed_for(&breaker, now),
                Some(cool_down),
                "who comes after it"
            );
            circuit.note(&breaker, false, now);
            // That of one who was under way.
            circuit.note(&breaker, false, now);
        }
        now += 3 * SECOND;
        assert_eq!(circuit.closed_for(&breaker, now), None);
        assert!(circuit.note(&breaker, true, now));
        assert_eq!(circuit.closed_for(&breaker, now), None);
    }

    #[test]
    fn a_probe_that_is_lost_is_followed_by_another() {
        let (mut circuit, breaker, now) = (Circuit::default(), breaker(), Instant::now());
        (0..2).for_each(|_| {
            circuit.note(&breaker, false, now);
        });
        assert_eq!(circuit.closed_for(&breaker, now + SECOND), None);
        assert_eq!(circuit.closed_for(&breaker, now + SECOND), Some(SECOND));
        assert_eq!(circuit.closed_for(&breaker, now + 2 * SECOND), None);
    }

    #[test]
    fn one_that_is_off_never_closes_and_one_without_end_never_opens() {
        let (mut circuit, now) = (Circuit::default(), Instant::now());
        let off = HostBreaker::off();
        (0..100).for_each(|_| {
            circuit.note(&off, false, now);
        });
        assert_eq!(circuit.closed_for(&off, now), None);
        let breaker = breaker().cool_down(Duration::MAX);
        circuit.note(&breaker, false, now);
        assert_eq!(
            circuit.closed_for(&breaker, now + 1000 * SECOND),
            Some(Duration::MAX)
        );
    }
}
