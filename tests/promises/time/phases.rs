//! The limits of the phases.

use std::io::Read;

use fetchpool::{Builder, ErrorKind};

use super::*;
use crate::tls::{Server, read_request};
use crate::with;

#[track_caller]
fn ends_with(settings: impl FnOnce(Builder) -> Builder, url: &str, parts: &[&str]) {
    let downloader = with(settings);
    says(&late(|| downloader.fetch(url)), parts);
}

#[test]
fn a_resolver_that_hangs_is_waited_for_until_its_limit() {
    let gate = Gate::new();
    let resolver = Hanging(gate.clone());
    ends_with(
        |b| b.resolver(resolver).resolve_timeout(LIMIT),
        "http://a.test/",
        &["looking up \"a.test\"", "200ms"],
    );
    gate.open();
}

#[cfg(target_os = "linux")]
#[test]
fn an_address_that_takes_no_connection_is_given_up_at_the_connect_limit() {
    let dead = Dead::unreachable();
    let limited = |b: Builder| b.connect_timeout(LIMIT);
    ends_with(limited, &dead.url("/"), &["took no connection", "200ms"]);
    ends_with(limited, &over_tls(&dead), &["took no connection", "200ms"]);
}

#[test]
fn a_handshake_is_over_by_the_connect_limit_with_a_peer_that_is_silent_or_drips() {
    let mute = Dead::mute();
    let dripping = Dripping::start(1);
    for url in [over_tls(&mute), dripping.url()] {
        ends_with(
            |b| b.connect_timeout(LIMIT),
            &url,
            &["TLS handshake", "200ms"],
        );
    }
    dripping.join();
}

#[test]
fn a_server_that_says_nothing_is_given_up_at_the_idle_limit() {
    let (mute, origin) = (Dead::mute(), slow_origin());
    for url in [mute.url("/"), origin.url("/silent")] {
        ends_with(
            |b| b.idle_timeout(LIMIT),
            &url,
            &["nothing moved for 200ms", "response"],
        );
    }
    ends_with(
        |b| b.idle_timeout(LIMIT),
        &origin.url("/stall"),
        &["nothing moved for 200ms", "body"],
    );
}

#[test]
fn a_header_that_does_not_end_is_given_up_at_its_limit() {
    let origin = slow_origin();
    for target in ["/silent", "/header", "/interim"] {
        ends_with(
            |b| b.header_timeout(LIMIT),
            &origin.url(target),
            &["header", "200ms"],
        );
    }
}

#[test]
fn a_body_that_drips_or_stalls_is_too_slow() {
    let origin = slow_origin();
    for target in ["/drip", "/stall"] {
        ends_with(
            |b| b.low_speed(100_000, LIMIT),
            &origin.url(target),
            &["the body came slower than the lowest speed"],
        );
    }
}

#[test]
fn what_drips_for_longer_than_the_idle_limit_is_not_idle() {
    let every = Duration::from_millis(100);
    let origin = Origin::start(move |_| Reply::status(200).then_drip([b'x'; 14], every));
    let downloader = with(|b| b.idle_timeout(Duration::from_secs(1)));
    let page = downloader.fetch(origin.url("/")).unwrap();
    assert!(page.report().timings().body() > Duration::from_secs(1));
}

/// Answers each request with one TLS record that comes a byte at a time.
fn dripping_record(connections: usize, plain: &'static [u8]) -> Server {
    Server::start(connections, move |mut stream| {
        if read_request(&mut stream) {
            stream.conn.writer().write_all(plain).expect("room");
            let mut record = Vec::new();
            stream.conn.write_tls(&mut record).expect("memory");
            drip(&stream.sock, &record);
        }
    })
}

#[test]
fn a_tls_record_that_drips_is_no_way_round_the_limits() {
    const HEADER: &[u8] = &[b'x'; 10_000];
    let server = dripping_record(2, HEADER);
    let url = server.url("127.0.0.1");
    let header = server.trusting_with(|b| b.header_timeout(LIMIT));
    says(&late(|| header.fetch(&url)), &["header", "200ms"]);
    let whole = server.trusting_with(|b| b.timeout(Some(LIMIT)));
    says(&late(|| whole.fetch(&url)), &["whole job", "200ms"]);
}

#[test]
fn neither_is_it_for_a_body() {
    let server = Server::start(1, |mut stream| {
        if read_request(&mut stream) {
            let head = "HTTP/1.1 200 OK\r\ncontent-length: 10000\r\n\r\n";
            crate::tls::answer(&mut stream, head.as_bytes());
            let body = [b'x'; 10_000];
            stream.conn.writer().write_all(&body).expect("room");
            let mut record = Vec::new();
            stream.conn.write_tls(&mut record).expect("memory");
            drip(&stream.sock, &record);
        }
    });
    let downloader = server.trusting_with(|b| b.low_speed(100_000, LIMIT));
    let text = late(|| downloader.fetch(server.url("127.0.0.1")));
    says(&text, &["slower", "200ms"]);
}

#[test]
fn the_time_that_a_closure_takes_is_not_the_servers() {
    const IDLE: Duration = Duration::from_millis(500);
    const LONG: u64 = 4 << 20;
    let origin = Origin::start(|incoming| match incoming.target() {
        "/long" => Reply::status(200).then_repeat("x", LONG),
        _ => Reply::nothing().then_stall(),
    });
    let limited = |b: Builder| b.idle_timeout(IDLE).low_speed(1, IDLE);
    let downloader = with(limited);
    let gate = Gate::new();
    let held = gate.clone();
    let batch = downloader.fetch_with([origin.url("/long")], move |mut body| {
        body.read_exact(&mut [0])?;
        held.wait();
        std::io::copy(&mut body, &mut std::io::sink())
    });
    let reading = std::thread::spawn(move || batch.collect::<Vec<_>>());
    gate.wait_for_waiters(1);
    // The event by which more than the limits' time has gone by: another server is given up, twice.
    let other = with(limited);
    for _ in 0..2 {
        let error = other.fetch(origin.url("/silent")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
    }
    gate.open();
    let read = reading.join().unwrap().remove(0).unwrap();
    assert_eq!(read, LONG - 1);
}

#[test]
fn a_limit_that_passed_leaves_neither_tokens_nor_workers_nor_sockets_behind() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |incoming| match incoming.target() {
        "/silent" => Reply::nothing().then_stall(),
        _ => Reply::ok("x").after(&held),
    });
    let downloader = with(|b| {
        b.workers(3)
            .per_host(crate::n(3))
            .timeout_grace(Duration::ZERO)
    });
    let silent = vec![origin.url("/silent"); 6];
    let begun = Instant::now();
    for page in downloader.fetch_all(silent).timeout(LIMIT) {
        told(&page.unwrap_err(), begun);
    }
    origin.wait_until(|stats| stats.connections.now == 0);
    let other = downloader;
    let urls = vec![origin.url("/x"); 3];
    let fetching = std::thread::spawn(move || other.fetch_all(urls).flatten().count());
    gate.wait_for_waiters(3);
    gate.open();
    assert_eq!(fetching.join().unwrap(), 3);
}
