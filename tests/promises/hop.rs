//! One request and its response: what is whole, what is an error, and which.

use std::time::Duration;

use fetchpool::{ErrorKind, HeaderName, HeaderValue, Request};

use crate::support::{Dead, Origin, Reply};
use crate::{once, with};

fn kind(reply: impl Fn() -> Reply + Send + Sync + 'static) -> Result<Vec<u8>, ErrorKind> {
    let origin = Origin::start(move |_| reply());
    let page = once().fetch(origin.url("/"));
    page.map(fetchpool::Fetched::into_body)
        .map_err(|error| error.kind())
}

#[test]
fn a_whole_body_is_whole_however_it_is_framed() {
    let long = "x".repeat(300_000);
    let body = long.clone();
    assert_eq!(kind(move || Reply::ok(&body)), Ok(long.into_bytes()));
    assert_eq!(kind(|| Reply::ok("")), Ok(vec![]));
    assert_eq!(kind(|| Reply::status(204)), Ok(vec![]));
    assert_eq!(
        kind(|| Reply::status(200).chunked(["ab", "c"])),
        Ok(b"abc".to_vec())
    );
    assert_eq!(
        kind(|| Reply::status(200).close_delimited("abc")),
        Ok(b"abc".to_vec())
    );
    assert_eq!(kind(|| Reply::ok("abc").http10()), Ok(b"abc".to_vec()));
    let early = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n";
    assert_eq!(
        kind(move || Reply::raw(early).then(Reply::ok("abc"))),
        Ok(b"abc".to_vec())
    );
}

#[test]
fn a_body_cut_short_is_truncated_however_it_is_framed() {
    let truncated = Err(ErrorKind::Truncated);
    assert_eq!(
        kind(|| Reply::ok("half").declared_length(8).then_close()),
        truncated
    );
    assert_eq!(
        kind(|| Reply::ok("half").declared_length(8).then_reset()),
        truncated
    );
    assert_eq!(
        kind(|| Reply::status(200).chunked_part(["ab"]).then_close()),
        truncated
    );
    assert_eq!(
        kind(|| Reply::status(200).chunked_part(["ab"]).then_reset()),
        truncated
    );
    assert_eq!(
        kind(|| Reply::raw("HTTP/1.1 200 OK\r\n\r\nabc").then_reset()),
        truncated
    );
    assert_eq!(kind(|| Reply::nothing().then_close()), truncated);
    assert_eq!(
        kind(|| Reply::raw("HTTP/1.1 200 OK\r\nconte").then_close()),
        truncated
    );
}

#[test]
fn a_chunked_body_is_truncated_wherever_it_is_cut() {
    const CHUNKS: &str = "5\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\n";
    for length in 0..CHUNKS.len() {
        let sent = format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{}",
            &CHUNKS[..length]
        );
        let cut = kind(move || Reply::raw(&sent).then_close());
        assert_eq!(cut, Err(ErrorKind::Truncated), "after {length} bytes");
    }
}

#[test]
fn what_is_not_http_or_not_an_answer_is_a_protocol_error() {
    let protocol = Err(ErrorKind::Protocol);
    assert_eq!(
        kind(|| Reply::raw("SSH-2.0-OpenSSH_9.2\r\n").then_close()),
        protocol
    );
    assert_eq!(kind(|| Reply::status(206).body("part")), protocol);
    assert_eq!(kind(|| Reply::status(304)), protocol);
    let huge = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(100_000));
    assert_eq!(kind(move || Reply::raw(&huge)), protocol);
}

#[test]
fn a_body_without_a_length_is_marked_as_not_verified() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/close" => Reply::status(200).close_delimited("abc"),
        "/chunked" => Reply::status(200).chunked(["abc"]),
        _ => Reply::ok("abc"),
    });
    let downloader = once();
    let verified = |path| {
        downloader
            .fetch(origin.url(path))
            .unwrap()
            .length_verified()
    };
    assert_eq!(
        ["/close", "/chunked", "/"].map(verified),
        [false, true, true]
    );
}

