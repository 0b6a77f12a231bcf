use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;
use crate::fault::Fault;

const HALF: Duration = Duration::from_millis(500);
const SECOND: Duration = Duration::from_secs(1);

/// An attempt that failed, and what is changed about it.
struct Case {
    kind: ErrorKind,
    status: Option<u16>,
    attempts: u32,
    paused: Duration,
    retry_after: Option<Duration>,
}

impl Case {
    fn of(kind: ErrorKind) -> Self {
        Self {
            kind,
            status: None,
            attempts: 1,
            paused: Duration::ZERO,
            retry_after: None,
        }
    }

    fn status(status: u16) -> Self {
        Self {
            status: Some(status),
            ..Self::of(ErrorKind::Status)
        }
    }

    fn attempts(self, attempts: u32) -> Self {
        Self { attempts, ..self }
    }

    fn paused(self, paused: Duration) -> Self {
        Self { paused, ..self }
    }

    fn after(self, seconds: u64) -> Self {
        Self {
            retry_after: Some(Duration::from_secs(seconds)),
            ..self
        }
    }

    fn under(self, policy: RetryPolicy) -> Verdict {
        Retries::new(policy.seed(1)).judge(&Attempt {
            failure: Failure {
                kind: self.kind,
                status: self.status.map(|code| StatusCode::from_u16(code).unwrap()),
                attempts: self.attempts,
                is_transient: match self.status {
                    Some(code) => is_transient(StatusCode::from_u16(code).unwrap()),
                    None => Fault::new(self.kind, "").is_transient,
                },
                url: &Url::parse("http://u:secret@h/").unwrap(),
            },
            index: 0,
            paused: self.paused,
            retry_after: self.retry_after,
        })
    }
}

fn is_retried(case: Case, policy: RetryPolicy) -> bool {
    matches!(case.under(policy).job, Next::Again(_))
}

#[test]
fn what_may_pass_is_tried_again_and_nothing_else() {
    let retried: Vec<_> = (100..=999)
        .filter(|&status| is_retried(Case::status(status), RetryPolicy::new()))
        .collect();
    assert_eq!(retried, [408, 425, 429, 500, 502, 503, 504]);
    for (kind, is) in [
        (ErrorKind::Dns, false),
        (ErrorKind::Connect, true),
        (ErrorKind::Timeout, true),
        (ErrorKind::Truncated, true),
        (ErrorKind::InvalidUrl, false),
        (ErrorKind::Proxy, false),
        (ErrorKind::Tls, false),
        (ErrorKind::Redirect, false),
        (ErrorKind::Protocol, false),
        (ErrorKind::TooLarge, false),
        (ErrorKind::Digest, false),
        (ErrorKind::Io, false),
        (ErrorKind::Cancelled, false),
        (ErrorKind::Panicked, false),
    ] {
        assert_eq!(is_retried(Case::of(kind), RetryPolicy::new()), is, "{kind}");
    }
}

#[test]
fn three_retries_are_four_attempts() {
    for (attempts, is) in [(1, true), (3, true), (4, false), (u32::MAX, false)] {
        let case = Case::status(503).attempts(attempts);
        assert_eq!(is_retried(case, RetryPolicy::new()), is, "{attempts}");
    }
    assert!(!is_retried(Case::status(503), RetryPolicy::none()));
}

#[test]
fn a_job_pauses_no_longer_in_sum_than_it_may() {
    let policy = || RetryPolicy::new().total_pause(Duration::from_secs(10));
    let paused = |millis| Case::status(503).paused(Duration::from_millis(millis));
    assert!(is_retried(paused(9_500), policy()));
    assert!(!is_retried(paused(9_900), policy()));
    assert!(is_retried(paused(4_000).after(6), policy()));
    assert!(!is_retried(paused(4_001).after(6), policy()));
    assert!(!is_retried(
        Case::status(503).paused(Duration::MAX),
        policy()
    ));
}

#[test]
fn what_the_server_asks_for_is_the_hosts_pause_and_at_least_the_jobs() {
    let is = |case: Case, job, host| {
        let verdict = case.under(RetryPolicy::new());
        assert_eq!(verdict, Verdict { job, host });
    };
    let minute = Duration::from_secs(60);
    is(
        Case::status(429).after(60),
        Next::Again(minute),
        Some(minute),
    );
    is(
        Case::status(503).after(1),
        Next::Again(SECOND),
        Some(SECOND),
    );
    // The host's also where the job has had its attempts.
    is(
        Case::status(503).attempts(4).after(1),
        Next::Fail,
        Some(SECOND),
    );
    // Not where the failure is of another sort.
    is(Case::status(404).after(1), Next::Fail, None);
}

#[test]
fn a_responses_header_says_how_long() {
    let mut headers = http::HeaderMap::new();
    assert_eq!(retry_after(&headers), None);
    headers.insert(http::header::RETRY_AFTER, 120.into());
    assert_eq!(retry_after(&headers), Some(Duration::from_secs(120)));
}

