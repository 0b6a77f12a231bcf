//! Bodies that are large come past the engine, from the connection to who reads them: not a byte is
//! lost or added on that way, and the connection is as good afterwards as after a small one.

use std::io::{self, Read, Write};
use std::time::Duration;

use fetchpool::{Body, Downloader, ErrorKind, HeaderName, HeaderValue, Request};

use crate::support::{Gate, Incoming, Origin, Reply};
use crate::tls::{Server, answer, read_request};
use crate::{n, with};

/// Its length is a prime: what is out of place is seen.
const PATTERN: &[u8] = b"a body that is large enough to be read past the engine..\r\n.";
const KIB: u64 = 1024;

fn pattern(bytes: u64) -> Vec<u8> {
    PATTERN
        .iter()
        .copied()
        .cycle()
        .take(bytes as usize)
        .collect()
}

/// A body as long as the path says.
fn so_long(incoming: &Incoming) -> Reply {
    let bytes = incoming.target()[1..].parse().expect("a length");
    Reply::status(200).then_repeat(PATTERN, bytes)
}

/// One connection, if it can be used again.
fn one() -> Downloader {
    with(|b| b.workers(1).per_host(n(1)))
}

fn connections(origin: &Origin) -> u64 {
    let log = origin.log();
    log.iter()
        .map(|incoming| incoming.connection())
        .max()
        .unwrap_or(0)
}

/// Around the sizes of buffers, of what is large, and of a read.
fn lengths() -> Vec<u64> {
    let mut lengths = vec![0, 1, 1_000_000, 3 * KIB * KIB + 1];
    for edge in [16, 64, 128, 192, 256].map(|kib| kib * KIB) {
        lengths.extend(edge - 1..=edge + 1);
        // With the header about as long.
        lengths.extend([edge - 100, edge + 100]);
    }
    lengths
}

#[test]
fn every_length_is_whole_and_leaves_its_connection_usable() {
    let origin = Origin::start(so_long);
    let downloader = one();
    for bytes in lengths() {
        let page = downloader.fetch(origin.url(&format!("/{bytes}"))).unwrap();
        assert!(page.body() == pattern(bytes), "{bytes}");
    }
    assert_eq!(connections(&origin), 1);
}

#[test]
fn over_tls_as_well() {
    let server = Server::start(1, |mut stream| {
        for bytes in lengths() {
            assert!(read_request(&mut stream));
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
            answer(&mut stream, &[head.into_bytes(), pattern(bytes)].concat());
        }
    });
    let downloader = server.trusting();
    for bytes in lengths() {
        let page = downloader.fetch(server.url("127.0.0.1")).unwrap();
        assert!(page.body() == pattern(bytes), "{bytes}");
    }
    drop(downloader);
    assert_eq!(server.handshakes().len(), 1);
}

/// In one packet with interim responses it is more than a header may be.
#[test]
fn what_comes_together_with_interim_responses_is_whole() {
    let origin = Origin::start(|_| {
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n";
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n";
        let all = [interim.as_bytes(), head.as_bytes(), &pattern(300_000)];
        Reply::raw(all.concat())
    });
    let downloader = one();
    for _ in 0..10 {
        let page = downloader.fetch(origin.url("/")).unwrap();
        assert!(page.body() == pattern(300_000));
    }
    assert_eq!(connections(&origin), 1);
}

/// Reads with buffers of these sizes in turn.
fn read_by(mut body: Body<'_>, sizes: &[usize]) -> io::Result<Vec<u8>> {
    let mut whole = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    for &size in sizes.iter().cycle() {
        let amount = body.read(&mut buffer[..size])?;
        if amount == 0 {
            break;
        }
        whole.extend_from_slice(&buffer[..amount]);
    }
    // An end stays one.
    assert_eq!(body.read(&mut buffer)?, 0);
    Ok(whole)
}

