//! Whatever goes on can be ended, and leaves nothing behind.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fetchpool::{Body, ErrorKind};

use crate::support::{self, Dead, Gate, Origin, Reply};
use crate::{n, once, with};

/// Holds the first bytes of every body back until it is asked no more.
fn stalling() -> Origin {
    Origin::start(|_| {
        Reply::status(200)
            .declared_length(100)
            .then_send("some")
            .then_stall()
    })
}

#[test]
fn dropping_a_batch_half_way_frees_everything() {
    let (gate, first_gate) = (Gate::new(), Gate::new());
    let (held, first_held) = (gate.clone(), first_gate.clone());
    let origin = Origin::start(move |incoming| match incoming.target() {
        "/0" => Reply::ok("first").after(&first_held),
        _ => Reply::ok("x").after(&held),
    });
    let downloader = once();
    let urls: Vec<_> = (0..100).map(|i| origin.url(&format!("/{i}"))).collect();
    let mut batch = downloader.fetch_all(urls.clone());
    let reading = std::thread::spawn(move || {
        let first = batch.next().unwrap().unwrap().into_body();
        (first, batch)
    });
    gate.wait_for_waiters(5);
    first_gate.open();
    let (first, batch) = reading.join().unwrap();
    assert_eq!(first, b"first");
    gate.wait_for_waiters(6);
    let start = Instant::now();
    drop(batch);
    let permits: Vec<_> = (0..6)
        .map(|_| downloader.permit(&urls[0]).unwrap())
        .collect();
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );
    drop(permits);
    gate.open();
    assert_eq!(downloader.fetch(&urls[0]).unwrap().body(), b"first");
}

#[test]
fn a_cancelled_batch_gives_every_request_that_it_read_its_outcome() {
    let origin = stalling();
    let downloader = with(|b| b.window(n(50)).window_when_idle(n(50)));
    let read = Arc::new(AtomicUsize::new(0));
    let (count, base) = (Arc::clone(&read), origin.url("/"));
    let urls = (0..1000).map(move |i| {
        count.fetch_add(1, Ordering::SeqCst);
        format!("{base}{i}")
    });
    let batch = downloader.fetch_all(urls);
    let canceller = batch.canceller();
    let outcomes = std::thread::spawn(move || batch.collect::<Vec<_>>());
    origin.wait_until(|stats| stats.requests.total == 6);
    let start = Instant::now();
    canceller.cancel();
    let outcomes = outcomes.join().unwrap();
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(outcomes.len(), read.load(Ordering::SeqCst));
    assert!((6..=50).contains(&outcomes.len()), "{}", outcomes.len());
    let cancelled = |item: &Result<_, fetchpool::Error>| {
        item.as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::Cancelled)
    };
    assert!(outcomes.iter().all(cancelled), "{outcomes:?}");
}

#[test]
fn cancelling_one_batch_leaves_another_of_the_same_host_alone() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| {
        Reply::status(200)
            .declared_length(4)
            .then_send("so")
            .then_wait(&held)
            .then_send("me")
    });
    let downloader = once();
    let urls = |n: usize| {
        (0..n)
            .map(|i| origin.url(&format!("/{i}")))
            .collect::<Vec<_>>()
    };
    let (doomed, kept) = (downloader.fetch_all(urls(3)), downloader.fetch_all(urls(3)));
    let canceller = doomed.canceller();
    let doomed = std::thread::spawn(move || doomed.filter(Result::is_err).count());
    gate.wait_for_waiters(3);
    let kept = std::thread::spawn(move || kept.flatten().filter(|p| p.body() == b"some").count());
    gate.wait_for_waiters(6);
    canceller.cancel();
    assert_eq!(doomed.join().unwrap(), 3);
    gate.open();
    assert_eq!(kept.join().unwrap(), 3);
}

#[test]
fn shutdown_ends_within_a_second_with_sockets_in_use() {
    let origins = [stalling(), Origin::start(|_| Reply::nothing().then_stall())];
    let unreachable = Dead::unreachable();
    let downloader = with(|b| b.workers(16));
    let mut urls: Vec<_> = (0..60)
        .map(|i| origins[i % 2].url(&format!("/{i}")))
        .collect();
    urls.push(unreachable.url("/"));
    let batch = downloader.fetch_all(urls);
    let outcomes = std::thread::spawn(move || batch.collect::<Vec<_>>());
    for origin in &origins {
        origin.wait_until(|stats| stats.requests.now == 6);
    }
    let start = Instant::now();
    downloader.shutdown();
    let outcomes = outcomes.join().unwrap();
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(outcomes.len(), 61);
    for outcome in outcomes {
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
    }
    let error = downloader.fetch("http://127.0.0.1:9/").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[test]
fn a_body_delimited_by_the_connections_end_is_not_whole_because_it_was_cancelled() {
    let origin = Origin::start(|_| {
        Reply::raw("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nsome").then_stall()
    });
    let gate = Gate::new();
    let begun = gate.clone();
    let read = move |mut body: Body<'_>| {
        body.read_exact(&mut [0; 4])?;
        begun.wait();
        io::read_to_string(body)
    };
    let batch = once().fetch_with([origin.url("/")], read);
    let canceller = batch.canceller();
    let outcomes = std::thread::spawn(move || batch.collect::<Vec<_>>());
    gate.wait_for_waiters(1);
    canceller.cancel();
    gate.open();
    let outcomes = outcomes.join().unwrap();
    assert_eq!(
        outcomes[0].as_ref().unwrap_err().kind(),
        ErrorKind::Cancelled
    );
}

#[cfg(target_os = "linux")]
#[test]
fn no_thread_and_no_socket_is_left() {
    if !support::alone("ending::no_thread_and_no_socket_is_left") {
        return;
    }
    let origin = Origin::start(|_| Reply::ok("x"));
    let sockets = support::open_sockets();
    let downloader = once();
    assert_eq!(
        support::threads_named("fetchpool"),
        0,
        "none before the first use"
    );
    let urls = (0..50).map(|i| origin.url(&format!("/{i}")));
    assert_eq!(downloader.fetch_all(urls).flatten().count(), 50);
    assert!(support::threads_named("fetchpool") <= 32 + 1);
    drop(downloader);
    support::eventually("the threads are gone", || {
        support::threads_named("fetchpool") == 0
    });
    origin.wait_until(|stats| stats.connections.now == 0);
    support::eventually("the sockets are closed", || {
        support::open_sockets() == sockets
    });
}

#[cfg(target_os = "linux")]
#[test]
fn the_last_handle_may_be_dropped_on_a_worker() {
    if !support::alone("ending::the_last_handle_may_be_dropped_on_a_worker") {
        return;
    }
    let origin = Origin::start(|_| Reply::ok("x"));
    let gate = Gate::new();
    let downloader = once();
    let held = gate.clone();
    let captured = std::sync::Mutex::new(Some(downloader.clone()));
    let (jobs, pages) = downloader.open_with(move |_, _| {
        held.wait();
        // The consumer and its own handles are gone by now.
        drop(captured.lock().unwrap().take());
        Ok(())
    });
    jobs.push(origin.url("/"));
    gate.wait_for_waiters(1);
    drop((jobs, pages, downloader));
    gate.open();
    support::eventually("the threads are gone", || {
        support::threads_named("fetchpool") == 0
    });
}
