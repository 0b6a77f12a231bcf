//! What is counted, and that no limit is ever seen exceeded which is kept.

use crate::support::{Client, Flow, Gate, Origin, Reply};

/// A client that is alone, and goes on as soon as its last request is over, must never look like two: so often, because
/// only a race could make it so.
const ROUNDS: u64 = 500;

#[test]
fn requests_that_follow_each_other_are_never_seen_together() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/whole" => Reply::ok("x"),
        "/big" => Reply::status(200).then_repeat("abc", 300_000),
        "/chunked" => Reply::status(200).chunked(["x", "y"]),
        _ => Reply::ok("x").declared_length(2).then_stall(),
    });
    let big = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n{}",
        "abc".repeat(100_000)
    );
    // Two connections, so that the next request need not wait until the origin's thread is done with the last.
    let mut pair = [(); 2].map(|()| Client::connect(origin.addr()));
    for _ in 0..ROUNDS {
        for client in &mut pair {
            client.ask("/whole");
            client.expect("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
        }
        for client in &mut pair {
            client.ask("/big");
            client.expect(&big);
        }
        pair[0].ask("/chunked");
        pair[0].expect(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n1\r\ny\r\n0\r\n\r\n",
        );
        pair[1].ask("/given-up");
        pair[1].expect("HTTP/1.1 200 OK\r\n");
        pair[1] = Client::connect(origin.addr());
    }
    drop(pair);
    let stats = origin.wait_until(|stats| stats.connections.now == 0);
    assert_eq!(
        stats.requests,
        Flow {
            total: ROUNDS * 6,
            now: 0,
            peak: 1
        }
    );
    assert_eq!(origin.stats_for_host("origin.test"), stats.requests);
}

#[test]
fn connections_that_follow_each_other_are_never_seen_together() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/until-close" => Reply::status(200).close_delimited("x"),
        "/cut" => Reply::ok("x").declared_length(2),
        "/reset" => Reply::ok("x").declared_length(2).then_reset(),
        _ => Reply::ok("x"),
    });
    for _ in 0..ROUNDS {
        // Those that the origin has ended are over, even while the client still holds its socket.
        let ended = ["/until-close", "/cut", "/reset"].map(|target| {
            let mut client = Client::get(origin.addr(), target);
            let _ = client.rest();
            client
        });
        Client::get(origin.addr(), "/left").expect("HTTP/1.1 200 OK\r\n");
        drop(ended);
    }
    let stats = origin.wait_until(|stats| stats.connections.now == 0);
    assert_eq!(
        stats.connections,
        Flow {
            total: ROUNDS * 4,
            now: 0,
            peak: 1
        }
    );
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
