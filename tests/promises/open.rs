//! Crawlers and services: requests that come up as one goes.

use std::io;

use fetchpool::{Body, Jobs};

use crate::support::{Origin, Reply};
use crate::{n, once, with};

/// A binary tree of pages: `/n` links to `/2n` and `/2n+1`, up to `/255`.
fn tree() -> Origin {
    Origin::start(|incoming| {
        let number: u64 = incoming.target()[1..].parse().unwrap_or(0);
        let children = [2 * number, 2 * number + 1]
            .into_iter()
            .filter(|&c| c < 256);
        let links: Vec<_> = children.map(|child| format!("/{child}")).collect();
        Reply::ok(links.join("\n"))
    })
}

#[test]
fn a_closure_on_a_worker_pushes_further_requests_and_the_stream_ends() {
    let origin = tree();
    for workers in [1, 8] {
        let downloader = with(|b| b.workers(workers).unread(n(1)));
        let crawl = |body: Body<'_>, jobs: &Jobs| {
            let url = body.url().clone();
            for link in io::read_to_string(body)?.lines() {
                jobs.push(url.join(link).map_err(io::Error::other)?);
            }
            Ok(url)
        };
        let (jobs, pages) = downloader.open_with(crawl);
        jobs.push(origin.url("/1"));
        drop(jobs);
        let mut paths: Vec<u64> = pages
            .map(|url| url.unwrap().path()[1..].parse().unwrap())
            .collect();
        paths.sort_unstable();
        assert_eq!(paths, (1..256).collect::<Vec<_>>());
    }
}

#[test]
fn the_consumer_pushes_what_it_finds_and_the_stream_ends() {
    let origin = tree();
    let (jobs, mut pages) = once().open();
    jobs.push(origin.url("/1"));
    drop(jobs);
    let mut seen = 0;
    while let Some(page) = pages.next() {
        let page = page.unwrap();
        seen += 1;
        for link in page.text().lines() {
            pages.push(page.url().join(link).unwrap());
        }
    }
    assert_eq!(seen, 255);
}

#[test]
fn the_stream_stays_open_as_long_as_a_pusher_lives() {
    let origin = tree();
    let (jobs, pages) = once().open();
    let pushers: Vec<_> = (0..4)
        .map(|t| {
            let (jobs, url) = (jobs.clone(), origin.url("/200"));
            std::thread::spawn(move || {
                (0..25)
                    .map(|_| jobs.push(&url))
                    .filter(|i| i % 4 == t)
                    .count()
            })
        })
        .collect();
    drop(jobs);
    assert_eq!(pages.flatten().count(), 100);
    pushers
        .into_iter()
        .for_each(|pusher| assert!(pusher.join().is_ok()));
}

#[test]
fn a_stream_into_which_nothing_was_pushed_ends() {
    let (jobs, mut pages) = once().open();
    drop(jobs);
    assert!(pages.next().is_none());
}

#[test]
fn a_bad_url_that_is_pushed_has_its_outcome() {
    let (jobs, pages) = once().open();
    assert_eq!(jobs.push("nothing"), 0);
    assert_eq!(jobs.push("http://"), 1);
    drop(jobs);
    assert_eq!(pages.filter(Result::is_err).count(), 2);
}

#[test]
fn the_room_of_an_outcome_is_free_before_the_next_is_waited_for() {
    let origin = Origin::start(|_| Reply::ok("x"));
    for _ in 0..20 {
        let downloader = with(|b| b.workers(1).unread(n(1)));
        let (jobs, mut outcomes) = downloader.open();
        let before = origin.stats().requests.total;
        jobs.push(origin.url("/1"));
        jobs.push(origin.url("/2"));
        origin.wait_until(|stats| stats.requests.total > before && stats.requests.now == 0);
        // Its word that no more is pushed comes after the first outcome, and both are taken at once.
        drop(jobs);
        assert_eq!(outcomes.by_ref().flatten().count(), 2);
    }
}
