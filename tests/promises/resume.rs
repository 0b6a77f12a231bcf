//! A body that is cut goes on where it broke off, and never with bytes of another.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fetchpool::{Downloader, ErrorKind, RetryPolicy};

use crate::support::{Incoming, Origin, Reply};
use crate::with;

const WHOLE: &str = "the first half, the second half";
const HALF: usize = 15;
const STRONG: &str = "\"v1\"";

fn cut() -> Reply {
    Reply::status(200)
        .declared_length(WHOLE.len() as u64)
        .then_send(&WHOLE[..HALF])
        .then_close()
}

/// What is asked for, cut after so many bytes.
fn cut_after(incoming: &Incoming, bytes: usize) -> Reply {
    let start = incoming.range_start().unwrap_or(0) as usize;
    let end = (start + bytes).min(WHOLE.len());
    let reply = match start {
        0 => Reply::status(200),
        _ => Reply::status(206).header("Content-Range", format!("bytes {start}-30/31")),
    };
    reply
        .header("ETag", STRONG)
        .declared_length((WHOLE.len() - start) as u64)
        .then_send(&WHOLE[start..end])
        .then_close()
}

fn rest(incoming: &Incoming) -> Reply {
    let start = incoming.range_start().expect("a part is asked for");
    Reply::partial(WHOLE, start).header("ETag", STRONG)
}

fn rest_as(range: &str, body: &str) -> Reply {
    let reply = Reply::status(206).header("ETag", STRONG);
    reply.header("Content-Range", range).body(body)
}

fn retrying() -> Downloader {
    with(|b| b.retry(RetryPolicy::new().base(Duration::from_millis(5))))
}

/// What comes of a cut body, and how often it was asked for, where the second time this is said.
fn after_a_cut(
    first: Reply,
    second: impl Fn(&Incoming) -> Reply + Send + Sync + 'static,
) -> (String, usize, Vec<Arc<Incoming>>) {
    let origin = Origin::start(move |incoming| match incoming.visit() {
        1 => first.clone(),
        2 => second(incoming),
        // Whatever is asked for then is asked for as a whole.
        _ if incoming.range_start().is_some() => Reply::status(416),
        _ => Reply::ok("something else"),
    });
    let page = retrying().fetch(origin.url("/")).unwrap();
    let attempts = page.report().attempts() as usize;
    (page.text().into_owned(), attempts, origin.log())
}

#[test]
fn a_body_with_a_strong_validator_goes_on_where_it_broke_off() {
    let chunked = Reply::status(200)
        .chunked_part([&WHOLE[..HALF]])
        .then_close();
    for first in [cut(), chunked] {
        let (body, attempts, log) = after_a_cut(first.header("ETag", STRONG), rest);
        assert_eq!(body, WHOLE);
        assert_eq!((attempts, log.len()), (2, 2));
        assert_eq!(log[1].header("range"), Some("bytes=15-"));
        assert_eq!(log[1].header("if-range"), Some(STRONG));
    }
}

#[test]
fn without_a_strong_validator_it_starts_again() {
    for first in [
        cut(),
        cut().header("ETag", "W/\"v1\""),
        cut().header("ETag", "v1"),
        cut().header("ETag", "\"v1\", \"v2\""),
    ] {
        let (body, attempts, log) = after_a_cut(first, |incoming| {
            assert_eq!(incoming.header("range"), None);
            Reply::ok(WHOLE)
        });
        assert_eq!(body, WHOLE);
        assert_eq!((attempts, log.len()), (2, 2));
    }
}

#[test]
fn what_is_not_certain_to_be_the_rest_is_not_taken_for_it() {
    type Second = fn(&Incoming) -> Reply;
    let seconds: &[(&str, Second)] = &[
        ("not up to the end", |_| {
            rest_as("bytes 15-20/31", &WHOLE[HALF..21])
        }),
        ("more than it says", |_| {
            rest_as("bytes 15-20/31", "EVILEVILEVILEVIL")
        }),
        ("less than it says", |_| rest_as("bytes 15-30/31", "EVIL")),
        ("in another coding", |_| {
            rest_as("bytes 15-30/31", &WHOLE[HALF..]).header("Content-Encoding", "gzip")
        }),
        ("in parts", |_| {
            rest_as("bytes 15-30/31", &WHOLE[HALF..]).header("Content-Type", "Multipart/byteranges")
        }),
        ("of nobody knows what", |_| {
            Reply::status(206)
                .header("Content-Range", "bytes 15-30/31")
                .body(&WHOLE[HALF..])
        }),
        ("the whole, as it is now", |_| {
            Reply::ok("another whole").header("ETag", "\"v2\"")
        }),
        ("from elsewhere", |_| Reply::partial(WHOLE, 16)),
        ("without saying what", |_| {
            Reply::status(206).body(&WHOLE[HALF..])
        }),
        ("of another", |i| {
            Reply::partial(WHOLE, i.range_start().unwrap()).header("ETag", "\"v2\"")
        }),
        ("of another length", |_| {
            Reply::status(206)
                .header("Content-Range", "bytes 15-30/32")
                .body(&WHOLE[HALF..])
        }),
        ("in the form of a request", |_| {
            Reply::status(206)
                .header("Content-Range", "bytes=15-30/31")
                .body(&WHOLE[HALF..])
        }),
        ("nothing left", |_| {
            Reply::status(416).header("Content-Range", "bytes */15")
        }),
        ("cut before its header", |_| Reply::nothing().then_reset()),
    ];
    for &(what, second) in seconds {
        let (body, attempts, log) = after_a_cut(cut().header("ETag", STRONG), second);
        assert_eq!(body, "something else", "{what}");
        assert_eq!((attempts, log.len()), (3, 3), "{what}");
        assert_eq!(log[2].header("range"), None, "{what}");
    }
}

