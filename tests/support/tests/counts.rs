//! What is counted, and that no limit is ever seen exceeded which is kept.

use std::sync::Arc;
use std::thread;

use crate::support::{Client, Flow, Gate, Origin, Reply, alone};

const LIMIT: u64 = 6;

/// Six clients at once, each of which goes on as soon as its last one is over, must never look like seven.
#[test]
fn a_limit_that_is_kept_is_never_seen_exceeded() {
    if !alone("counts::a_limit_that_is_kept_is_never_seen_exceeded") {
        return;
    }
    let origin = Arc::new(Origin::start(|incoming| match incoming.target() {
        "/whole" => Reply::ok("x"),
        "/big" => Reply::status(200).then_repeat("abc", 300_000),
        "/until-close" => Reply::status(200).close_delimited("x"),
        "/cut" => Reply::ok("x").declared_length(2),
        "/reset" => Reply::ok("x").declared_length(2).then_reset(),
        _ => Reply::ok("x").declared_length(2).then_stall(),
    }));
    let threads = (0..LIMIT).map(|_| {
        let origin = origin.clone();
        thread::spawn(move || {
            for _ in 0..40 {
                for target in ["/until-close", "/cut", "/reset"] {
                    let _ = Client::get(origin.addr(), target).rest();
                }
                Client::get(origin.addr(), "/given-up").expect("HTTP/1.1 200 OK\r\n");
                let mut client = Client::connect(origin.addr());
                for _ in 0..5 {
                    client.ask("/whole");
                    client.expect("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
                }
                client.ask("/big");
                client.expect(&format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n{}",
                    "abc".repeat(100_000)
                ));
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().expect("a client is content");
    }
    let stats = origin.wait_until(|stats| stats.connections.now == 0);
    assert_eq!(
        (stats.requests.total, stats.connections.total),
        (LIMIT * 40 * 10, LIMIT * 40 * 5)
    );
    assert!(
        stats.requests.peak > 1,
        "the clients were never there together: {stats:?}"
    );
    assert_eq!(origin.stats_for_host("origin.test"), stats.requests);
    if cfg!(target_os = "linux") {
        assert!(
            stats.requests.peak <= LIMIT && stats.connections.peak <= LIMIT,
            "{stats:?}"
        );
    }
}

#[test]
fn requests_are_counted_by_host_as_it_was_spelt() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| Reply::ok("x").after(&held));
    let clients = ["a", "a", "A", "b"].map(|host| {
        let mut client = Client::connect(origin.addr());
        client.send(format!(
            "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"
        ));
        client
    });
    gate.wait_for_waiters(4);
    let peaks = ["a", "A", "b", "c"].map(|host| origin.stats_for_host(host));
    assert_eq!(
        peaks.map(|flow| (flow.total, flow.now, flow.peak)),
        [(2, 2, 2), (1, 1, 1), (1, 1, 1), (0, 0, 0)]
    );
    assert_eq!(
        origin
            .targets()
            .iter()
            .filter(|target| *target == "http://a/")
            .count(),
        2
    );
    drop(clients);
}

#[test]
fn a_request_is_in_flight_until_the_last_byte_that_its_client_waits_for() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |incoming| match incoming.target() {
        "/whole" => Reply::ok("x").then_wait(&held).then_close(),
        "/cut" => Reply::ok("x").declared_length(2).then_wait(&held),
        "/chunks" => Reply::status(200)
            .chunked_part(["x"])
            .then_wait(&held)
            .then_last_chunk(),
        _ => Reply::status(200).close_delimited("x").then_wait(&held),
    });
    for (target, in_flight) in [
        ("/whole", 0),
        ("/cut", 1),
        ("/chunks", 2),
        ("/until-close", 3),
    ] {
        let waiting = gate.waiters();
        let mut client = Client::get(origin.addr(), target);
        client.expect("HTTP/1.1 200 OK\r\n");
        gate.wait_for_waiters(waiting + 1);
        assert_eq!(origin.stats().requests.now, in_flight, "{target}");
    }
    gate.open();
    origin.wait_until(|stats| stats.connections.now == 0 && stats.requests.now == 0);
}

/// The peak tells what the client did; `now` tells what the origin still has to do.
#[cfg(target_os = "linux")]
#[test]
fn a_client_that_has_left_is_no_part_of_a_peak() {
    if !alone("counts::a_client_that_has_left_is_no_part_of_a_peak") {
        return;
    }
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| Reply::ok("x").after(&held));
    for gone in 1..=3 {
        let mut client = Client::get(origin.addr(), "/");
        gate.wait_for_waiters(gone);
        // A second request, not yet read, hides the FIN from the origin's socket.
        client.ask("/pipelined");
        drop(client);
    }
    let stats = origin.stats();
    assert_eq!(
        (stats.requests, stats.connections),
        (
            Flow {
                total: 3,
                now: 3,
                peak: 1
            },
            Flow {
                total: 3,
                now: 3,
                peak: 1
            }
        )
    );
    gate.open();
    origin.wait_until(|stats| stats.connections.now == 0);
}
