//! As many outcomes as requests, and no batch is in another's way.

use std::rc::Rc;

use fetchpool::{ErrorKind, Priority, Request};

use crate::support::{Gate, Origin, Reply};
use crate::{n, once, with};

fn echo() -> Origin {
    Origin::start(|incoming| Reply::ok(incoming.target()))
}

#[test]
fn whatever_turns_into_a_request_is_taken() {
    let origin = echo();
    let downloader = once();
    let url = origin.url("/a");
    let parsed = fetchpool::Url::parse(&url).unwrap();
    let text = format!("{url}\n  {url} \n");
    let owned = vec![url.clone(), url.clone()];
    // Neither `Send` nor `'static`.
    let shared = Rc::new(url.clone());
    let lazy = (0..2).map(|_| shared.as_str());
    let counts = [
        downloader.fetch_all(text.lines()).flatten().count(),
        downloader.fetch_all(&owned).flatten().count(),
        downloader.fetch_all(owned).flatten().count(),
        downloader.fetch_all([&parsed, &parsed]).flatten().count(),
        downloader
            .fetch_all([parsed.clone(), parsed])
            .flatten()
            .count(),
        downloader
            .fetch_all([url.as_str(), &url].iter())
            .flatten()
            .count(),
        downloader.fetch_all(lazy).flatten().count(),
        downloader
            .fetch_all([Request::new(&url), Request::new(&url)])
            .flatten()
            .count(),
    ];
    assert_eq!(counts, [2; 8]);
}

#[test]
fn a_bad_url_fails_alone_and_everything_has_its_outcome() {
    let origin = echo();
    let urls = [
        origin.url("/0"),
        "ftp://example.com/".to_owned(),
        origin.url("/2"),
        "not a URL".to_owned(),
        String::new(),
        origin.url("/5"),
    ];
    let outcomes: Vec<_> = once().fetch_all(&urls).in_order().collect();
    assert_eq!(outcomes.len(), 6);
    for (index, outcome) in outcomes.into_iter().enumerate() {
        match (index, outcome) {
            (0 | 2 | 5, Ok(page)) => assert_eq!(page.text(), format!("/{index}")),
            (1 | 3 | 4, Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::InvalidUrl);
                assert_eq!(error.report().unwrap().index(), index as u64);
            }
            (_, other) => panic!("{index}: {other:?}"),
        }
    }
}

#[test]
fn outcomes_come_as_they_finish_or_in_the_inputs_order() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |incoming| match incoming.target() {
        "/0" => Reply::ok("/0").after(&held),
        target => Reply::ok(target),
    });
    let urls: Vec<_> = (0..50).map(|i| origin.url(&format!("/{i}"))).collect();
    let downloader = once();

    let mut batch = downloader.fetch_all(&urls);
    for _ in 1..50 {
        assert_ne!(batch.next().unwrap().unwrap().text(), "/0");
    }
    gate.open();
    assert_eq!(batch.next().unwrap().unwrap().text(), "/0");
    assert!(batch.next().is_none());

    let in_order: Vec<_> = downloader
        .fetch_all(&urls)
        .in_order()
        .map(|page| page.unwrap().text().into_owned())
        .collect();
    let expected: Vec<_> = (0..50).map(|i| format!("/{i}")).collect();
    assert_eq!(in_order, expected);
}

#[test]
fn in_order_works_where_more_are_held_back_than_may_be_unread() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |incoming| match incoming.target() {
        "/0" => Reply::ok("/0").after(&held),
        target => Reply::ok(target),
    });
    let urls: Vec<_> = (0..50).map(|i| origin.url(&format!("/{i}"))).collect();
    let downloader = with(|b| b.unread(n(2)));
    let opener = std::thread::spawn({
        let other = echo();
        let downloader = downloader.clone();
        move || {
            // The first is held until all others have been asked for.
            gate.wait_for_waiters(1);
            downloader.fetch(other.url("/")).unwrap();
            gate.open();
        }
    });
    let in_order: Vec<_> = downloader.fetch_all(&urls).in_order().flatten().collect();
    opener.join().unwrap();
    assert_eq!(in_order.len(), 50);
    assert!(
        in_order
            .iter()
            .zip(0..)
            .all(|(page, i)| page.report().index() == i)
    );
}