#[test]
fn a_closure_reads_on_and_is_fed_no_byte_twice() {
    let origin = Origin::start(|incoming| match incoming.visit() {
        1 => cut().header("ETag", STRONG),
        _ => rest(incoming),
    });
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let mut bodies = retrying().fetch_with([origin.url("/")], move |mut body| {
        count.fetch_add(1, Ordering::SeqCst);
        assert!(!body.is_restart());
        let mut text = String::new();
        body.read_to_string(&mut text)?;
        Ok(text)
    });
    assert_eq!(bodies.next().unwrap().unwrap(), WHOLE);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[test]
fn a_body_that_is_cut_again_and_again_is_asked_for_as_often_as_there_are_retries() {
    let origin = Origin::start(|incoming| cut_after(incoming, 1));
    let error = retrying().fetch(origin.url("/")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Truncated);
    assert_eq!(error.report().unwrap().attempts(), 4);
    let ranges: Vec<_> = origin.log().iter().map(|i| i.range_start()).collect();
    assert_eq!(ranges, [None, Some(1), Some(2), Some(3)]);
}

#[test]
fn a_part_that_the_caller_asked_for_is_the_callers_affair() {
    let origin = Origin::start(|_| {
        Reply::status(206)
            .header("ETag", STRONG)
            .header("Content-Range", "bytes 0-30/31")
            .declared_length(31)
            .then_send("the")
            .then_close()
    });
    let request = fetchpool::Request::new(origin.url("/")).header(
        fetchpool::HeaderName::from_static("range"),
        fetchpool::HeaderValue::from_static("bytes=0-30"),
    );
    let error = retrying().fetch(request).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Truncated);
    let ranges: Vec<_> = origin.log().iter().map(|i| i.range_start()).collect();
    assert_eq!(ranges, [Some(0); 4]);
}

#[test]
fn a_part_of_what_has_no_known_length_is_not_taken_for_its_end() {
    let chunked = Reply::status(200)
        .chunked_part([&WHOLE[..HALF]])
        .then_close();
    let (body, attempts, _) = after_a_cut(chunked.header("ETag", STRONG), |_| {
        rest_as("bytes 15-20/*", &WHOLE[HALF..21])
    });
    assert_eq!((body.as_str(), attempts), ("something else", 3));
}

#[test]
fn what_the_server_says_when_the_rest_is_asked_for_is_heeded() {
    let busy = |seconds: &'static str| {
        move |_: &Incoming| Reply::status(503).header("Retry-After", seconds)
    };
    // Too long.
    let origin = Origin::start(move |incoming| match incoming.visit() {
        1 => cut().header("ETag", STRONG),
        _ => busy("7200")(incoming),
    });
    let error = retrying().fetch(origin.url("/")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Status);
    assert!(error.retry_after().is_some());
    assert_eq!(origin.stats().requests.total, 2);
    // Until then nobody asks.
    let (body, _, log) = after_a_cut(cut().header("ETag", STRONG), busy("1"));
    assert_eq!(body, "something else");
    assert!(log[2].at() - log[1].at() >= Duration::from_secs(1));
}

#[test]
fn a_time_limit_that_is_over_while_the_rest_is_awaited_says_so() {
    let origin = Origin::start(|incoming| match incoming.visit() {
        1 => cut().header("ETag", STRONG),
        _ => Reply::nothing().then_stall(),
    });
    let request = fetchpool::Request::new(origin.url("/")).timeout(Duration::from_millis(200));
    let error = retrying().fetch(request).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
}

#[test]
fn the_rest_is_asked_for_on_the_one_connection_that_the_token_is_for() {
    let origin = Origin::start(|incoming| cut_after(incoming, 7));
    let downloader = with(|b| b.per_host(crate::n(1)).retry(RetryPolicy::new().retries(9)));
    let page = downloader.fetch(origin.url("/")).unwrap();
    assert_eq!(page.text(), WHOLE);
    assert_eq!(origin.stats().connections.peak, 1);
}

#[test]
fn a_body_that_has_failed_does_not_end_well_for_who_reads_on() {
    let origin = Origin::start(|_| Reply::ok("half").declared_length(9).then_close());
    let mut bodies = with(|b| b).fetch_with([origin.url("/")], |mut body| {
        let mut buffer = [0; 100];
        let amounts: Vec<_> = (0..5).map(|_| body.read(&mut buffer).ok()).collect();
        Ok(amounts)
    });
    assert_eq!(
        bodies.next().unwrap().unwrap(),
        [Some(4), None, None, None, None]
    );
}

#[test]
fn a_not_modified_tells_the_length_that_it_does_not_send() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/304" => Reply::raw("HTTP/1.1 304 Not Modified\r\nContent-Length: 31\r\n\r\n"),
        _ => Reply::raw("HTTP/1.1 204 No Content\r\nContent-Length: 31\r\n\r\n"),
    });
    for path in ["/304", "/204"] {
        let request = fetchpool::Request::new(origin.url(path)).header(
            fetchpool::HeaderName::from_static("if-none-match"),
            fetchpool::HeaderValue::from_static(STRONG),
        );
        let page = retrying().fetch(request).unwrap();
        assert_eq!((page.body(), page.report().attempts()), (&b""[..], 1));
    }
}

#[test]
fn who_takes_statuses_for_responses_has_no_error_of_one_for_the_rest() {
    let origin = Origin::start(|incoming| match incoming.visit() {
        1 => cut().header("ETag", STRONG),
        _ => Reply::status(503),
    });
    let policy = RetryPolicy::new().retries(1).base(Duration::from_millis(5));
    let downloader = with(|b| b.retry(policy).status_as_error(false));
    let error = downloader.fetch(origin.url("/")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Truncated);
}
