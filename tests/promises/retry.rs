//! What fails and may pass is tried again, no more often than it is said, and in nobody's way.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fetchpool::{Builder, Downloader, ErrorKind, Request, RetryPolicy};

use crate::support::{Gate, Incoming, Origin, Reply};
use crate::{n, with};

const MOMENT: Duration = Duration::from_millis(5);
const HOUR: Duration = Duration::from_secs(3600);

/// Retries after a moment.
fn soon() -> RetryPolicy {
    RetryPolicy::new().base(MOMENT)
}

fn retrying(settings: impl FnOnce(Builder) -> Builder) -> Downloader {
    with(|builder| settings(builder.retry(soon())))
}

#[test]
fn the_statuses_that_speak_of_the_moment_are_asked_again_and_no_others() {
    let origin = Origin::start(|incoming| match incoming.visit() {
        1 => Reply::status(incoming.target()[1..].parse().unwrap()),
        _ => Reply::ok("well"),
    });
    let downloader = retrying(|b| b);
    for status in [400, 401, 403, 404, 410, 501, 505, 599] {
        let error = downloader
            .fetch(origin.url(&format!("/{status}")))
            .unwrap_err();
        assert_eq!(error.status().unwrap().as_u16(), status);
        assert_eq!(error.report().unwrap().attempts(), 1);
    }
    for status in [408, 425, 429, 500, 502, 503, 504] {
        let page = downloader.fetch(origin.url(&format!("/{status}"))).unwrap();
        assert_eq!(page.body(), b"well");
        assert_eq!(page.report().attempts(), 2);
    }
}

#[test]
fn a_request_is_sent_once_more_than_there_are_retries() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/stalled" => Reply::nothing().then_stall(),
        "/reset" => Reply::nothing().then_reset(),
        "/cut" => Reply::ok("half of it").declared_length(20).then_close(),
        _ => Reply::status(503),
    });
    let downloader = retrying(|b| {
        b.idle_timeout(Duration::from_millis(50))
            .timeout_grace(Duration::ZERO)
    });
    let mut asked = 0;
    for (target, kind) in [
        ("/stalled", ErrorKind::Timeout),
        ("/reset", ErrorKind::Truncated),
        ("/cut", ErrorKind::Truncated),
        ("/busy", ErrorKind::Status),
    ] {
        let error = downloader.fetch(origin.url(target)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(error.report().unwrap().attempts(), 4);
        assert!(error.to_string().contains("after 4 attempts"), "{error}");
        asked += 4;
        // What was given up may have been read only now.
        let sent = origin.wait_until(|stats| stats.requests.total >= asked);
        assert_eq!(sent.requests.total, asked, "{target}");
    }
}

#[test]
fn a_reused_connection_that_is_gone_costs_no_attempt_and_a_new_one_does() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/" => Reply::ok("x"),
        _ => Reply::nothing().then_close(),
    });
    let downloader = with(|b| b);
    downloader.fetch(origin.url("/")).unwrap();
    let error = downloader.fetch(origin.url("/gone")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Truncated);
    assert_eq!(error.report().unwrap().attempts(), 1);
    // On the old connection and on a new one.
    assert_eq!(origin.targets(), ["/", "/gone", "/gone"]);
}

#[test]
fn who_waits_for_his_retry_holds_neither_worker_nor_token() {
    let other_done = Gate::new();
    let gate = other_done.clone();
    let origin = Origin::start(
        move |incoming| match (incoming.target(), incoming.visit()) {
            ("/a", 1) => Reply::status(503),
            // Comes after the other, or the test hangs.
            ("/a", _) => Reply::ok("a").after(&gate),
            _ => Reply::ok("b"),
        },
    );
    let downloader = retrying(|b| b.workers(1).per_host(n(1)));
    let mut pages = downloader.fetch_all([origin.url("/a"), origin.url("/b")]);
    assert_eq!(pages.next().unwrap().unwrap().body(), b"b");
    other_done.open();
    let page = pages.next().unwrap().unwrap();
    assert_eq!((page.body(), page.report().attempts()), (&b"a"[..], 2));
    assert!(pages.next().is_none());
}

