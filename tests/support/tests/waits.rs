//! Gates, pauses, drips and stalls.

use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};

use crate::support::{Client, Flow, Gate, Origin, Reply};

#[test]
fn nothing_passes_a_gate_before_it_is_opened() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |incoming| match incoming.target() {
        "/head" => Reply::ok("x").after(&held),
        "/body" => Reply::ok("x").then_wait(&held).then_send("y"),
        _ => {
            held.wait();
            Reply::ok("handler")
        }
    });
    let [mut whole, mut body, mut handler] =
        ["/head", "/body", "/"].map(|target| Client::get(origin.addr(), target));
    gate.wait_for_waiters(3);
    body.expect("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx");
    assert!(whole.is_silent() && body.is_silent() && handler.is_silent());
    assert_eq!(
        (gate.waiters(), origin.stats().requests),
        (
            3,
            Flow {
                total: 3,
                now: 3,
                peak: 3
            }
        )
    );

    gate.open();
    whole.expect("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
    body.expect("y");
    handler.expect("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nhandler");
    assert_eq!((gate.waiters(), origin.stats().requests.now), (0, 0));
    whole.ask("/head");
    whole.expect("HTTP/1.1 200 OK");
}

#[test]
fn a_gate_lets_through_as_many_as_it_is_told_in_the_order_of_their_coming() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| Reply::ok("x").after(&held));
    let mut clients = Vec::new();
    for count in 1..=4 {
        clients.push(Client::get(origin.addr(), "/"));
        gate.wait_for_waiters(count);
    }
    gate.pass(2);
    assert_eq!(gate.waiters(), 2);
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    clients[0].expect(ok);
    clients[1].expect(ok);
    assert!(clients[2].is_silent() && clients[3].is_silent());
    gate.pass(3);
    clients[0].ask("/spare");
    for client in [0, 2, 3] {
        clients[client].expect(ok);
    }
    clients[0].ask("/none-spare");
    gate.wait_for_waiters(1);
}

#[test]
fn waiting_in_vain_at_an_open_gate_says_so_at_once() {
    let gate = Gate::new();
    gate.open();
    let waited = panic::catch_unwind(AssertUnwindSafe(|| gate.wait_for_waiters(1)));
    let message = waited.expect_err("nobody can wait there");
    assert!(
        message
            .downcast_ref::<String>()
            .is_some_and(|text| text.contains("open: true"))
    );
}

#[test]
fn no_byte_comes_before_its_pause_is_over() {
    let step = Duration::from_millis(20);
    let origin = Origin::start(move |incoming| match incoming.target() {
        "/pause" => Reply::raw("ab").then_pause(step).then_send("cd"),
        "/late" => Reply::raw("abcd").after_pause(step),
        _ => Reply::raw("").then_drip("abcd", step),
    });
    for (target, pauses) in [
        ("/pause", [0, 0, 1, 1]),
        ("/late", [1; 4]),
        ("/drip", [0, 1, 2, 3]),
    ] {
        let begin = Instant::now();
        let mut client = Client::get(origin.addr(), target);
        for (byte, pauses) in ["a", "b", "c", "d"].into_iter().zip(pauses) {
            client.expect(byte);
            let time = begin.elapsed();
            assert!(
                time >= step * pauses,
                "{target}: {byte} came after {time:?}"
            );
        }
    }
}

#[test]
fn a_stall_lasts_until_the_client_goes() {
    let origin = Origin::start(|_| Reply::ok("x").declared_length(2).then_stall());
    let mut client = Client::get(origin.addr(), "/");
    client.expect("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx");
    client.send("more is not an end");
    assert!(client.is_silent());
    assert_eq!(origin.stats().requests.now, 1);
    drop(client);
    let stats = origin.wait_until(|stats| stats.connections.now == 0);
    assert_eq!(
        stats.requests,
        Flow {
            total: 1,
            now: 0,
            peak: 1
        }
    );
}
