//! A server that sends something else than the piece is asked for the whole.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use fetchpool::RetryPolicy;

use super::super::Directory;
use super::super::archive::Content;
use super::{
    MIB, PIECES, SIZE, all_ranges, assert_all_is_free, assert_is, content, other, piece, ranges,
    request, save, serve,
};
use crate::support::{Gate, Origin, Reply};
use crate::{once, with};

#[test]
fn a_file_that_changes_meanwhile_comes_in_one_piece() {
    let gate = Gate::new();
    let held = gate.clone();
    let content = content();
    let archive = Arc::new(parking_lot::Mutex::new(content.clone()));
    let served = Arc::clone(&archive);
    let origin = serve(content, move |incoming| {
        let now = served.lock().clone();
        Some(match piece(incoming) {
            // The others come once it has changed.
            Some(2 | 3) => now.reply(incoming).after(&held),
            Some(1) => {
                *served.lock() = other();
                held.open();
                now.reply(incoming)
            }
            _ => now.reply(incoming),
        })
    });
    let directory = Directory::new("segments-changed");
    let saved = save(&with(|b| b.workers(1)), &origin, &directory).unwrap();
    gate.open();
    assert_is(&directory, &other());
    assert_eq!(
        (saved.report().attempts(), saved.status().unwrap().as_u16()),
        (1, 200)
    );
    // The third piece is not asked for any more.
    let asked: Vec<_> = origin.log().iter().map(|i| piece(i)).collect();
    assert_eq!(asked, [Some(0), Some(1), Some(2), None]);
}

#[test]
fn what_is_not_surely_the_piece_is_not_written() {
    let whole = content().body;
    let Range { start, end } = PIECES[1].clone();
    let part = |start: usize, end: usize, etag: &str| {
        let range = format!("bytes {start}-{}/{SIZE}", end - 1);
        let reply = Reply::status(206).header("ETag", etag);
        reply
            .header("Content-Range", range)
            .body(&whole[start..end])
    };
    let right = || part(start, end, "\"v1\"");
    let wrong = [
        part(start - 1, end, "\"v1\""),
        part(start + 1, end, "\"v1\""),
        part(start, end - 1, "\"v1\""),
        part(start, SIZE, "\"v1\""),
        part(0, SIZE, "\"v1\""),
        part(start, end, "\"v2\""),
        part(start, end, "W/\"v1\""),
        right().header("Content-Encoding", "gzip"),
        right().header("Content-Type", "Multipart/byteranges; boundary=x"),
        Reply::status(206)
            .header("ETag", "\"v1\"")
            .body(&whole[start..end]),
        Reply::status(206)
            .header("ETag", "\"v1\"")
            .header("Content-Range", format!("bytes {start}-{}/*", end - 1))
            .body(&whole[start..end]),
        Reply::status(206)
            .header("ETag", "\"v1\"")
            .header(
                "Content-Range",
                format!("bytes {start}-{}/{}", end - 1, SIZE + 1),
            )
            .body(&whole[start..end]),
        // Chunked, it may be longer than it says.
        Reply::status(206)
            .header("ETag", "\"v1\"")
            .header("Content-Range", format!("bytes {start}-{}/{SIZE}", end - 1))
            .chunked([&whole[start..end], b"x"]),
        Reply::status(200).header("ETag", "\"v1\"").body(&*whole),
        Reply::status(200).header("ETag", "\"v2\"").body("another"),
        Reply::status(204),
        Reply::status(304),
        Reply::status(416).header("Content-Range", format!("bytes */{start}")),
        Reply::status(416),
    ];
    for (i, wrong) in wrong.into_iter().enumerate() {
        let origin = serve(other(), move |incoming| match piece(incoming) {
            Some(2) => Some(wrong.clone()),
            Some(_) => Some(content().reply(incoming)),
            None => None,
        });
        let directory = Directory::new(&format!("segments-wrong-{i}"));
        let saved = save(&once(), &origin, &directory).unwrap_or_else(|e| panic!("{i}: {e}"));
        // One attempt, and never divided again.
        assert_eq!(saved.report().attempts(), 1, "{i}");
        assert_eq!(saved.report().resumed_from(), None, "{i}");
        let log = origin.log();
        assert_eq!(
            log.iter()
                .filter(|incoming| piece(incoming).is_none())
                .count(),
            1,
            "{i}"
        );
        assert_eq!(piece(log.last().unwrap()), None, "{i}");
        assert_is(&directory, &other());
    }
}

