//! The one-liner for HTTP that is done by other means.

use std::time::Duration;

use fetchpool::ErrorKind;

use crate::support::{Gate, Origin, Reply};
use crate::{n, once, with};

#[test]
fn permits_are_as_many_as_the_budget_and_come_back_when_dropped() {
    let downloader = with(|b| b.per_host(n(2)));
    let url = "http://127.0.0.1:9/";
    let first = downloader.permit(url).unwrap();
    let _second = downloader.try_permit(url).unwrap().expect("the second");
    assert!(downloader.try_permit(url).unwrap().is_none());
    let none = downloader
        .permit_timeout(url, Duration::from_millis(1))
        .unwrap();
    assert!(none.is_none());
    assert!(
        downloader
            .try_permit("http://127.0.0.1:10/")
            .unwrap()
            .is_some()
    );
    drop(first);
    assert!(
        downloader
            .permit_timeout(url, Duration::MAX)
            .unwrap()
            .is_some()
    );
}

#[test]
fn a_permit_keeps_a_job_waiting_and_a_job_a_permit() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |_| Reply::ok("x").after(&held));
    let downloader = with(|b| b.per_host(n(1)));
    let url = origin.url("/");
    let hold = downloader.permit(&url).unwrap();
    std::thread::scope(|scope| {
        let page = scope.spawn(|| downloader.fetch(&url).unwrap());
        // Behind the job, whenever that comes in, or before it: both end.
        drop(hold);
        gate.wait_for_waiters(1);
        let permit = scope.spawn(|| downloader.permit(&url).unwrap());
        gate.open();
        assert_eq!(page.join().unwrap().body(), b"x");
        drop(permit.join().unwrap());
    });
    assert_eq!(origin.stats().requests.total, 1);
}

#[test]
fn permits_of_many_threads_never_exceed_the_budget() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let downloader = with(|b| b.per_host(n(3)));
    let (now, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let _hold = downloader.permit("http://h/").unwrap();
                    peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    now.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert!(peak.into_inner() <= 3);
}

#[test]
fn a_bad_url_and_a_downloader_that_is_shut_down_give_no_permit() {
    let downloader = once();
    let error = downloader.permit("file:///x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidUrl);
    std::thread::scope(|scope| {
        let holds: Vec<_> = (0..6)
            .map(|_| downloader.permit("http://h/").unwrap())
            .collect();
        let waiting = scope.spawn(|| downloader.permit("http://h/").unwrap_err());
        downloader.shutdown();
        assert_eq!(waiting.join().unwrap().kind(), ErrorKind::Cancelled);
        drop(holds);
    });
    let error = downloader.try_permit("http://h/").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}
