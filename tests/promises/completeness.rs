//! A body is whole only where its framing proves it, and nothing that a server sends costs more
//! than a bounded time.

use std::io;
use std::time::{Duration, Instant};

use fetchpool::{Body, Builder, ErrorKind, RetryPolicy};

use crate::support::{Gate, Origin, Reply};
use crate::{once, with};

/// How one request ends that gets this reply.
fn end_of(reply: impl Fn() -> Reply + Send + Sync + 'static) -> Result<Vec<u8>, ErrorKind> {
    let origin = Origin::start(move |_| reply());
    let begun = Instant::now();
    let page = once().fetch(origin.url("/"));
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    page.map(fetchpool::Fetched::into_body)
        .map_err(|error| error.kind())
}

/// The same for bytes after which the connection stays open: none of these needs its end.
fn end_of_raw(bytes: impl AsRef<[u8]>) -> Result<Vec<u8>, ErrorKind> {
    let bytes = bytes.as_ref().to_vec();
    end_of(move || Reply::raw(&bytes).then_stall())
}

fn headed(fields: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{body}")
}

#[test]
fn a_length_that_is_none_is_a_protocol_error() {
    for length in [
        "-1",
        "+3",
        "0x3",
        "3.0",
        "3 3",
        "1e19",
        "3;",
        "99999999999999999999",
        "18446744073709551616",
    ] {
        let raw = headed(&format!("content-length: {length}"), "abc");
        assert_eq!(end_of_raw(raw), Err(ErrorKind::Protocol), "{length:?}");
    }
}

#[test]
fn lengths_that_contradict_each_other_are_a_protocol_error() {
    for fields in [
        "content-length: 3\r\ncontent-length: 4",
        "content-length: 4\r\ncontent-length: 3",
        "content-length: 3, 4",
        "content-length: 3\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 3",
    ] {
        let raw = headed(fields, "3\r\nabc\r\n0\r\n\r\n");
        assert_eq!(end_of_raw(raw), Err(ErrorKind::Protocol), "{fields:?}");
    }
}

#[test]
fn a_chunk_size_that_is_none_is_a_protocol_error() {
    for size in [
        "-1",
        "0x3",
        "g",
        "",
        "3 3",
        "fffffffffffffffff",
        "10000000000000000",
    ] {
        let raw = headed(
            "transfer-encoding: chunked",
            &format!("{size}\r\nabc\r\n0\r\n\r\n"),
        );
        assert_eq!(end_of_raw(raw), Err(ErrorKind::Protocol), "{size:?}");
    }
    // Longer than what follows, and than any memory.
    for size in ["ffffffffffffffff", "7fffffffffffffff"] {
        let raw = headed("transfer-encoding: chunked", &format!("{size}\r\nabc"));
        let end = end_of(move || Reply::raw(&raw).then_close());
        assert!(
            matches!(end, Err(ErrorKind::Truncated | ErrorKind::Protocol)),
            "{size:?}: {end:?}"
        );
    }
    // A chunk that is longer than it says.
    let raw = headed("transfer-encoding: chunked", "3\r\nabcdef\r\n0\r\n\r\n");
    assert_eq!(end_of_raw(raw), Err(ErrorKind::Protocol));
}

#[test]
fn chunk_extensions_are_skipped_and_one_without_end_is_given_up() {
    let raw = headed("transfer-encoding: chunked", "3;a=b\r\nabc\r\n0;c\r\n\r\n");
    assert_eq!(end_of_raw(raw), Ok(b"abc".to_vec()));
    let begin = headed("transfer-encoding: chunked", "3;");
    let end = end_of(move || Reply::raw(&begin).then_repeat("x", u64::from(u32::MAX)));
    assert_eq!(end, Err(ErrorKind::Protocol));
}

#[test]
fn a_header_without_end_is_given_up() {
    for endless in ["x: y\r\n", "x"] {
        let head = "HTTP/1.1 200 OK\r\n";
        let end = end_of(move || Reply::raw(head).then_repeat(endless, u64::from(u32::MAX)));
        assert_eq!(end, Err(ErrorKind::Protocol), "{endless:?}");
    }
    let end = end_of(|| Reply::nothing().then_repeat("x", u64::from(u32::MAX)));
    assert_eq!(end, Err(ErrorKind::Protocol));
}