#[test]
fn a_server_that_asks_for_no_pause_gets_one_all_the_same() {
    let verdict = Case::status(503).after(0).under(RetryPolicy::new());
    assert_eq!(verdict.host, None);
    assert!(matches!(verdict.job, Next::Again(pause) if pause >= HALF / 2));
}

#[test]
fn too_long_a_pause_fails_the_job_at_once_and_closes_nothing() {
    let hours = Duration::from_secs(3 * 3600);
    let verdict = Case::status(503).after(3 * 3600).under(RetryPolicy::new());
    let is = Verdict {
        job: Next::TooLong(hours),
        host: None,
    };
    assert_eq!(verdict, is);
    let patient = RetryPolicy::new()
        .longest_retry_after(hours)
        .total_pause(hours);
    let verdict = Case::status(503).after(3 * 3600).under(patient);
    let is = Verdict {
        job: Next::Again(hours),
        host: Some(hours),
    };
    assert_eq!(verdict, is);
}

#[test]
fn the_callers_function_overrules_the_table_and_not_the_count() {
    let no = || RetryPolicy::new().decide(|_| Some(false));
    let yes = || RetryPolicy::new().decide(|_| Some(true));
    let as_is = || RetryPolicy::new().decide(|_| None);
    assert!(!is_retried(Case::status(503), no()));
    assert!(is_retried(Case::status(404), yes()));
    assert!(is_retried(Case::of(ErrorKind::Tls), yes()));
    assert!(is_retried(Case::status(503), as_is()));
    assert!(!is_retried(Case::status(404), as_is()));
    assert!(!is_retried(Case::status(404).attempts(4), yes()));
    assert!(!is_retried(Case::of(ErrorKind::Cancelled), yes()));
    // The server's wish is not the caller's to grant for the others.
    let verdict = Case::status(503).after(1).under(no());
    assert_eq!(verdict.host, Some(SECOND));
    let verdict = Case::status(403).after(1).under(yes());
    assert_eq!(verdict.host, Some(SECOND));
}

#[test]
fn the_callers_function_is_asked_only_where_there_is_something_to_decide() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let policy = || {
        RetryPolicy::new().decide(|failure| {
            ASKED.fetch_add(1, Ordering::Relaxed);
            assert_eq!(failure.status(), StatusCode::from_u16(503).ok());
            assert_eq!(failure.kind(), ErrorKind::Status);
            assert_eq!(failure.attempts(), 3);
            assert_eq!(failure.url().host_str(), Some("h"));
            None
        })
    };
    Case::status(503).attempts(4).under(policy());
    Case::of(ErrorKind::Cancelled).under(policy());
    assert_eq!(ASKED.load(Ordering::Relaxed), 0);
    Case::status(503).attempts(3).under(policy());
    assert_eq!(ASKED.load(Ordering::Relaxed), 1);
}

#[test]
fn a_policy_of_two_downloaders_has_two_seeds() {
    let policy = RetryPolicy::new();
    let seed = |policy: &RetryPolicy| Retries::new(policy.clone()).seed;
    assert_ne!(seed(&policy), seed(&policy));
    let policy = policy.seed(5);
    assert_eq!(seed(&policy), seed(&policy));
}

#[test]
fn what_is_printed_has_no_secrets() {
    let url = Url::parse("http://u:secret@h/?sig=secret&mine=secret#secret").unwrap();
    let failure = Failure {
        is_transient: false,
        kind: ErrorKind::Connect,
        status: None,
        attempts: 1,
        url: &url,
    };
    assert!(!format!("{failure:?}").contains("secret"));
    let policy = format!("{:?}", RetryPolicy::new().decide(|_| None));
    assert!(policy.contains("retries: 3"), "{policy}");
}

proptest! {
    #[test]
    fn no_policy_and_no_failure_overflow_or_go_on_for_ever(
        retries in any::<u32>(),
        attempts in 1_u32..,
        status in prop_oneof![Just(503_u16), Just(404)],
        millis in any::<[u64; 5]>(),
        asked in any::<Option<u64>>(),
        decided in any::<Option<bool>>(),
    ) {
        let [base, cap, total, longest, paused] = millis.map(Duration::from_millis);
        let policy = RetryPolicy::new()
            .retries(retries)
            .base(base)
            .cap(cap)
            .total_pause(total)
            .longest_retry_after(longest)
            .decide(move |_| decided);
        let case = Case::status(status).attempts(attempts).paused(paused);
        let asked = asked.map(Duration::from_secs);
        let Verdict { job, host } = Case { retry_after: asked, ..case }.under(policy);
        prop_assert!(host.is_none_or(|host| Some(host) == asked && host <= longest));
        match job {
            Next::Fail => {}
            Next::TooLong(pause) => {
                prop_assert!(Some(pause) == asked && pause > longest && host.is_none());
            }
            Next::Again(pause) => {
                prop_assert!(attempts <= retries);
                prop_assert!(paused + pause <= total);
                prop_assert!(pause <= cap.max(asked.unwrap_or_default()));
                prop_assert!(host.is_none_or(|host| pause >= host));
                prop_assert_ne!(decided, Some(false));
            }
        }
    }
}
