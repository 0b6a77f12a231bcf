//! However a batch ends, its pieces have one outcome and leave what can be gone on with.

use std::fs;
use std::path::Path;
use std::time::Duration;

use fetchpool::{Downloader, ErrorKind, Request};

use super::super::Directory;
use super::{
    MIB, SIZE, assert_all_is_free, assert_is, content, held, piece, ranges, request, run_again,
    serve,
};
use crate::support::{Gate, Origin, Reply};
use crate::{n, with};

/// What ends a batch, with two pieces under way and one in line.
fn ended(name: &str, end: impl FnOnce(&Downloader, &Origin, &Gate, &Path)) {
    let gate = Gate::new();
    let gated = gate.clone();
    let served = content();
    let origin = serve(content(), move |incoming| {
        if incoming.target() == "/small" {
            return Some(Reply::ok("small"));
        }
        let is_held = matches!(piece(incoming), Some(1 | 2)) && incoming.visit() < 4;
        is_held.then(|| held(&served, incoming, 2 * MIB, &gated))
    });
    let directory = Directory::new(name);
    let downloader = with(|b| b.per_host(n(2)).unread(n(2)));
    end(&downloader, &origin, &gate, &directory.0);
    gate.open();
    let asked = origin.log().iter().filter(|i| piece(i).is_some()).count();
    assert_eq!(asked, 3, "{:?}", ranges(&origin));
    // No name, but what can be gone on with.
    let files = directory.files();
    assert!(
        files.iter().all(|name| name.starts_with(".big.bin.")),
        "{files:?}"
    );
    let (asked, had) = run_again(&origin, &directory, request(&origin));
    assert_eq!(asked as u64 + had, SIZE as u64);
    assert!(had >= MIB as u64);
    assert_is(&directory, &content());
}

#[test]
fn a_batch_that_is_cancelled_has_one_outcome_for_all_pieces() {
    ended("segments-cancelled", |downloader, origin, gate, path| {
        let batch = downloader.save_all([request(origin)], path);
        let canceller = batch.canceller();
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            scope.spawn(|| {
                gate.wait_for_waiters(2);
                canceller.cancel();
            });
            batch.collect()
        });
        let kinds: Vec<_> = outcomes
            .iter()
            .map(|o| o.as_ref().unwrap_err().kind())
            .collect();
        assert_eq!(kinds, [ErrorKind::Cancelled]);
        assert_all_is_free(downloader, origin);
    });
}

#[test]
fn a_batch_that_is_dropped_leaves_no_token_out() {
    ended("segments-dropped", |downloader, origin, gate, path| {
        // `next` is what lets them begin.
        let requests = [Request::new(origin.url("/small")), request(origin)];
        let mut batch = downloader.save_all(requests, path);
        let small = batch.next().unwrap().unwrap();
        fs::remove_file(small.path()).unwrap();
        gate.wait_for_waiters(2);
        drop(batch);
        assert_all_is_free(downloader, origin);
    });
}

#[test]
fn a_downloader_that_is_shut_down_ends_all_pieces() {
    ended("segments-shutdown", |downloader, origin, gate, path| {
        let batch = downloader.save_all([request(origin)], path);
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            scope.spawn(|| {
                gate.wait_for_waiters(2);
                downloader.shutdown();
            });
            batch.collect()
        });
        let kinds: Vec<_> = outcomes
            .iter()
            .map(|o| o.as_ref().unwrap_err().kind())
            .collect();
        assert_eq!(kinds, [ErrorKind::Cancelled]);
    });
}

#[test]
fn the_time_of_a_batch_and_of_a_request_is_that_of_all_pieces() {
    // Long enough for two pieces to be under way, on a machine that is busy with other things.
    let limit = Duration::from_millis(2500);
    for of_request in [true, false] {
        let name = format!("segments-late-{of_request}");
        ended(&name, |downloader, origin, gate, path| {
            let (request, batch_limit) = match of_request {
                true => (request(origin).timeout(limit), Duration::from_secs(60)),
                false => (request(origin), limit),
            };
            let batch = downloader.save_all([request], path).timeout(batch_limit);
            let outcomes: Vec<_> = batch.collect();
            gate.wait_for_waiters(2);
            let kinds: Vec<_> = outcomes
                .iter()
                .map(|o| o.as_ref().unwrap_err().kind())
                .collect();
            assert_eq!(kinds, [ErrorKind::Timeout], "{outcomes:?}");
        });
    }
}