#[test]
fn the_body_of_a_redirect_or_an_error_is_not_read_for_ever() {
    const ENDLESS: u64 = 1 << 50;
    let origin = Origin::start(|incoming| match incoming.target() {
        "/declared" => Reply::redirect(302, "/to")
            .declared_length(ENDLESS)
            .then_repeat("x", ENDLESS),
        "/to-the-end" => Reply::redirect(302, "/to")
            .close_delimited("")
            .then_repeat("x", ENDLESS),
        "/error" => Reply::status(404)
            .close_delimited("")
            .then_repeat("x", ENDLESS),
        _ => Reply::ok("there"),
    });
    let downloader = once();
    let begun = Instant::now();
    for path in ["/declared", "/to-the-end"] {
        let page = downloader.fetch(origin.url(path)).unwrap();
        assert_eq!(page.body(), b"there", "{path}");
    }
    let error = downloader.fetch(origin.url("/error")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Status);
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn interim_responses_are_none() {
    let interim = [
        "100 Continue\r\n",
        "102 Processing\r\n",
        "103 Early Hints\r\nlink: x\r\n",
        "110 Whatever\r\nx: y\r\n",
        "199 Last\r\nx: y\r\n",
    ]
    .map(|head| format!("HTTP/1.1 {head}\r\n"));
    let all = interim.concat();
    for lead in interim.iter().chain([&all]) {
        let sent = lead.clone();
        let end = end_of(move || Reply::raw(&sent).then(Reply::ok("abc")));
        assert_eq!(end, Ok(b"abc".to_vec()), "{lead:?}");
    }
    let lead = all;
    let end = end_of(move || Reply::raw(&lead).then_close());
    assert_eq!(end, Err(ErrorKind::Truncated));
}

#[test]
fn what_nobody_asked_for_is_an_error_also_without_a_body() {
    for reply in [
        Reply::partial("abc", 0),
        Reply::partial("abc", 1),
        Reply::status(206),
        Reply::status(304).header("etag", "\"x\""),
    ] {
        assert_eq!(end_of(move || reply.clone()), Err(ErrorKind::Protocol));
    }
}

#[test]
fn nothing_is_a_body_however_it_is_framed() {
    for reply in [
        Reply::ok(""),
        Reply::status(200).declared_length(0),
        Reply::status(200).chunked([""; 0]),
        Reply::status(200).close_delimited(""),
        Reply::ok("").http10(),
        Reply::status(204),
        Reply::status(205),
    ] {
        assert_eq!(end_of(move || reply.clone()), Ok(vec![]));
    }
}

#[test]
fn an_http_1_0_server_is_understood() {
    for reply in [
        Reply::ok("abc").http10(),
        Reply::ok("abc").http10().header("connection", "keep-alive"),
        Reply::status(200).close_delimited("abc").http10(),
    ] {
        assert_eq!(end_of(move || reply.clone()), Ok(b"abc".to_vec()));
    }
    let short = || Reply::ok("half").declared_length(8).http10().then_close();
    assert_eq!(end_of(short), Err(ErrorKind::Truncated));
}

#[test]
fn a_length_beyond_32_bits_is_not_taken_for_its_lower_half() {
    const LENGTH: u64 = (5 << 30) + 4;
    // Four bytes come: as many as a length of 32 bits would ask for.
    let origin = Origin::start(|incoming| {
        let reply = match incoming.target() {
            "/chunked" => Reply::raw(headed("transfer-encoding: chunked", "100000004\r\nfour")),
            _ => Reply::ok("four").declared_length(LENGTH),
        };
        reply.then_close()
    });
    let downloader = with(|b: Builder| b.max_body(u64::MAX));
    let copy = |mut body: Body<'_>| io::copy(&mut body, &mut io::sink());
    let directory = super::files::Directory::new("beyond-32-bits");
    for path in ["/", "/chunked"] {
        let url = origin.url(path);
        let kinds = [
            downloader.fetch(&url).map(drop),
            downloader
                .fetch_with([&url], copy)
                .next()
                .unwrap()
                .map(drop),
            downloader
                .save_all([&url], &directory.0)
                .next()
                .unwrap()
                .map(drop),
        ]
        .map(|end| end.map_err(|error| error.kind()));
        assert_eq!(kinds, [Err(ErrorKind::Truncated); 3], "{path}");
    }
    let limited = with(|b| b.max_body(1 << 20));
    let error = limited.fetch(origin.url("/")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
}

/// A whole response that nobody asked for.
const FAKE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil";

#[test]
fn bytes_after_a_body_never_reach_the_next_response_whenever_they_come() {
    let bodies = [
        headed("content-length: 1", "x"),
        headed("transfer-encoding: chunked", "1\r\nx\r\n0\r\n\r\n"),
        "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        headed("content-length: 1\r\nconnection: keep-alive", "x"),
    ];
    for (kind, body) in bodies.into_iter().enumerate() {
        for extra in [FAKE, "e", "\r\n\r\nevil"] {
            let body = body.clone();
            let late = Gate::new();
            let held = late.clone();
            // Who waits here has sent all that he had to.
            let sent = Gate::new();
            let after = sent.clone();
            let origin = Origin::start(move |incoming| match incoming.target() {
                "/same-packet" => Reply::raw(format!("{body}{extra}")).then_wait(&after),
                "/next-packet" => Reply::raw(&body).then_send(extra).then_wait(&after),
                "/later" => Reply::raw(&body)
                    .then_wait(&held)
                    .then_send(extra)
                    .then_wait(&after),
                _ => Reply::ok("good"),
            });
            let downloader = with(|b| b.workers(1).per_host(crate::n(1)));
            for path in ["/same-packet", "/next-packet", "/later"] {
                downloader.fetch(origin.url(path)).unwrap();
                late.open();
                // What comes after the next request has been sent nobody can tell from its answer.
                sent.wait_for_waiters(1);
                sent.pass(1);
                for _ in 0..3 {
                    let page = downloader.fetch(origin.url("/good")).unwrap();
                    assert_eq!(page.body(), b"good", "{kind}, {extra:?}, {path}");
                }
            }
        }
    }
}

#[test]
fn a_body_that_is_cut_each_time_ends_and_is_not_whole() {
    // With an entity tag, so that the rest is asked for; the server cuts that as well.
    let origin = Origin::start(|incoming| {
        let from = match incoming.header("range") {
            Some(range) => range["bytes=".len()..]
                .trim_end_matches('-')
                .parse()
                .unwrap(),
            None => 0,
        };
        let reply = match from {
            0 => Reply::ok("x").declared_length(100),
            from => Reply::status(206)
                .header("content-range", format!("bytes {from}-99/100"))
                .body("x")
                .declared_length(100 - from),
        };
        reply.header("etag", "\"a\"").then_close()
    });
    let policy = RetryPolicy::new().retries(5).base(Duration::ZERO);
    let error = with(|b| b.retry(policy))
        .fetch(origin.url("/"))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Truncated);
    assert_eq!(origin.stats().requests.total, 6);
}
