//! The caller's code may panic: its job has an outcome, and nothing is lost.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use fetchpool::{Body, ErrorKind, Request, Resolve, RetryPolicy};

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

/// What the scene of a panic of somebody's code is to leave: every token, and a pool that goes on.
fn assert_well(downloader: &fetchpool::Downloader, url: &str) {
    let permits: Vec<_> = (0..6).map(|_| downloader.try_permit(url)).collect();
    let had = permits.iter().flatten().flatten().count();
    assert_eq!(had, 6, "tokens");
}

#[test]
fn a_panic_of_the_retry_policy_is_that_jobs_outcome() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/sorry" => Reply::status(500),
        _ => Reply::ok("x"),
    });
    let policy = RetryPolicy::new().decide(|failure| panic!("{}", failure.url().path()));
    let downloader = with(|b| b.retry(policy));
    let urls = (0..60).map(|i| origin.url(if i % 2 == 0 { "/sorry" } else { "/" }));
    let (mut fetched, mut panicked) = (0, 0);
    for page in downloader.fetch_all(urls) {
        match page.map_err(|error| (error.kind(), error.to_string())) {
            Ok(_) => fetched += 1,
            Err((ErrorKind::Panicked, text)) => {
                assert!(text.contains("/sorry"), "{text}");
                panicked += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((fetched, panicked), (30, 30));
    assert_well(&downloader, &origin.url("/"));
}

#[test]
fn a_panic_of_a_resolver_or_a_policy_loses_no_token_and_no_worker() {
    struct Panics;
    impl Resolve for Panics {
        fn resolve(&self, host: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
            panic!("{host}")
        }
    }
    let origin = Origin::start(|incoming| match incoming.target() {
        "/away" => Reply::redirect(302, "/there"),
        _ => Reply::ok("x"),
    });
    let downloader = with(|b| {
        b.workers(2)
            .resolver(Panics)
            .allow_redirect(|_, _| panic!("redirect"))
    });
    let named = format!("http://named.test:{}/", origin.addr().port());
    let urls = [named.clone(), origin.url("/away"), origin.url("/")];
    let urls = urls.iter().cycle().take(60);
    let kinds: Vec<_> = downloader
        .fetch_all(urls)
        .in_order()
        .map(|page| page.map(drop).map_err(|error| error.kind()))
        .collect();
    assert_eq!(kinds.len(), 60);
    for three in kinds.chunks(3) {
        let expected = [Err(ErrorKind::Dns), Err(ErrorKind::Panicked), Ok(())];
        assert_eq!(three, expected);
    }
    assert_well(&downloader, &origin.url("/"));
    assert_well(&downloader, &named);

    let downloader = with(|b| b.workers(2).allow_address(|_| panic!("address")));
    let urls = (0..20).map(|_| origin.url("/"));
    for page in downloader.fetch_all(urls) {
        assert_eq!(page.unwrap_err().kind(), ErrorKind::Panicked);
    }
    assert_well(&downloader, &origin.url("/"));
}

/// Its conversion into a request panics, if it says so.
struct Line(String, bool);

impl From<Line> for Request {
    fn from(Line(url, panics): Line) -> Self {
        assert!(!panics, "conversion");
        Self::new(url)
    }
}

#[test]
fn a_panic_of_the_input_is_the_callers_own_and_loses_nothing() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let downloader = once();
    let url = origin.url("/");
    let input = |iterator_panics: bool| {
        let url = url.clone();
        (0..20).map(move |i| {
            assert!(i != 9 || !iterator_panics, "input");
            Line(url.clone(), i == 9)
        })
    };
    for iterator_panics in [true, false] {
        let mut batch = downloader.fetch_all(input(iterator_panics));
        let said = catch_unwind(AssertUnwindSafe(|| batch.by_ref().count())).unwrap_err();
        let said = said.downcast_ref::<&str>().copied();
        assert_eq!(
            said,
            Some(if iterator_panics {
                "input"
            } else {
                "conversion"
            })
        );
        // Those before it and, where the iterator can go on, those after it.
        assert!(batch.count() >= 9 || iterator_panics);
        let pushed = catch_unwind(AssertUnwindSafe(|| {
            let (jobs, pages) = downloader.open();
            jobs.push(Line(url.clone(), false));
            let _ = catch_unwind(AssertUnwindSafe(|| jobs.push(Line(url.clone(), true))));
            drop(jobs);
            pages.flatten().count()
        }));
        assert_eq!(pushed.unwrap(), 1);
    }
    assert_eq!(downloader.fetch_all([&url; 20]).flatten().count(), 20);
    assert_well(&downloader, &url);
}

/// There is one logger for the whole process.
#[test]
fn a_logger_that_panics_costs_no_job_its_outcome() {
    struct Broken;
    impl log::Log for Broken {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }

        fn log(&self, record: &log::Record<'_>) {
            assert!(!record.target().starts_with("fetchpool"), "the log is full");
        }

        fn flush(&self) {}
    }
    if !crate::support::alone("panic::a_logger_that_panics_costs_no_job_its_outcome") {
        return;
    }
    log::set_logger(&Broken).unwrap();
    log::set_max_level(log::LevelFilter::Debug);
    let origin = Origin::start(|incoming| match incoming.visit() {
        1 => Reply::status(503),
        _ if incoming.target() == "/gone" => Reply::status(404),
        _ => Reply::ok("x"),
    });
    let retry = RetryPolicy::new().retries(1).base(Duration::from_millis(1));
    let downloader = with(|b| b.retry(retry).workers(2));
    let mirrored = Request::new(origin.url("/gone")).mirror(origin.url("/there"));
    let requests = [Request::new(origin.url("/busy")), mirrored];
    let outcomes: Vec<_> = downloader.fetch_all(requests).collect();
    assert_eq!(outcomes.len(), 2);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}