#[test]
fn a_status_of_400_or_more_is_an_error_or_handed_over() {
    let origin = Origin::start(|incoming| {
        let status = incoming.target()[1..].parse().expect("a status");
        Reply::status(status).body("sorry")
    });
    let downloader = once();
    for status in [400, 404, 410, 418, 500, 503, 599] {
        let url = origin.url(&format!("/{status}"));
        let error = downloader.fetch(&url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Status);
        assert_eq!(error.status().map(|s| s.as_u16()), Some(status));
        assert!(error.to_string().contains(&status.to_string()), "{error}");
        let handed_over = with(|b| b.status_as_error(false)).fetch(&url).unwrap();
        assert_eq!(handed_over.status().as_u16(), status);
        assert_eq!(handed_over.body(), b"sorry");
    }
    assert_eq!(
        origin.stats().connections.total,
        1 + 7,
        "error bodies are drained"
    );
}

#[test]
fn a_body_over_the_limit_is_too_large_told_or_not() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/told" => Reply::status(200)
            .declared_length(1001)
            .then_repeat("x", 1001),
        "/chunked" => Reply::status(200).chunked(vec!["x".repeat(1001)]),
        _ => Reply::ok("x".repeat(1000)),
    });
    let downloader = with(|b| b.max_body(1000).max_file(Some(1000)));
    for path in ["/told", "/chunked"] {
        let url = origin.url(path);
        assert_eq!(
            downloader.fetch(&url).unwrap_err().kind(),
            ErrorKind::TooLarge
        );
        let copy = |mut body: fetchpool::Body<'_>| std::io::copy(&mut body, &mut std::io::sink());
        let error = downloader
            .fetch_with([&url], copy)
            .next()
            .unwrap()
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
    }
    assert_eq!(
        downloader.fetch(origin.url("/")).unwrap().body().len(),
        1000
    );
}

#[test]
fn who_cannot_be_reached_is_a_connect_error_and_who_is_silent_a_timeout() {
    let downloader = with(|b| {
        b.connect_timeout(Duration::from_millis(200))
            .idle_timeout(Duration::from_millis(200))
    });
    let kind = |url: String| downloader.fetch(url).unwrap_err().kind();
    assert_eq!(kind(Dead::refusing().url("/")), ErrorKind::Connect);
    let mute = Dead::mute();
    assert_eq!(kind(mute.url("/")), ErrorKind::Timeout);
    let unreachable = Dead::unreachable();
    assert_eq!(kind(unreachable.url("/")), ErrorKind::Timeout);
    let stalls = Origin::start(|_| Reply::ok("half").declared_length(8).then_stall());
    assert_eq!(kind(stalls.url("/")), ErrorKind::Timeout);
}

#[test]
fn redirects_are_followed_and_what_leads_nowhere_is_an_error() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/loop" => Reply::redirect(302, "/loop"),
        "/file" => Reply::redirect(302, "file:///etc/passwd"),
        "/bad" => Reply::redirect(302, "http://:99999/"),
        "/none" => Reply::status(302).body("here"),
        "/space" => Reply::redirect(307, "/a b?c=%7e#f"),
        target => Reply::ok(target),
    });
    let downloader = once();
    let kind = |path| {
        downloader
            .fetch(origin.url(path))
            .map_err(|error| error.kind())
    };
    for path in ["/loop", "/file", "/bad"] {
        assert_eq!(kind(path).unwrap_err(), ErrorKind::Redirect, "{path}");
    }
    assert_eq!(kind("/none").unwrap().body(), b"here");
    let page = kind("/space").unwrap();
    assert_eq!(page.body(), b"/a%20b?c=%7e");
    assert_eq!(page.url().fragment(), Some("f"));
}

