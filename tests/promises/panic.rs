//! The caller's code may panic: its job has an outcome, and nothing is lost.

use fetchpool::{Body, ErrorKind, Request};

use crate::support::{Origin, Reply};
use crate::{n, once, with};

#[test]
fn a_panic_in_a_closure_is_that_jobs_outcome_and_loses_no_token_and_no_worker() {
    let origin = Origin::start(|incoming| Reply::ok(incoming.target()));
    let downloader = with(|b| b.workers(2).per_host(n(2)));
    let urls = (0..100).map(|i| origin.url(&format!("/{i}")));
    let read = |body: Body<'_>| {
        let index = body.report().index();
        assert!(index % 2 == 0, "odd {index}");
        std::io::read_to_string(body)
    };
    let mut panicked = 0;
    for outcome in downloader.fetch_with(urls, read).in_order() {
        match outcome {
            Ok(text) => assert!(text.starts_with('/')),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Panicked);
                let index = error.report().unwrap().index();
                assert!(
                    error.to_string().contains(&format!("odd {index}")),
                    "{error}"
                );
                panicked += 1;
            }
        }
    }
    assert_eq!(panicked, 50);
    let url = origin.url("/");
    let both = [downloader.try_permit(&url), downloader.try_permit(&url)];
    assert!(both.iter().all(|permit| permit.as_ref().unwrap().is_some()));
}

#[test]
fn an_error_of_the_closure_is_that_jobs_outcome() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let urls = [origin.url("/")];
    let fail = |_: Body<'_>| Err::<(), _>(std::io::Error::other("no room"));
    let mut batch = once().fetch_with(urls, fail);
    let error = batch.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("no room"), "{error}");
}

#[test]
fn a_body_that_the_closure_does_not_read_does_no_harm() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/small" => Reply::ok("x".repeat(1000)),
        _ => Reply::status(200)
            .declared_length(100_000_000)
            .then_repeat("x", 100_000_000),
    });
    let downloader = with(|b| b.per_host(n(1)));
    let ignore = |body: Body<'_>| Ok(body.status().as_u16());
    let small: Vec<_> = (0..20).map(|_| origin.url("/small")).collect();
    assert_eq!(
        downloader.fetch_with(small, ignore).flatten().sum::<u16>(),
        20 * 200
    );
    assert_eq!(
        origin.stats().connections.total,
        1,
        "the rest was read, so it was kept"
    );
    let large = [origin.url("/large"), origin.url("/small")];
    assert_eq!(downloader.fetch_with(large, ignore).flatten().count(), 2);
}

#[test]
fn a_closure_that_waits_for_its_own_downloader_is_told_rather_than_left_to_hang() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let downloader = with(|b| b.workers(1));
    let url = origin.url("/");
    let nested: [fn(&fetchpool::Downloader, &str); 3] = [
        |d, url| drop(d.fetch(url)),
        |d, url| assert_eq!(d.fetch_all([url]).count(), 1),
        |d, url| drop(d.permit(url)),
    ];
    for nested in nested {
        let (inner, again) = (downloader.clone(), url.clone());
        let mut batch = downloader.fetch_with([&url], move |_| {
            nested(&inner, &again);
            Ok(())
        });
        let error = batch.next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Panicked);
        assert!(error.to_string().contains("open_with"), "{error}");
    }
    let other = once();
    let again = url.clone();
    let fetch = move |_: Body<'_>| other.fetch(&again).map_err(std::io::Error::other);
    assert_eq!(downloader.fetch_with([&url], fetch).flatten().count(), 1);
}

/// Panics when it is dropped, once.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "bomb");
    }
}

#[test]
fn a_tag_or_a_panic_that_panics_when_dropped_loses_no_outcome() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let downloader = with(|b| b.workers(1).unread(n(1)));
    let bombs = (0..3).map(|_| Request::new(origin.url("/")).tag(Bomb));
    let outcomes: Vec<_> = downloader.fetch_with(bombs, |_| Ok(())).collect();
    assert_eq!(outcomes.len(), 3);
    for outcome in outcomes {
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Panicked);
    }
    let urls = (0..3).map(|_| origin.url("/"));
    let explode = |_: Body<'_>| -> std::io::Result<()> { std::panic::panic_any(Bomb) };
    assert_eq!(
        downloader
            .fetch_with(urls, explode)
            .filter(Result::is_err)
            .count(),
        3
    );
}
