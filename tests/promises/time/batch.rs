//! The deadline of a batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fetchpool::RetryPolicy;

use super::deadline::Peers;
use super::*;
use crate::{n, once, with};

#[test]
fn it_ends_what_runs_whatever_the_peer_does() {
    let peers = Peers::new();
    let downloader = with(|b| b.resolver(peers.resolver()));
    let urls = peers.urls();
    let begun = Instant::now();
    let pages = downloader
        .fetch_all(urls.iter().map(|(url, _)| url.as_str()))
        .in_order()
        .timeout(LIMIT);
    for (page, (url, doing)) in pages.zip(&urls) {
        println!("{url}");
        let text = told(&page.unwrap_err(), begun);
        says(&text, &["whole batch", "200ms", doing]);
    }
    peers.join();
}

#[test]
fn it_ends_what_runs_sleeps_or_waits_though_it_was_there_before_the_limit() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/sleeps" => Reply::status(503),
        _ => Reply::nothing().then_stall(),
    });
    let pause = Duration::from_secs(60);
    let retry = RetryPolicy::new()
        .base(pause)
        .cap(pause)
        .total_pause(10 * pause);
    let downloader = with(|b| b.per_host(n(1)).retry(retry));
    let (jobs, outcomes) = downloader.open();
    for target in ["/sleeps", "/runs", "/waits"] {
        jobs.push(origin.url(target));
    }
    // The second runs: so the first has given its token back, and sleeps.
    origin.wait_until(|stats| stats.requests.total == 2);
    let begun = Instant::now();
    let mut outcomes = outcomes.timeout(LIMIT);
    for _ in 0..3 {
        let text = told(&outcomes.next().unwrap().unwrap_err(), begun);
        says(&text, &["whole batch", "200ms"]);
    }
    // What is pushed later as well.
    jobs.push(origin.url("/late"));
    drop(jobs);
    says(
        &told(&outcomes.next().unwrap().unwrap_err(), begun),
        &["whole batch"],
    );
    assert!(outcomes.next().is_none());
    assert_eq!(origin.targets(), ["/sleeps", "/runs"]);
}

#[test]
fn what_was_read_of_the_input_comes_out_and_no_more_is_read() {
    let origin = slow_origin();
    let read = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&read);
    let url = origin.url("/silent");
    let endless = std::iter::repeat_with(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        url.clone()
    });
    let downloader = with(|b| b.workers(4).window(n(8)).window_when_idle(n(16)));
    let begun = Instant::now();
    let mut out = 0;
    for page in downloader.fetch_all(endless).timeout(LIMIT) {
        told(&page.unwrap_err(), begun);
        out += 1;
    }
    assert!(out > 0);
    assert_eq!(out, read.load(Ordering::SeqCst));
}

#[test]
fn another_batch_goes_on() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |incoming| match incoming.target() {
        "/silent" => Reply::nothing().then_stall(),
        _ => Reply::ok("x").after(&held),
    });
    let downloader = once();
    let (jobs, mut outcomes) = downloader.open();
    jobs.push(origin.url("/other"));
    gate.wait_for_waiters(1);
    let mut batch = downloader.fetch_all([origin.url("/silent")]).timeout(LIMIT);
    says(&late(|| batch.next().unwrap()), &["whole batch"]);
    assert!(batch.next().is_none());
    gate.open();
    outcomes.next().unwrap().unwrap();
}

#[test]
fn the_first_limit_of_a_batch_is_the_one_that_holds() {
    let origin = slow_origin();
    let downloader = once();
    let mut batch = downloader
        .fetch_all([origin.url("/silent")])
        .timeout(LIMIT)
        .timeout(Duration::ZERO);
    says(&late(|| batch.next().unwrap()), &["whole batch", "200ms"]);
}