#[test]
fn credentials_are_not_shown_to_another_host() {
    let other = Origin::start(|_| Reply::ok("x"));
    let to = other.url("/there");
    let origin = Origin::start(move |incoming| match incoming.target() {
        "/out" => Reply::redirect(302, &to),
        "/in" => Reply::redirect(302, "/there"),
        _ => Reply::ok("x"),
    });
    let name = HeaderName::from_static;
    for path in ["/in", "/out"] {
        let request = Request::new(origin.url(path))
            .header(name("authorization"), HeaderValue::from_static("Bearer x"))
            .header(name("cookie"), HeaderValue::from_static("a=b"))
            .header(name("x-mine"), HeaderValue::from_static("kept"));
        once().fetch(request).unwrap();
    }
    let seen = |origin: &Origin| {
        let log = origin.log();
        let there = log
            .iter()
            .find(|i| i.target() == "/there")
            .expect("it was asked for")
            .clone();
        ["authorization", "cookie", "x-mine"].map(|name| there.header(name).is_some())
    };
    assert_eq!(seen(&origin), [true, true, true]);
    assert_eq!(seen(&other), [false, false, true]);
}

#[test]
fn headers_of_the_request_take_the_place_of_the_downloaders() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let name = HeaderName::from_static;
    let downloader = with(|b| {
        b.header(name("x-a"), HeaderValue::from_static("all"))
            .header(name("x-b"), HeaderValue::from_static("all"))
    });
    let request =
        Request::new(origin.url("/")).header(name("x-b"), HeaderValue::from_static("one"));
    downloader.fetch(request).unwrap();
    let seen = &origin.log()[0];
    assert_eq!(seen.header("x-a"), Some("all"));
    assert_eq!(seen.header("x-b"), Some("one"));
    assert_eq!(seen.header("accept-encoding"), Some("identity"));
    let agent = seen.header("user-agent").unwrap();
    assert_eq!(agent, concat!("fetchpool/", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_connection_that_the_server_closed_while_idle_is_not_a_failure() {
    // Each connection is closed after its response, though nothing says so.
    let origin = Origin::start(|_| Reply::ok("x").then_close());
    let downloader = with(|b| b.workers(1));
    let urls = (0..50).map(|i| origin.url(&format!("/{i}")));
    let failed: Vec<_> = downloader.fetch_all(urls).filter_map(Result::err).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn bytes_after_a_body_never_reach_the_next_response() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/0" => Reply::ok("x").then_send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"),
        _ => Reply::ok("good"),
    });
    let downloader = with(|b| b.workers(1));
    let urls = (0..20).map(|i| origin.url(&format!("/{}", i % 2)));
    for page in downloader.fetch_all(urls) {
        assert_ne!(page.unwrap().body(), b"evil");
    }
}

#[test]
fn errors_name_the_url_without_its_secrets() {
    let dead = Dead::refusing();
    let url = format!("http://user:hunter2@{}/x", dead.addr());
    let error = once().fetch(&url).unwrap_err();
    let shown = format!("{error} {error:?} {:?}", error.report());
    assert!(error.to_string().contains(&dead.url("/x")), "{error}");
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(!error.url().unwrap().contains("user"));
}

#[test]
fn a_user_and_password_are_sent_decoded_and_shown_to_nobody_else() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let url = format!("http://u%40x:p%2Fq@{}/", origin.addr());
    let page = once().fetch(url).unwrap();
    // base64("u@x:p/q")
    let sent = origin.log()[0].header("authorization").map(str::to_owned);
    assert_eq!(sent.as_deref(), Some("Basic dUB4OnAvcQ=="));
    assert_eq!(page.url().as_str(), origin.url("/"));
}

#[test]
fn a_capacity_of_one_is_one_connection_whoever_asks() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let downloader = with(|b| {
        b.per_host(crate::n(1))
            .limit(fetchpool::Key::named("x"), crate::n(50))
    });
    let urls = (0..20).map(|i| format!("http://u{i}:p@{}/", origin.addr()));
    assert_eq!(downloader.fetch_all(urls).flatten().count(), 20);
    assert_eq!(origin.stats().connections.peak, 1);
}

