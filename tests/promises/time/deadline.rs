//! The deadline of a job, which spans everything, and the wait for its first turn.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fetchpool::{Request, RetryPolicy};

use super::*;
use crate::{n, once, with};

fn limited(url: impl AsRef<str>) -> Request {
    Request::new(url).timeout(LIMIT)
}

/// What a job or a batch says, peer by peer.
pub(super) struct Peers {
    gate: Gate,
    mute: Dead,
    #[cfg(target_os = "linux")]
    unreachable: Dead,
    dripping: Dripping,
    origin: Origin,
}

impl Peers {
    pub(super) fn new() -> Self {
        Self {
            gate: Gate::new(),
            mute: Dead::mute(),
            #[cfg(target_os = "linux")]
            unreachable: Dead::unreachable(),
            dripping: Dripping::start(1),
            origin: slow_origin(),
        }
    }

    pub(super) fn resolver(&self) -> Hanging {
        Hanging(self.gate.clone())
    }

    pub(super) fn urls(&self) -> Vec<(String, &'static str)> {
        const RESPONSE: &str = "while the response was awaited";
        const BODY: &str = "while the body was read";
        const CONNECTION: &str = "before there was a connection";
        let origin = |target, doing| (self.origin.url(target), doing);
        vec![
            (
                "http://a.test/".to_owned(),
                "while the host's name was looked up",
            ),
            #[cfg(target_os = "linux")]
            (self.unreachable.url("/"), CONNECTION),
            #[cfg(target_os = "linux")]
            (over_tls(&self.unreachable), CONNECTION),
            (over_tls(&self.mute), CONNECTION),
            (self.dripping.url(), CONNECTION),
            (self.mute.url("/"), RESPONSE),
            origin("/silent", RESPONSE),
            origin("/header", RESPONSE),
            origin("/interim", RESPONSE),
            origin("/drip", BODY),
            origin("/stall", BODY),
        ]
    }

    pub(super) fn join(self) {
        self.gate.open();
        self.dripping.join();
    }
}

#[test]
fn a_jobs_deadline_ends_it_whatever_the_peer_does() {
    let peers = Peers::new();
    let downloader = with(|b| b.resolver(peers.resolver()).timeout(Some(LIMIT)));
    let urls = peers.urls();
    let begun = Instant::now();
    let pages = downloader
        .fetch_all(urls.iter().map(|(url, _)| url.as_str()))
        .in_order();
    for (page, (url, doing)) in pages.zip(&urls) {
        println!("{url}");
        says(
            &told(&page.unwrap_err(), begun),
            &["whole job", "200ms", doing],
        );
    }
    peers.join();
}

#[test]
fn it_ends_in_the_queue_of_a_full_host_and_of_busy_workers() {
    let gate = Gate::new();
    let held = gate.clone();
    let origins = Origin::many(2, move |_| Reply::ok("x").after(&held));
    let downloader = with(|b| b.workers(1).per_host(n(1)));
    let (jobs, mut outcomes) = downloader.open();
    jobs.push(origins[0].url("/first"));
    gate.wait_for_waiters(1);
    for origin in &origins {
        let text = late(|| downloader.fetch(limited(origin.url("/waits"))));
        says(&text, &["200ms", "before its turn came"]);
    }
    gate.open();
    outcomes.next().unwrap().unwrap();
    assert_eq!(origins[0].targets(), ["/first"]);
    assert_eq!(origins[1].stats().requests.total, 0);
}

#[test]
fn it_spans_redirects() {
    let origin = Origin::start(|incoming| {
        let next = format!("{}x", incoming.target());
        Reply::redirect(302, next).after_pause(LIMIT / 4)
    });
    let text = late(|| once().fetch(limited(origin.url("/"))));
    // A limit for each hop would never be reached, and the chain would be too long in the end.
    says(&text, &["whole job", "200ms"]);
}

#[test]
fn it_spans_retries_and_their_pauses() {
    let origin = Origin::start(|_| Reply::status(503));
    let pausing = |pause: Duration| {
        let retry = RetryPolicy::new().retries(10_000).base(pause).cap(pause);
        with(|b| b.retry(retry.total_pause(Duration::MAX)))
    };
    // It is over in a pause or in an attempt.
    let begun = Instant::now();
    let request = limited(origin.url("/often"));
    let error = pausing(DRIP).fetch(request).unwrap_err();
    assert!(begun.elapsed() < LIMIT + ROOM, "{error}");
    assert!(origin.stats().requests.total < 10_000);
    // Before its time, as there is none for another attempt.
    let request = limited(origin.url("/once"));
    let error = pausing(10 * ROOM).fetch(request).unwrap_err();
    assert!(begun.elapsed() < 2 * ROOM, "{error}");
    assert_eq!(error.status().map(|status| status.as_u16()), Some(503));
    says(&error.to_string(), &["no time for another attempt"]);
    assert_eq!(error.report().unwrap().attempts(), 1);
}