#[test]
fn a_batch_that_is_cancelled_does_not_wait_for_its_retries() {
    let origin = Origin::start(|_| Reply::status(503));
    let downloader = with(|b| b.retry(RetryPolicy::new().base(HOUR).cap(HOUR).total_pause(HOUR)));
    let urls: Vec<_> = (0..10).map(|i| origin.url(&format!("/{i}"))).collect();
    let mut pages = downloader.fetch_all(urls);
    let canceller = pages.canceller();
    let cancelling = std::thread::spawn(move || {
        origin.wait_until(|stats| stats.requests.total == 10 && stats.requests.now == 0);
        canceller.cancel();
        origin
    });
    let mut outcomes = 0;
    for page in pages.by_ref() {
        let error = page.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert_eq!(error.report().unwrap().attempts(), 1);
        outcomes += 1;
    }
    assert_eq!(outcomes, 10);
    assert_eq!(cancelling.join().unwrap().stats().requests.total, 10);
}

#[test]
fn an_attempt_is_the_whole_chain_of_redirects() {
    let origin = Origin::start(|incoming| match (incoming.target(), incoming.visit()) {
        ("/start", _) => Reply::redirect(302, "/end"),
        (_, 1) => Reply::status(502),
        _ => Reply::ok("x"),
    });
    let page = retrying(|b| b).fetch(origin.url("/start")).unwrap();
    assert_eq!(origin.targets(), ["/start", "/end", "/start", "/end"]);
    assert_eq!(page.report().attempts(), 2);
    assert_eq!(page.report().redirects().len(), 1);
}

#[test]
fn every_job_of_a_failing_host_has_its_outcome() {
    let origin = Origin::start(|incoming| match incoming.target().len() % 3 {
        0 => Reply::status(500),
        1 => Reply::nothing().then_reset(),
        _ => Reply::ok("half").declared_length(9).then_close(),
    });
    let downloader = with(|b| b.retry(soon().retries(1)));
    let urls: Vec<_> = (0..200).map(|i| origin.url(&format!("/{i}"))).collect();
    let mut indices: Vec<_> = downloader
        .fetch_all(&urls)
        .map(|page| page.unwrap_err().report().unwrap().index())
        .collect();
    indices.sort_unstable();
    assert!(indices.into_iter().eq(0..200));
}

#[test]
fn retry_after_keeps_the_whole_host_waiting_and_no_other() {
    let second = Duration::from_secs(1);
    let date = |seconds: u8| format!("Mon, 30 Nov 2026 12:00:{seconds:02} GMT");
    let is_first = AtomicBool::new(true);
    let busy = move |_: &Incoming| match is_first.swap(false, Ordering::SeqCst) {
        // A clock that is wrong by days; it says how long by itself.
        true => Reply::status(503)
            .header("Date", date(10))
            .header("Retry-After", date(11)),
        false => Reply::ok("x"),
    };
    let busy = Origin::start(busy);
    let idle = Origin::start(|_| Reply::ok("y"));
    let downloader = retrying(|b| b.per_host(n(1)));
    let asked = (0..4).map(|i| busy.url(&format!("/{i}")));
    let others = (0..4).map(|i| idle.url(&format!("/{i}")));
    assert_eq!(
        downloader.fetch_all(asked.chain(others)).flatten().count(),
        8
    );
    let log = busy.log();
    assert_eq!(log.len(), 5);
    // From the answer on; it came after the request.
    assert!(log[1].at() - log[0].at() >= second);
    assert_eq!(log[1].target(), "/0", "who has begun goes first");
    let last_of_others = idle.log().last().unwrap().at();
    assert!(last_of_others < log[1].at(), "nobody else waits");
}

#[test]
fn a_retry_after_that_is_too_long_fails_at_once_and_says_how_long() {
    let origin = Origin::start(|incoming| {
        let value = &incoming.target()[1..];
        Reply::status(429).header("Retry-After", value.replace('_', " "))
    });
    let downloader = retrying(|b| b);
    for value in ["61", "10800", "9999999999", "99999999999999999999999999"] {
        let error = downloader
            .fetch(origin.url(&format!("/{value}")))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Status);
        assert!(error.retry_after().unwrap() > Duration::from_secs(60));
        assert_eq!(error.report().unwrap().attempts(), 1, "{value}");
        assert!(
            error.to_string().contains("longer than is waited for"),
            "{error}"
        );
    }
    // The host is not closed for that: what cannot be understood is as if nothing were said.
    for value in ["soon", "-1", "1e9", "Mon,_99_Nov_2026_12:00:00_GMT", "0"] {
        let error = downloader
            .fetch(origin.url(&format!("/{value}")))
            .unwrap_err();
        assert_eq!(error.report().unwrap().attempts(), 4, "{value}");
    }
}