#[test]
fn headers_that_announce_a_body_are_not_sent() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let mut request = Request::new(origin.url("/"));
    for (name, value) in [
        ("content-length", "5"),
        ("transfer-encoding", "chunked"),
        ("expect", "100-continue"),
    ] {
        let value = HeaderValue::from_static(value);
        request = request.header(HeaderName::from_static(name), value);
    }
    once().fetch(request).unwrap();
    let seen = &origin.log()[0];
    let sent =
        ["content-length", "transfer-encoding", "expect"].map(|name| seen.header(name).is_some());
    assert_eq!(sent, [false; 3]);
}

#[test]
fn a_server_that_never_comes_to_the_point_is_given_up() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(40_000);
    assert_eq!(
        kind(move || Reply::raw(&interim).then_stall()),
        Err(ErrorKind::Protocol)
    );
    let trailers = format!("0\r\n{}", "x: y\r\n".repeat(200_000));
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n";
    let endless = move || Reply::raw(head).then_send(&trailers).then_stall();
    assert!(matches!(
        kind(endless),
        Err(ErrorKind::Protocol | ErrorKind::Truncated)
    ));
}

#[test]
fn a_body_that_nobody_wants_is_not_waited_for() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/to" => Reply::ok("there"),
        "/redirect" => Reply::redirect(302, "/to").declared_length(10).then_stall(),
        _ => Reply::status(404).declared_length(10).then_stall(),
    });
    let begun = std::time::Instant::now();
    let downloader = once();
    assert_eq!(
        downloader.fetch(origin.url("/redirect")).unwrap().body(),
        b"there"
    );
    let error = downloader.fetch(origin.url("/none")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Status);
    let ignore = |body: fetchpool::Body<'_>| Ok(body.status());
    let stalls = Origin::start(|_| Reply::ok("half").declared_length(10).then_stall());
    assert_eq!(
        downloader
            .fetch_with([stalls.url("/")], ignore)
            .flatten()
            .count(),
        1
    );
    // Not the idle time limit of 30 s.
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_transfer_coding_that_is_not_chunked_is_no_proof_of_a_length() {
    let head = |version: &str, coding: &str| {
        format!("HTTP/{version} 200 OK\r\ntransfer-encoding: {coding}\r\n\r\n3\r\nabc\r\n")
    };
    for (version, coding) in [
        ("1.0", "chunked"),
        ("1.1", "gzip"),
        ("1.1", "gzip, chunked"),
        ("1.1", "x"),
    ] {
        let raw = head(version, coding);
        assert_eq!(
            kind(move || Reply::raw(&raw).then_close()),
            Err(ErrorKind::Protocol),
            "{coding}"
        );
    }
}

#[test]
fn statuses_beyond_the_classes_are_errors_and_so_is_a_switch_of_protocols() {
    assert_eq!(kind(|| Reply::status(600)), Err(ErrorKind::Status));
    assert_eq!(kind(|| Reply::status(999)), Err(ErrorKind::Status));
    let switch = "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n";
    assert_eq!(kind(move || Reply::raw(switch)), Err(ErrorKind::Protocol));
}

#[test]
fn long_urls_are_sent_and_endless_ones_refused() {
    let origin = Origin::start(|incoming| Reply::ok(incoming.target().len().to_string()));
    let downloader = once();
    let url = |length: usize| origin.url(&format!("/{}", "x".repeat(length - 1)));
    assert_eq!(downloader.fetch(url(20_000)).unwrap().text(), "20000");
    let error = downloader.fetch(url(1_000_000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidUrl);
}

#[test]
fn times_and_counts_without_end_are_taken() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let downloader = with(|b| {
        b.connect_timeout(Duration::MAX)
            .idle_timeout(Duration::MAX)
            .workers(usize::MAX)
            .per_host(std::num::NonZeroUsize::MAX)
            .unread(std::num::NonZeroUsize::MAX)
    });
    let urls = (0..20).map(|_| origin.url("/"));
    assert_eq!(downloader.fetch_all(urls).flatten().count(), 20);
}
