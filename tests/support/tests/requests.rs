//! What is read: requests, their log, and what is no request.

use crate::support::{Client, Flow, Origin, Reply};

#[test]
fn a_handler_and_the_log_see_the_whole_request() {
    let origin = Origin::start(|incoming| {
        Reply::ok(format!(
            "{} {}",
            incoming.header("x-a").unwrap_or("none"),
            String::from_utf8_lossy(incoming.body())
        ))
    });
    let head = "PUT /p?q HTTP/1.1\r\nhOST: h:80\r\nX-A:  1 \r\nRange: bytes=7-\r\nContent-Length: 4\r\n\r\n";
    let mut client = Client::connect(origin.addr());
    client.send(format!("{head}body"));
    client.expect("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n1 body");
    client.ask("/p?q");
    client.expect("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nnone ");
    Client::get(origin.addr(), "/r").expect("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nnone ");

    assert_eq!(origin.targets(), ["/p?q", "/p?q", "/r"]);
    let log = origin.log();
    let first = &log[0];
    assert_eq!(
        (first.method(), first.host(), first.range_start()),
        ("PUT", "h:80", Some(7))
    );
    assert_eq!(first.headers()[1], ("X-A".to_owned(), "1".to_owned()));
    assert_eq!(first.raw(), head.as_bytes());
    let place = |n: usize| (log[n].connection(), log[n].number(), log[n].visit());
    assert_eq!(
        [place(0), place(1), place(2)],
        [(1, 1, 1), (1, 2, 2), (2, 1, 1)]
    );
    assert!(log[0].at() <= log[1].at());
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = Origin::start(|incoming| Reply::ok(incoming.target()));
    let mut client = Client::connect(origin.addr());
    client.send("GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\nGET /3 HTTP/1.1\r\nConnection: close\r\n\r\n");
    let (bytes, _) = client.rest();
    let bodies: Vec<&str> = bytes
        .split("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
        .collect();
    assert_eq!(bodies, ["", "/1", "/2", "/3"]);
    assert_eq!(
        origin.stats().requests,
        Flow {
            total: 3,
            now: 0,
            peak: 1
        }
    );
}

#[test]
fn what_is_not_http_is_refused_and_counted() {
    let origin = Origin::start(|_| Reply::ok("never"));
    for bytes in [
        "\u{16}\u{3}\u{1} a TLS hello",
        "GET /\r\n\r\n",
        "GET / HTTP/2\r\n\r\n",
        "GET / HTTP/1.1\r\nbad\r\n\r\n",
    ] {
        let mut client = Client::connect(origin.addr());
        client.send(bytes);
        let (answer, end) = client.rest();
        assert!(
            answer.starts_with("HTTP/1.1 400 ") && end.is_ok(),
            "{bytes:?}: {answer:?} {end:?}"
        );
    }
    assert_eq!(
        (origin.stats().malformed, origin.stats().requests.total),
        (4, 0)
    );
}

#[test]
fn without_a_log_only_the_counts_are_kept() {
    let origin = Origin::start(|incoming| Reply::ok(incoming.visit().to_string())).without_log();
    Client::get(origin.addr(), "/").expect("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n0");
    assert_eq!((origin.stats().requests.total, origin.log().len()), (1, 0));
}