#[test]
fn however_large_the_readers_buffer_is_the_bytes_are_the_same() {
    let origin = Origin::start(so_long);
    let downloader = one();
    let bytes = 700_001;
    for sizes in [
        &[1 << 20][..],
        &[8 * 1024],
        &[97],
        &[16 * 1024 - 1, 16 * 1024],
        &[1, 100_000, 3, 16 * 1024],
        &[500_000, 1],
    ] {
        let url = origin.url(&format!("/{bytes}"));
        let bodies = downloader.fetch_with([url], |body| read_by(body, sizes));
        for body in bodies.collect::<Vec<_>>() {
            assert!(body.unwrap() == pattern(bytes), "{sizes:?}");
        }
    }
    assert_eq!(connections(&origin), 1);
}

#[test]
fn what_either_side_wants_closed_is_not_used_again_though_it_stays_open() {
    let held = Gate::new();
    let open = held.clone();
    let origin = Origin::start(move |incoming| {
        let body = so_long_as(500_000);
        match incoming.target() {
            "/close" => body.header("Connection", "x, Close").then_wait(&open),
            "/old" => body.http10().then_wait(&open),
            "/asked" => body.then_wait(&open),
            _ => body,
        }
    });
    let downloader = one();
    let asking_for_it = Request::new(origin.url("/asked")).header(
        HeaderName::from_static("connection"),
        HeaderValue::from_static("close"),
    );
    let closing = ["/close", "/old"].map(|path| Request::new(origin.url(path)));
    for request in closing.into_iter().chain([asking_for_it]) {
        let page = downloader.fetch(request).unwrap();
        assert!(page.body() == pattern(500_000));
    }
    downloader.fetch(origin.url("/")).unwrap();
    assert_eq!(connections(&origin), 4);
    held.open();
}

fn so_long_as(bytes: u64) -> Reply {
    Reply::status(200).then_repeat(PATTERN, bytes)
}

#[test]
fn bytes_after_it_never_reach_the_next_response_whenever_they_come() {
    const FAKE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil";
    let (late, sent) = (Gate::new(), Gate::new());
    let (held, after) = (late.clone(), sent.clone());
    let origin = Origin::start(move |incoming| {
        let body = so_long_as(200_000).declared_length(200_000);
        match incoming.target() {
            "/at-once" => body.then_send(FAKE).then_wait(&after),
            "/later" => body.then_wait(&held).then_send(FAKE).then_wait(&after),
            _ => Reply::ok("good"),
        }
    });
    let downloader = one();
    for path in ["/at-once", "/later"] {
        // Into less than a read is worth, and into more than there is.
        for size in [97, 1 << 20] {
            let bodies =
                downloader.fetch_with([origin.url(path)], move |body| read_by(body, &[size]));
            for body in bodies {
                assert!(body.unwrap() == pattern(200_000), "{path}, {size}");
            }
            late.open();
            // What comes after the next request has been sent nobody can tell from its answer.
            sent.wait_for_waiters(1);
            sent.pass(1);
            for _ in 0..3 {
                let page = downloader.fetch(origin.url("/good")).unwrap();
                assert_eq!(page.body(), b"good", "{path}, {size}");
            }
        }
    }
}

/// What comes in one packet with the end of the body has been decrypted with it.
#[test]
fn nor_do_they_over_tls() {
    const FAKE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil";
    const BODY: u64 = 327_680;
    for last in [20, 300, 16_384, 16_385, 17_000, 20_000] {
        for size in [97, 17_000, 20_000, 1 << 20] {
            let server = Server::start(2, move |mut stream| {
                while read_request(&mut stream) {
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {BODY}\r\n\r\n");
                    let body = pattern(BODY);
                    let (most, rest) = body.split_at((BODY - last) as usize);
                    answer(&mut stream, &[head.as_bytes(), most].concat());
                    // A record each, in one call of the system.
                    for record in [rest, FAKE] {
                        stream.conn.writer().write_all(record).expect("room");
                    }
                    stream.flush().expect("the client reads");
                }
            });
            let downloader = server.trusting();
            for _ in 0..2 {
                let url = server.url("127.0.0.1");
                let bodies = downloader.fetch_with([url], move |body| read_by(body, &[size]));
                for body in bodies {
                    assert!(body.unwrap() == pattern(BODY), "{last}, {size}");
                }
            }
            drop(downloader);
            assert_eq!(server.handshakes().len(), 2, "{last}, {size}");
        }
    }
}

