//! What is sent: every reply to the byte, and the way a connection ends.

use std::io::ErrorKind;

use crate::support::{Client, Gate, Origin, Reply};

/// All that the origin sends in answer to one request which asks for the connection to be closed afterwards.
#[track_caller]
fn sent(method: &str, reply: &Reply) -> String {
    let reply = reply.clone();
    let origin = Origin::start(move |_| reply.clone());
    let mut client = Client::connect(origin.addr());
    client.send(format!(
        "{method} / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    ));
    let (bytes, end) = client.rest();
    assert!(end.is_ok(), "{end:?} after {bytes:?}");
    bytes
}

#[test]
fn a_reply_is_sent_to_the_byte() {
    let cases = [
        (
            Reply::ok("hello"),
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        ),
        (
            Reply::ok(""),
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        ),
        (
            Reply::status(404)
                .header("B", "2")
                .header("a", [0xc3, 0xa9])
                .body("no"),
            "HTTP/1.1 404 Not Found\r\nB: 2\r\na: é\r\nContent-Length: 2\r\n\r\nno",
        ),
        (
            Reply::redirect(302, "/a b"),
            "HTTP/1.1 302 Found\r\nLocation: /a b\r\nContent-Length: 0\r\n\r\n",
        ),
        (Reply::status(204), "HTTP/1.1 204 No Content\r\n\r\n"),
        (
            Reply::status(304).declared_length(9),
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
        ),
        (
            Reply::ok("abc").declared_length(2),
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc",
        ),
        (
            Reply::ok("abc").declared_length(u64::MAX),
            "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\nabc",
        ),
        (
            Reply::ok("ab").then_send("cd").then_repeat("xy", 3),
            "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nabcdxyx",
        ),
        (
            Reply::status(200).then_repeat_from("abc", 4, 4),
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbcab",
        ),
        (
            Reply::ok("x").http10(),
            "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
        ),
        (
            Reply::status(200).close_delimited("x").then_send("y"),
            "HTTP/1.1 200 OK\r\n\r\nxy",
        ),
        (
            Reply::status(200).chunked(["0123456789abcdef", "z"]),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n0123456789abcdef\r\n1\r\nz\r\n0\r\n\r\n",
        ),
        (
            Reply::status(200)
                .chunked_part(["a"])
                .then_chunk("b")
                .then_trailers("T: 1\r\n"),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\nT: 1\r\n\r\n",
        ),
        (
            Reply::partial("01234", 3),
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 3-4/5\r\nContent-Length: 2\r\n\r\n34",
        ),
        (
            Reply::partial("01234", 5),
            "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */5\r\nContent-Length: 0\r\n\r\n",
        ),
        (Reply::raw("anything\n at all"), "anything\n at all"),
        (
            Reply::raw("HTTP/1.1 103 Early\r\n\r\n").then(Reply::ok("x")),
            "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
        ),
        (Reply::nothing(), ""),
    ];
    for (reply, bytes) in cases {
        assert_eq!(sent("GET", &reply), bytes, "{reply:?}");
    }
}

#[test]
fn a_reply_to_head_is_its_head() {
    assert_eq!(
        sent("HEAD", &Reply::ok("hello")),
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
    );
    assert_eq!(sent("HEAD", &Reply::raw("hello")), "hello");
}

#[test]
fn a_reply_that_is_not_whole_ends_with_the_connection() {
    for reply in [
        Reply::ok("abc").declared_length(4),
        Reply::status(200).chunked_part(["abc"]),
        Reply::status(200).close_delimited("abc"),
        Reply::ok("abc").header("connection", "Close"),
        Reply::ok("abc").http10(),
        Reply::ok("abc").then_close(),
    ] {
        let said = format!("{reply:?}");
        let origin = Origin::start(move |_| reply.clone());
        let (bytes, end) = Client::get(origin.addr(), "/").rest();
        assert!(
            bytes.contains("abc") && end.is_ok(),
            "{said}: {bytes:?} {end:?}"
        );
    }
}

#[test]
fn close_is_a_fin_even_over_unread_requests_and_reset_is_a_reset() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |incoming| match incoming.target() {
        "/close" => Reply::ok("abc")
            .declared_length(9)
            .then_close()
            .after(&held),
        _ => Reply::ok("abc").declared_length(9).then_reset(),
    });
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc";
    for _ in 0..50 {
        let mut client = Client::connect(origin.addr());
        client.send("GET /close HTTP/1.1\r\n\r\n".repeat(2000));
        gate.pass(1);
        let (bytes, end) = client.rest();
        assert!(bytes == half && end.is_ok(), "{bytes:?} {end:?}");

        let (bytes, end) = Client::get(origin.addr(), "/reset").rest();
        assert_eq!(bytes, half);
        assert_eq!(
            end.expect_err("a reset is no end").kind(),
            ErrorKind::ConnectionReset
        );
    }
    assert_eq!(
        origin
            .wait_until(|stats| stats.connections.now == 0)
            .requests
            .total,
        100
    );
}

#[test]
fn a_body_larger_than_memory_is_the_pattern_all_through() {
    const TOTAL: u64 = 1 << 42;
    let origin = Origin::start(|_| Reply::status(200).then_repeat_from("0123456789a", 7, TOTAL));
    let mut client = Client::get(origin.addr(), "/");
    client.expect(&format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {TOTAL}\r\n\r\n"
    ));
    let mut buffer = vec![0; 1 << 20];
    let mut position = 0;
    while position < 32 << 20 {
        let read = client.read(&mut buffer).expect("the origin goes on");
        let expected = b"0123456789a".iter().cycle().skip((7 + position) % 11);
        assert!(
            buffer[..read].iter().eq(expected.take(read)),
            "wrong within {read} bytes from {position}"
        );
        position += read;
    }
    assert_eq!(origin.stats().requests.now, 1);
}
