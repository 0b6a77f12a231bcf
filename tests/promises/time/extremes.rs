//! No time, and all of it.

use fetchpool::{Builder, HostBreaker, Request, RetryPolicy};

use super::*;
use crate::{n, with};

/// Ends at once, which is by far less than a second.
#[track_caller]
fn at_once<T: Debug>(fetch: impl FnOnce() -> Result<T, Error>) {
    let begun = Instant::now();
    told(&fetch().expect_err("there is no time"), begun);
}

#[test]
fn no_time_is_over_at_once() {
    const ZERO: Duration = Duration::ZERO;
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| Reply::status(200).then_wait(&held).then_send("x"));
    let limits: [fn(Builder) -> Builder; 6] = [
        |b| b.resolve_timeout(ZERO),
        |b| b.connect_timeout(ZERO),
        |b| b.idle_timeout(ZERO),
        |b| b.header_timeout(ZERO),
        |b| b.low_speed(1, ZERO),
        |b| b.timeout(Some(ZERO)),
    ];
    let url = origin.url_as("a.test", "/");
    let local = [IpAddr::from([127, 0, 0, 1])];
    for (number, limited) in limits.into_iter().enumerate() {
        let downloader = with(|b| match number {
            0 => limited(b).resolver(Hanging(gate.clone())),
            _ => limited(b).resolve("a.test", local),
        });
        at_once(|| downloader.fetch(&url));
    }
    let downloader = with(|b| b.resolve("a.test", local));
    at_once(|| downloader.fetch(Request::new(&url).timeout(ZERO)));
    // Nothing is read, and so nothing comes out.
    assert!(downloader.fetch_all([&url]).timeout(ZERO).next().is_none());
    let (jobs, outcomes) = downloader.open();
    let mut outcomes = outcomes.timeout(ZERO);
    jobs.push(&url);
    at_once(|| outcomes.next().unwrap());
    gate.open();
}

#[test]
fn with_no_time_to_wait_in_the_queue_only_those_run_that_need_not_wait() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let downloader = with(|b| b.per_host(n(1)).queue_timeout(Some(Duration::ZERO)));
    downloader.fetch(origin.url("/")).unwrap();
    let _hold = downloader.permit(origin.url("/")).unwrap();
    at_once(|| downloader.fetch(origin.url("/")));
}

#[test]
fn all_the_time_there_is_is_as_good_as_no_limit() {
    // The second is not beyond what the clock can tell.
    for long in [Duration::MAX, Duration::from_secs(1 << 40)] {
        let retry = RetryPolicy::new().longest_retry_after(long);
        let breaker = HostBreaker::new().cool_down(long).longest_cool_down(long);
        let gate = Gate::new();
        gate.open();
        let downloader = with(|b| {
            b.resolver(Hanging(gate))
                .dns_ttl(long)
                .resolve_timeout(long)
                .connect_timeout(long)
                .idle_timeout(long)
                .header_timeout(long)
                .low_speed(1, long)
                .timeout(Some(long))
                .queue_timeout(Some(long))
                .timeout_grace(long)
                .retry(retry.total_pause(long).base(Duration::ZERO).cap(long))
                .host_breaker(breaker)
        });
        let origin = Origin::start(|incoming| match incoming.visit() {
            1 => Reply::status(503),
            _ => Reply::ok("x"),
        });
        let url = origin.url_as("a.test", "/");
        let request = Request::new(&url).timeout(long);
        let mut batch = downloader.fetch_all([request]).timeout(long);
        assert_eq!(batch.next().unwrap().unwrap().report().attempts(), 2);
        downloader.fetch(&url).unwrap();
        let (jobs, outcomes) = downloader.open();
        let mut outcomes = outcomes.timeout(long);
        jobs.push(&url);
        outcomes.next().unwrap().unwrap();
        // A grace time that long never ends, for that host; and nothing overflows.
        let silent = slow_origin();
        late(|| downloader.fetch(Request::new(silent.url("/silent")).timeout(LIMIT)));
        downloader.fetch(&url).unwrap();
    }
}

#[test]
fn a_lowest_speed_of_nothing_is_none() {
    let origin = Origin::start(|_| {
        Reply::status(200)
            .then_send("x")
            .then_pause(LIMIT)
            .then_send("x")
    });
    let downloader = with(|b| b.low_speed(0, DRIP));
    downloader.fetch(origin.url("/")).unwrap();
}