/// Cut, refused, in one piece, of another version: each run has one outcome, and at the end there
/// is one version, whole.
#[test]
fn whatever_the_server_does_no_two_versions_are_joined() {
    let versions = [content(), other()];
    for seed in 0..12_u64 {
        let served = versions.clone();
        let origin = Origin::start(move |incoming| {
            let dice = dice(seed, incoming.visit());
            // It changes once in a while.
            let version = &served[usize::from(incoming.visit() % 16 > 11)];
            match dice % 8 {
                0 => Reply::status(503),
                1 => Reply::nothing().then_close(),
                2 | 3 => version
                    .clone()
                    .cut_after((dice >> 8) as usize % (5 * MIB))
                    .reply(incoming),
                4 if dice >> 60 == 0 => Content {
                    takes_ranges: false,
                    ..version.clone()
                }
                .reply(incoming),
                _ => version.reply(incoming),
            }
        });
        let directory = Directory::new(&format!("segments-dice-{seed}"));
        let retries = RetryPolicy::new().retries(1).base(Duration::from_millis(1));
        let downloader = with(|b| b.workers(3).retry(retries));
        let runs = (0..500).find(|_| save(&downloader, &origin, &directory).is_ok());
        assert!(runs.is_some(), "{seed}");
        assert_eq!(directory.files(), ["big.bin"], "{seed}");
        let saved = directory.read("big.bin");
        assert!(
            versions.iter().any(|version| *version.body == saved),
            "{seed}"
        );
        assert_all_is_free(&downloader, &origin);
    }
}

/// A number that looks random (SplitMix64).
fn dice(seed: u64, step: u64) -> u64 {
    let mut z = (seed << 32 | step).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// All of it, with what it can do itself: the pieces that came from elsewhere are no part of it.
#[test]
fn a_mirror_is_turned_to_once_for_all_pieces() {
    let first = serve(content(), |incoming| {
        (piece(incoming) == Some(2)).then(|| Reply::status(404))
    });
    let second = serve(other(), |_| None);
    let directory = Directory::new("segments-mirror");
    let request = request(&first).mirror(second.url("/elsewhere"));
    let outcomes: Vec<_> = with(|b| b.workers(1))
        .save_all([request], &directory.0)
        .collect();
    assert_eq!(outcomes.len(), 1);
    let saved = outcomes[0].as_ref().unwrap();
    assert_eq!(ranges(&second), all_ranges());
    assert_eq!((first.log().len(), saved.report().attempts()), (3, 2));
    assert_eq!(saved.url().path(), "/elsewhere");
    assert_is(&directory, &other());
}

/// It has been led nowhere, so there is nowhere else to ask.
#[test]
fn a_piece_that_a_mirror_refuses_is_asked_for_once() {
    let first = Origin::start(|_| Reply::status(404));
    let second = serve(content(), |incoming| {
        (piece(incoming)? > 0).then(|| Reply::status(403))
    });
    let directory = Directory::new("segments-mirror-refuses");
    let request = request(&first).mirror(second.url("/elsewhere"));
    let mut batch = with(|b| b.workers(1)).save_all([request], &directory.0);
    let error = batch.next().unwrap().unwrap_err();
    assert_eq!(error.status().unwrap(), 403);
    let asked: Vec<_> = second.log().iter().map(|i| piece(i)).collect();
    assert_eq!(asked, [Some(0), Some(1)]);
}

/// Also where that is cut, and another attempt made.
#[test]
fn what_came_in_one_stream_is_not_divided_any_more() {
    let origin = serve(content(), move |incoming| match piece(incoming) {
        Some(2) => Some(Reply::status(200).body("another")),
        None if incoming.visit() < 6 => Some(Reply::status(200).declared_length(9).then_close()),
        _ => None,
    });
    let directory = Directory::new("segments-one-stream");
    let retries = RetryPolicy::new().base(Duration::from_millis(1));
    let saved = save(&with(|b| b.workers(1).retry(retries)), &origin, &directory).unwrap();
    let asked: Vec<_> = origin.log().iter().map(|i| piece(i)).collect();
    assert_eq!(asked, [Some(0), Some(1), Some(2), None, None, None]);
    assert_eq!(saved.report().attempts(), 3);
    assert_is(&directory, &content());
}

/// What an earlier run had was of it, and is not in what came.
#[test]
fn a_file_that_has_changed_since_the_last_run_is_not_gone_on_with() {
    let origin = serve(other(), |incoming| {
        let is_old = incoming.visit() < 3;
        is_old.then(|| match piece(incoming) {
            Some(1) => Reply::status(404),
            _ => content().reply(incoming),
        })
    });
    let directory = Directory::new("segments-old");
    let one = with(|b| b.workers(1));
    save(&one, &origin, &directory).unwrap_err();
    let saved = save(&one, &origin, &directory).unwrap();
    // One piece, and then the whole.
    let asked: Vec<_> = origin.log()[2..].iter().map(|i| piece(i)).collect();
    assert_eq!(asked, [Some(1), None]);
    assert_eq!(saved.report().resumed_from(), None);
    assert_is(&directory, &other());
}