#[test]
fn one_that_is_cut_is_truncated_however_the_connection_ends() {
    let sent = Gate::new();
    let after = sent.clone();
    let origin = Origin::start(move |incoming| {
        let part = so_long_as(300_000).declared_length(1_000_000);
        match incoming.target() {
            "/close" => part.then_close(),
            // Once it has been read: a reset takes with it what has not.
            _ => part.then_wait(&after).then_reset(),
        }
    });
    let downloader = one();
    let read = |url: String| {
        let sent = sent.clone();
        let bodies = downloader.fetch_with([url], move |mut body| {
            io::copy(&mut (&mut body).take(300_000), &mut io::sink())?;
            sent.open();
            io::copy(&mut body, &mut io::sink())
        });
        let mut ends: Vec<_> = bodies
            .map(|end| end.map_err(|error| error.kind()))
            .collect();
        ends.pop().expect("one")
    };
    for path in ["/close", "/reset"] {
        assert_eq!(read(origin.url(path)), Err(ErrorKind::Truncated), "{path}");
    }
    let server = Server::start(1, |mut stream| {
        read_request(&mut stream);
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n";
        answer(&mut stream, &[&head[..], &pattern(300_000)].concat());
        // No `close_notify`.
    });
    let error = server.trusting().fetch(server.url("127.0.0.1"));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Truncated);
}

#[test]
fn one_that_stalls_is_given_up_at_each_limit() {
    let origin = Origin::start(|_| {
        let part = so_long_as(300_000).declared_length(1_000_000);
        part.then_stall()
    });
    let limit = Duration::from_millis(200);
    let limited = [
        ("idle_timeout", with(|b| b.idle_timeout(limit))),
        ("low_speed", with(|b| b.low_speed(1, limit))),
        ("timeout", with(|b| b.timeout(Some(limit)))),
    ];
    for (setting, downloader) in limited {
        let error = downloader.fetch(origin.url("/")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{setting}");
        assert!(error.to_string().contains(setting), "{error}");
    }
}

#[test]
fn one_that_is_cancelled_while_it_is_awaited_ends_at_once() {
    let read = Gate::new();
    let origin = Origin::start(|_| {
        let part = so_long_as(300_000).declared_length(1_000_000);
        part.then_stall()
    });
    let downloader = one();
    let reached = read.clone();
    let batch = downloader.fetch_with([origin.url("/")], move |mut body| {
        io::copy(&mut (&mut body).take(300_000), &mut io::sink())?;
        reached.open();
        io::copy(&mut body, &mut io::sink())
    });
    let canceller = batch.canceller();
    let reading = std::thread::spawn(move || batch.collect::<Vec<_>>());
    read.wait();
    canceller.cancel();
    let ends = reading.join().expect("no panic");
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0].as_ref().unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn of_one_that_nobody_reads_a_short_rest_is_and_a_long_one_costs_the_connection() {
    let origin = Origin::start(so_long);
    let downloader = one();
    let leaving = |rest: u64| {
        let bytes = 1_000_000;
        let url = origin.url(&format!("/{bytes}"));
        let bodies = downloader.fetch_with([url], move |mut body| {
            io::copy(&mut (&mut body).take(bytes - rest), &mut io::sink())
        });
        assert_eq!(bodies.count(), 1);
        connections(&origin)
    };
    assert_eq!(leaving(60_000), 1);
    assert_eq!(leaving(900_000), 1);
    assert_eq!(leaving(0), 2);
}