#[test]
fn a_batch_that_is_never_read_delays_no_other_even_on_the_same_host() {
    let origin = echo();
    let downloader = with(|b| b.workers(4).unread(n(4)));
    let urls = |from: usize| (from..from + 100).map(|i| origin.url(&format!("/{i}")));
    let mut unread = downloader.fetch_all(urls(0).collect::<Vec<_>>());
    // It has begun, and from here on nobody asks for more.
    unread.next().unwrap().unwrap();
    let read = downloader.fetch_all(urls(1000).collect::<Vec<_>>());
    assert_eq!(read.flatten().count(), 100);
    let of_unread = origin.targets().iter().filter(|t| t.len() < 5).count();
    assert!(
        of_unread <= 1 + 4,
        "{of_unread} were fetched, of which 4 may be unread"
    );
    assert_eq!(unread.flatten().count(), 99);
}

#[test]
fn bodies_that_are_never_read_are_bounded_in_bytes_and_delay_no_other_batch() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/small" => Reply::ok("small"),
        _ => Reply::ok(vec![b'x'; 3 << 20]),
    });
    // Each of the large ones counts for four.
    let downloader = with(|b| b.workers(1).unread(n(16)));
    let mut unread = downloader.fetch_all(vec![origin.url("/large"); 20]);
    unread.next().unwrap().unwrap();
    // They take turns.
    let read = downloader.fetch_all(vec![origin.url("/small"); 40]);
    assert_eq!(read.flatten().count(), 40);
    let targets = origin.targets();
    let of_unread = targets.iter().filter(|t| *t == "/large").count();
    assert!(of_unread <= 1 + 4, "{of_unread} wait, of 3 MiB each");
    assert_eq!(unread.flatten().count(), 19);
}

#[test]
fn a_body_that_counts_for_more_than_all_that_may_be_unread_comes_as_any_other() {
    let origin = Origin::start(|_| Reply::ok(vec![b'x'; 3 << 20]));
    let downloader = with(|b| b.unread(n(1)));
    let pages = downloader.fetch_all(vec![origin.url("/"); 5]);
    let sizes: Vec<_> = pages.map(|page| page.unwrap().body().len()).collect();
    assert_eq!(sizes, [3 << 20; 5]);
}

#[test]
fn a_batch_is_read_on_another_thread_than_the_one_that_made_it() {
    let origin = echo();
    let downloader = once();
    let batch = downloader.fetch_all(
        (0..20)
            .map(|i| origin.url(&format!("/{i}")))
            .collect::<Vec<_>>(),
    );
    drop(downloader);
    let count = std::thread::spawn(move || batch.flatten().count())
        .join()
        .unwrap();
    assert_eq!(count, 20);
}

#[test]
fn a_higher_priority_goes_first_within_a_host_and_between_hosts() {
    let gate = Gate::new();
    let held = gate.clone();
    let first = Origin::start(move |_| Reply::ok("x").after(&held));
    let origin = echo();
    let downloader = with(|b| b.workers(1));
    // Input order, with the one worker busy until all are in.
    let mut requests = vec![Request::new(first.url("/first"))];
    for (i, priority) in [Priority::Low, Priority::Normal, Priority::High]
        .into_iter()
        .enumerate()
    {
        for j in 0..3 {
            requests.push(Request::new(origin.url(&format!("/{i}{j}"))).priority(priority));
        }
    }
    let mut batch = downloader.fetch_all(requests);
    let reading = std::thread::spawn(move || batch.by_ref().flatten().count());
    gate.wait_for_waiters(1);
    // All ten have been let in by the time at which the first can come out.
    gate.open();
    assert_eq!(reading.join().unwrap(), 10);
    let targets = origin.targets();
    assert_eq!(
        targets,
        [
            "/20", "/21", "/22", "/10", "/11", "/12", "/00", "/01", "/02"
        ]
    );
}

#[test]
fn an_outcome_carries_its_request_and_how_it_went() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/a" => Reply::redirect(301, "/b"),
        "/b" => Reply::ok("b"),
        _ => Reply::status(404),
    });
    let downloader = once();
    let requests = ["/a", "/c"].map(|path| Request::new(origin.url(path)).tag(path));
    let outcomes: Vec<_> = downloader.fetch_all(requests).in_order().collect();
    let page = outcomes[0].as_ref().unwrap();
    assert_eq!(page.url().path(), "/b");
    let report = page.report();
    assert_eq!(report.request().url().unwrap().path(), "/a");
    assert_eq!(report.request().tag_ref::<&str>(), Some(&"/a"));
    assert_eq!((report.index(), report.attempts()), (0, 1));
    assert_eq!(report.redirects().len(), 1);
    assert!(!report.timings().first_byte().is_zero());
    assert!(!report.timings().connect().is_zero());
    let error = outcomes[1].as_ref().unwrap_err();
    assert_eq!(
        error.report().unwrap().request().tag_ref::<&str>(),
        Some(&"/c")
    );
    assert_eq!(error.report().unwrap().index(), 1);
}
