//! A list of ten million lines costs what the window costs.

use std::cell::Cell;

use crate::support::{self, Gate, Origin, Reply};
use crate::{n, once, with};

#[test]
fn the_input_is_read_no_further_ahead_than_the_window() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let downloader = with(|b| b.workers(4).window(n(50)).window_when_idle(n(50)));
    let pulled = Cell::new(0);
    let urls = (0..10_000).map(|i| {
        pulled.set(i + 1);
        origin.url(&format!("/{i}"))
    });
    let mut furthest = 0;
    for (read, page) in downloader.fetch_all(urls).enumerate() {
        page.unwrap();
        furthest = furthest.max(pulled.get() - read);
    }
    assert_eq!(pulled.get(), 10_000);
    assert!((4..=51).contains(&furthest), "{furthest} ahead");
}

#[test]
fn nothing_is_read_before_an_outcome_is_asked_for() {
    let pulled = Cell::new(0);
    let urls = (0..10).map(|_| {
        pulled.set(pulled.get() + 1);
        "http://127.0.0.1:9/"
    });
    let batch = once().fetch_all(urls);
    assert_eq!(pulled.get(), 0);
    drop(batch);
    assert_eq!(pulled.get(), 0);
}

#[test]
fn a_list_sorted_by_host_is_read_further_while_workers_idle() {
    let gate = Gate::new();
    let held = gate.clone();
    let first = Origin::start(move |_| Reply::ok("slow").after(&held));
    let second = Origin::start(|_| Reply::ok("fast"));
    let downloader = with(|b| b.workers(8).window(n(10)).window_when_idle(n(1000)));
    let urls = (0..500)
        .map(|i| first.url(&format!("/{i}")))
        .chain((0..5).map(|i| second.url(&format!("/{i}"))));
    let mut batch = downloader.fetch_all(urls);
    // The second host stands 500 lines behind; six of eight workers are at the first.
    for _ in 0..5 {
        assert_eq!(batch.next().unwrap().unwrap().text(), "fast");
    }
    gate.open();
    assert_eq!(batch.flatten().count(), 500);
}

#[test]
fn a_list_sorted_by_host_is_read_further_when_workers_fall_idle_later() {
    let gate = Gate::new();
    let (held, blocked) = (gate.clone(), Gate::new());
    let first = Origin::start(move |_| Reply::ok("slow").after(&held));
    let second = Origin::start(|_| Reply::ok("fast"));
    let other = Origin::start({
        let blocked = blocked.clone();
        move |_| Reply::ok("other").after(&blocked)
    });
    let downloader = with(|b| b.workers(8).window(n(10)).window_when_idle(n(1000)));
    // Another batch keeps the two workers that the first host leaves.
    let urls: Vec<_> = (0..2).map(|i| other.url(&format!("/{i}"))).collect();
    let another = downloader.clone();
    let other_batch = std::thread::spawn(move || another.fetch_all(urls).flatten().count());
    blocked.wait_for_waiters(2);
    let urls: Vec<_> = (0..500)
        .map(|i| first.url(&format!("/{i}")))
        .chain((0..5).map(|i| second.url(&format!("/{i}"))))
        .collect();
    let mut batch = downloader.fetch_all(urls);
    let reading = std::thread::spawn(move || {
        let fast = batch
            .by_ref()
            .take(5)
            .flatten()
            .filter(|p| p.text() == "fast")
            .count();
        (fast, batch)
    });
    gate.wait_for_waiters(6);
    // Now they fall idle, while the consumer of the first waits for an outcome.
    blocked.open();
    let (fast, batch) = reading.join().unwrap();
    assert_eq!(fast, 5);
    gate.open();
    assert_eq!(batch.flatten().count(), 500);
    assert_eq!(other_batch.join().unwrap(), 2);
}

#[cfg(target_os = "linux")]
#[test]
fn memory_of_a_million_lines_stays_flat() {
    if !support::alone("lazy::memory_of_a_million_lines_stays_flat") {
        return;
    }
    // Refused at once, and bad: the list is what counts, not the network.
    let downloader = with(|b| b.workers(2).window(n(1000)).window_when_idle(n(1000)));
    let lines = (0..1_000_000).map(|i| format!("nothing://host/{i}"));
    let mut batch = downloader.fetch_all(lines);
    assert!(batch.by_ref().take(10_000).all(|item| item.is_err()));
    let before = resident_kib();
    assert_eq!(batch.filter(Result::is_err).count(), 990_000);
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 2048, "{grown} KiB more after a million lines");
}

#[cfg(target_os = "linux")]
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .expect("a peak");
    line.split_whitespace()
        .nth(1)
        .expect("a number")
        .parse()
        .expect("a number")
}