#[test]
fn the_pauses_of_a_job_are_bounded_in_sum() {
    let origin = Origin::start(|_| Reply::status(500));
    let policy = RetryPolicy::new().base(HOUR).cap(HOUR);
    let error = with(|b| b.retry(policy))
        .fetch(origin.url("/"))
        .unwrap_err();
    assert_eq!(error.report().unwrap().attempts(), 1);
}

#[test]
fn the_callers_function_overrules() {
    let origin = Origin::start(|incoming| match (incoming.target(), incoming.visit()) {
        ("/404", 1) | ("/500", 1) => Reply::status(incoming.target()[1..].parse().unwrap()),
        _ => Reply::ok("x"),
    });
    let asked = std::sync::Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let policy = soon().decide(move |failure| {
        count.fetch_add(1, Ordering::SeqCst);
        assert_eq!(failure.attempts(), 1);
        assert_eq!(failure.kind(), ErrorKind::Status);
        Some(failure.status()? == 404 && failure.url().path() == "/404")
    });
    let downloader = with(|b| b.retry(policy));
    assert!(downloader.fetch(origin.url("/404")).is_ok());
    assert!(downloader.fetch(origin.url("/500")).is_err());
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[test]
fn a_panic_of_the_callers_function_is_that_jobs_outcome() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/bad" => Reply::status(500),
        _ => Reply::ok("x"),
    });
    let downloader = with(|b| {
        b.workers(1)
            .retry(soon().decide(|_| panic!("cannot decide")))
    });
    let error = downloader.fetch(origin.url("/bad")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Panicked);
    assert!(downloader.fetch(origin.url("/")).is_ok());
}

#[test]
fn a_closure_that_is_called_anew_is_told_that_it_has_seen_a_part() {
    let origin = Origin::start(|incoming| match incoming.visit() {
        1 => Reply::status(503),
        2 => Reply::ok("half of").declared_length(20).then_close(),
        _ => Reply::ok("all of it"),
    });
    let calls = std::sync::Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let downloader = retrying(|b| b);
    let mut bodies = downloader.fetch_with([Request::new(origin.url("/"))], move |mut body| {
        let call = count.fetch_add(1, Ordering::SeqCst) + 1;
        assert_eq!(body.report().attempts() as usize, call + 1);
        assert_eq!(body.is_restart(), call == 2);
        let mut text = String::new();
        std::io::Read::read_to_string(&mut body, &mut text)?;
        Ok(text)
    });
    assert_eq!(bodies.next().unwrap().unwrap(), "all of it");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[test]
fn what_is_no_response_is_asked_for_again_only_on_a_connection_that_was_used_before() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/" => Reply::ok("x"),
        // As if more of the response before came late.
        "/late" if incoming.number() == 2 => Reply::raw("the tail of another body"),
        "/late" => Reply::ok("y"),
        _ => Reply::raw("no HTTP\r\n\r\n"),
    });
    let downloader = retrying(|b| b.per_host(n(1)));
    downloader.fetch(origin.url("/")).unwrap();
    let page = downloader.fetch(origin.url("/late")).unwrap();
    assert_eq!((page.body(), page.report().attempts()), (&b"y"[..], 2));
    let error = retrying(|b| b).fetch(origin.url("/never")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert_eq!(error.report().unwrap().attempts(), 1);
}

#[cfg(unix)]
#[test]
fn an_error_of_the_closures_own_is_its_outcome_whatever_it_is() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let out_of_handles = rustix::io::Errno::MFILE.raw_os_error();
    let mut bodies = retrying(|b| b).fetch_with([origin.url("/")], move |_| {
        Err::<(), _>(std::io::Error::from_raw_os_error(out_of_handles))
    });
    let error = bodies.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(origin.stats().requests.total, 1);
}