#[test]
fn a_closure_that_reads_slowly_is_not_interrupted_but_its_reads_fail() {
    // All of the one is in memory at its first read; the other never is.
    for length in [20_000, 50 << 20] {
        let origin = Origin::start(move |_| Reply::status(200).then_repeat("x", length));
        let after = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&after);
        let downloader = once();
        let mut batch = downloader.fetch_with(
            [limited(origin.url("/"))],
            move |mut body| -> std::io::Result<()> {
                loop {
                    match body.read_exact(&mut [0; 8]) {
                        Ok(()) => std::thread::sleep(DRIP),
                        Err(error) => {
                            counted.fetch_add(1, Ordering::SeqCst);
                            return Err(error);
                        }
                    }
                }
            },
        );
        let text = late(|| batch.next().unwrap());
        says(&text, &["whole job", "200ms", "while the body was read"]);
        assert_eq!(after.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn a_closure_that_is_done_after_the_deadline_has_its_outcome() {
    let origin = slow_origin();
    let downloader = once();
    let mut batch = downloader.fetch_with([limited(origin.url("/drip"))], |mut body| {
        let error = std::io::copy(&mut body, &mut std::io::sink()).unwrap_err();
        Ok(error.kind())
    });
    assert_eq!(batch.next().unwrap().unwrap(), std::io::ErrorKind::TimedOut);
}

#[test]
fn it_spans_the_writing_of_files_and_none_is_left() {
    let directory = std::env::temp_dir().join(format!("fetchpool-time-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let origin = slow_origin();
    let downloader = once();
    let mut batch = downloader.save_all([limited(origin.url("/drip"))], &directory);
    says(&late(|| batch.next().unwrap()), &["whole job", "200ms"]);
    assert!(!directory.join("drip").exists());
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_requests_own_limit_goes_before_the_downloaders() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/" => Reply::ok("x").after_pause(LIMIT),
        _ => Reply::nothing().then_stall(),
    });
    let short = with(|b| b.timeout(Some(DRIP)));
    let long = Request::new(origin.url("/")).timeout(Duration::from_secs(60));
    short.fetch(long).unwrap();
    let long = with(|b| b.timeout(Some(Duration::from_secs(60))));
    late(|| long.fetch(limited(origin.url("/silent"))));
}

#[test]
fn the_queue_limit_ends_those_that_wait_for_their_first_turn() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| Reply::ok("x").after(&held));
    let downloader = with(|b| b.per_host(n(1)).queue_timeout(Some(LIMIT)));
    let (jobs, mut outcomes) = downloader.open();
    jobs.push(origin.url("/first"));
    gate.wait_for_waiters(1);
    let text = late(|| downloader.fetch(origin.url("/waits")));
    says(&text, &["its turn did not come within 200ms"]);
    gate.open();
    outcomes.next().unwrap().unwrap();
    assert_eq!(origin.targets(), ["/first"]);
}

#[test]
fn the_queue_limit_does_not_end_those_between_hops() {
    let target = Origin::start(|_| Reply::ok("x"));
    let to = target.url("/");
    let origin = Origin::start(move |_| Reply::redirect(302, &to));
    let downloader = with(|b| b.per_host(n(1)).queue_timeout(Some(LIMIT)));
    let permit = downloader.permit(target.url("/")).unwrap();
    let (jobs, mut outcomes) = downloader.open();
    jobs.push(origin.url("/"));
    origin.wait_until(|stats| stats.requests.total == 1 && stats.requests.now == 0);
    // The event by which its time is over: that of two others is, one after the other.
    for _ in 0..2 {
        late(|| downloader.fetch(target.url("/")));
    }
    drop(permit);
    outcomes.next().unwrap().unwrap();
}

#[test]
fn nor_those_between_attempts() {
    let origin = Origin::start(|incoming| match incoming.visit() {
        1 => Reply::status(503),
        _ => Reply::ok("x"),
    });
    let pause = LIMIT * 2;
    let retry = RetryPolicy::new().base(pause).cap(pause);
    let downloader = with(|b| b.retry(retry).queue_timeout(Some(LIMIT / 2)));
    assert_eq!(
        downloader
            .fetch(origin.url("/"))
            .unwrap()
            .report()
            .attempts(),
        2
    );
}
