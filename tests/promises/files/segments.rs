//! A large file can come in pieces, side by side, and is the same file.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fetchpool::{
    Directory as To, Downloader, Error, ErrorKind, OnExist, Request, RetryPolicy, Saved,
};

use super::Directory;
use super::archive::{Archive, Content, LATER};
use crate::support::{Gate, Incoming, Origin, Reply};
use crate::{n, once, with};

const MIB: usize = 1024 * 1024;
/// The first part, and three pieces.
const SIZE: usize = 13 * MIB + 5;
const PIECES: [Range<usize>; 3] = [
    MIB..5 * MIB + 1,
    5 * MIB + 1..9 * MIB + 2,
    9 * MIB + 2..SIZE,
];

/// Made once: it takes a while.
fn content() -> Content {
    static BODY: OnceLock<Arc<Vec<u8>>> = OnceLock::new();
    let body = BODY.get_or_init(|| Content::new(SIZE, 0).body);
    Content {
        body: Arc::clone(body),
        ..Content::new(0, 0)
    }
}

fn other() -> Content {
    static BODY: OnceLock<Arc<Vec<u8>>> = OnceLock::new();
    let body = BODY.get_or_init(|| Content::new(SIZE, 0x55).body);
    Content {
        body: Arc::clone(body),
        etag: Some("\"v2\""),
        ..content()
    }
}

fn request(origin: &Origin) -> Request {
    Request::new(origin.url("/big.bin")).segments(n(3))
}

fn save(downloader: &Downloader, origin: &Origin, to: &Directory) -> Result<Saved, Error> {
    // A `fsync` costs more than all that is tested here.
    let to = To::new(&to.0).sync(false);
    let mut outcomes: Vec<_> = downloader.save_all([request(origin)], to).collect();
    assert_eq!(outcomes.len(), 1);
    outcomes.pop().unwrap()
}

fn range(incoming: &Incoming) -> Option<Range<usize>> {
    let end = incoming.range_end()? as usize + 1;
    Some(incoming.range_start()? as usize..end)
}

/// What has been asked for, in the order of the file.
fn ranges(origin: &Origin) -> Vec<Option<Range<usize>>> {
    let mut ranges: Vec<_> = origin
        .log()
        .iter()
        .map(|incoming| range(incoming))
        .collect();
    ranges.sort_by_key(|range| range.as_ref().map(|range| range.start));
    ranges
}

fn all_ranges() -> Vec<Option<Range<usize>>> {
    [0..MIB].into_iter().chain(PIECES).map(Some).collect()
}

/// Which piece a request is for: 0 for the first part, and `None` for the whole.
fn piece(incoming: &Incoming) -> Option<usize> {
    let start = incoming.range_start()? as usize;
    let before = PIECES.iter().filter(|piece| piece.start <= start);
    Some(before.count())
}

/// A server of what `content` is that answers otherwise to what this says.
fn serve(
    content: Content,
    otherwise: impl Fn(&Incoming) -> Option<Reply> + Send + Sync + 'static,
) -> Origin {
    Origin::start(move |incoming| otherwise(incoming).unwrap_or_else(|| content.reply(incoming)))
}

/// A part that begins, and then waits.
fn held(content: &Content, incoming: &Incoming, sent: usize, gate: &Gate) -> Reply {
    let Range { start, end } = range(incoming).unwrap();
    let range = format!("bytes {start}-{}/{}", end - 1, content.body.len());
    Reply::status(206)
        .header("ETag", content.etag.unwrap())
        .header("Content-Range", range)
        .declared_length((end - start) as u64)
        .then_send(&content.body[start..start + sent])
        .then_wait(gate)
        .then_send(&content.body[start + sent..end])
}

fn assert_is(directory: &Directory, content: &Content) {
    assert_eq!(directory.files(), ["big.bin"]);
    assert!(directory.read("big.bin") == *content.body, "other bytes");
}

#[test]
fn a_large_file_comes_in_pieces_and_no_more_at_once_than_the_host_allows() {
    let gate = Gate::new();
    let held = gate.clone();
    let served = content();
    let origin = serve(content(), move |incoming| {
        let is_first = piece(incoming) == Some(0);
        (!is_first).then(|| served.reply(incoming).after(&held))
    });
    let directory = Directory::new("segments");
    let downloader = with(|b| b.per_host(n(2)));
    let saved = std::thread::scope(|scope| {
        let saved = scope.spawn(|| save(&downloader, &origin, &directory));
        gate.wait_for_waiters(2);
        gate.open();
        saved.join().unwrap().unwrap()
    });
    assert_is(&directory, &content());
    assert_eq!(ranges(&origin), all_ranges());
    assert_eq!(origin.stats().requests.peak, 2);
    let log = origin.log();
    assert_eq!(log[0].header("if-range"), None);
    assert!(
        log[1..]
            .iter()
            .all(|i| i.header("if-range") == Some("\"v1\""))
    );
    let report = saved.report();
    assert_eq!((report.attempts(), report.resumed_from()), (1, None));
    assert_eq!(
        (saved.bytes(), saved.status().unwrap().as_u16()),
        (SIZE as u64, 206)
    );
    assert!(saved.length_verified());
}

/// One worker, one token, one outcome that may be unread, and one request let in at a time.
#[test]
fn the_narrowest_limits_are_enough() {
    let origin = serve(content(), |_| None);
    let narrow = with(|b| b.workers(1).per_host(n(1)).unread(n(1)).window(n(1)));
    let directory = Directory::new("segments-narrow");
    let requests = ["/1", "/2", "/3"].map(|path| Request::new(origin.url(path)).segments(n(3)));
    let saved: Vec<_> = narrow.save_all(requests, &directory.0).collect();
    assert_eq!(saved.len(), 3);
    for saved in saved {
        assert!(fs::read(saved.unwrap().path()).unwrap() == *content().body);
    }
    assert_eq!(origin.stats().requests.peak, 1);
    assert_eq!(origin.log().len(), 12);
}

#[test]
fn two_files_in_pieces_do_not_wait_for_each_other() {
    let origin = serve(content(), |_| None);
    let two = with(|b| b.workers(2));
    let directory = Directory::new("segments-two");
    let requests = ["/1", "/2"].map(|path| Request::new(origin.url(path)).segments(n(8)));
    let saved: Vec<_> = two.save_all(requests, &directory.0).in_order().collect();
    for (saved, name) in saved.iter().zip(["1", "2"]) {
        assert_eq!(saved.as_ref().unwrap().path(), directory.0.join(name));
        assert!(directory.read(name) == *content().body);
    }
}

#[test]
fn a_small_file_costs_one_request() {
    for size in [1, 300_000, MIB] {
        let small = Content::new(size, 0);
        let archive = Archive::start(small.clone());
        let directory = Directory::new(&format!("segments-small-{size}"));
        let request = Request::new(archive.url()).segments(n(8));
        let saved = once().save_all([request], &directory.0).next().unwrap();
        let saved = saved.unwrap();
        assert_eq!(ranges(&archive.origin), [Some(0..MIB)]);
        assert_eq!(
            (saved.bytes(), saved.report().resumed_from()),
            (size as u64, None)
        );
        assert_is(&directory, &small);
    }
}

/// Of nothing there is no part (RFC 9110, section 14.1.2).
#[test]
fn an_empty_file_is_asked_for_as_it_is() {
    let archive = Archive::start(Content::new(0, 0));
    let directory = Directory::new("segments-empty");
    let request = Request::new(archive.url()).segments(n(8));
    let saved = once().save_all([request], &directory.0).next().unwrap();
    assert_eq!(saved.unwrap().bytes(), 0);
    assert_eq!(ranges(&archive.origin), [None, Some(0..MIB)]);
}

#[test]
fn a_small_file_that_is_cut_goes_on_where_it_broke_off() {
    const CUT: usize = 200_000;
    let whole = Content::new(300_000, 0);
    let cut = whole.clone().cut_after(CUT);
    // At once, and in the next run.
    for retries in [1, 0] {
        let (whole, cut) = (whole.clone(), cut.clone());
        let origin = Origin::start(move |incoming| match incoming.visit() {
            1 => cut.reply(incoming),
            _ => whole.reply(incoming),
        });
        let directory = Directory::new(&format!("segments-small-cut-{retries}"));
        let downloader = with(|b| b.retry(RetryPolicy::new().retries(retries)));
        let saved = match save(&downloader, &origin, &directory) {
            Err(error) if retries == 0 && error.kind() == ErrorKind::Truncated => {
                save(&downloader, &origin, &directory).unwrap()
            }
            saved => saved.unwrap(),
        };
        assert_eq!(saved.report().resumed_from(), Some(CUT as u64));
        assert_eq!(origin.log()[1].header("range"), Some("bytes=200000-"));
        assert_is(&directory, &Content::new(300_000, 0));
    }
}

#[test]
fn one_segment_is_a_request_as_ever() {
    let origin = serve(content(), |_| None);
    let directory = Directory::new("segments-one");
    let requests = [
        request(&origin).segments(n(1)),
        Request::new(origin.url("/b")),
    ];
    for saved in once().save_all(requests, &directory.0) {
        assert_eq!(saved.unwrap().status().unwrap(), 200);
    }
    assert_eq!(ranges(&origin), [None, None]);
}

#[test]
fn elsewhere_than_in_files_there_are_no_segments() {
    let origin = serve(content(), |_| None);
    let page = with(|b| b.max_body(SIZE as u64))
        .fetch(request(&origin))
        .unwrap();
    assert!(page.body() == *content().body);
    assert_eq!(ranges(&origin), [None]);
}

/// The caller has his own mind about ranges and conditions.
#[test]
fn a_request_with_a_range_of_its_own_gets_that() {
    use fetchpool::{HeaderName, HeaderValue};
    let origin = serve(content(), |_| None);
    let directory = Directory::new("segments-own-range");
    let header = (
        HeaderName::from_static("range"),
        HeaderValue::from_static("bytes=5-9"),
    );
    let request = request(&origin).header(header.0, header.1);
    once()
        .save_all([request], &directory.0)
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(directory.read("big.bin"), content().body[5..10]);
}

#[test]
fn a_server_without_ranges_sends_it_in_one_piece() {
    let plain = Content {
        takes_ranges: false,
        ..content()
    };
    let origin = serve(plain, |_| None);
    let directory = Directory::new("segments-no-ranges");
    let saved = save(&once(), &origin, &directory).unwrap();
    assert_eq!(
        (origin.log().len(), saved.status().unwrap().as_u16()),
        (1, 200)
    );
    assert_is(&directory, &content());
}

/// Only by a strong tag is it known that all pieces are of one file.
#[test]
fn what_is_not_surely_the_first_part_is_asked_for_as_a_whole() {
    let whole = content().body;
    let first = |range: &str, etag: &str, bytes: usize| {
        let reply = Reply::status(206).header("Content-Range", range);
        let reply = match etag {
            "" => reply,
            etag => reply.header("ETag", etag),
        };
        reply.body(&whole[..bytes])
    };
    let range = format!("bytes 0-{}/{SIZE}", MIB - 1);
    let wrong = [
        first(&range, "", MIB),
        first(&range, "W/\"v1\"", MIB),
        first(&range, "\"v1\"", MIB).header("ETag", "\"v2\""),
        first(&range, "\"v1\"", MIB - 1),
        first(&range, "\"v1\"", MIB + 1),
        first(&format!("bytes 0-{}/*", MIB - 1), "\"v1\"", MIB),
        first(&format!("bytes 0-{}/{SIZE}", MIB - 2), "\"v1\"", MIB - 1),
        first(&format!("bytes 1-{MIB}/{SIZE}"), "\"v1\"", MIB),
        first(&format!("bytes 0-{}/{SIZE}", SIZE - 1), "\"v1\"", SIZE),
        first(&format!("bytes=0-{}/{SIZE}", MIB - 1), "\"v1\"", MIB),
        first(&range, "\"v1\"", MIB).header("Content-Encoding", "gzip"),
        first(&range, "\"v1\"", MIB).header("Content-Type", "multipart/byteranges; boundary=x"),
        Reply::status(206)
            .header("ETag", "\"v1\"")
            .body(&whole[..MIB]),
        Reply::status(416),
        Reply::status(416).header("Content-Range", "bytes */5"),
    ];
    for (i, wrong) in wrong.into_iter().enumerate() {
        let origin = serve(content(), move |incoming| {
            range_is_asked(incoming).then(|| wrong.clone())
        });
        let directory = Directory::new(&format!("segments-first-{i}"));
        let saved = save(&once(), &origin, &directory).unwrap_or_else(|e| panic!("{i}: {e}"));
        assert_eq!(saved.report().attempts(), 1, "{i}");
        assert_eq!(ranges(&origin), [None, Some(0..MIB)], "{i}");
        assert_is(&directory, &content());
    }
}

fn range_is_asked(incoming: &Incoming) -> bool {
    incoming.header("range").is_some()
}

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

#[test]
fn of_a_piece_that_is_cut_only_the_rest_is_asked_for_again() {
    const CUT: usize = 3 * MIB;
    for cut in [0, 2] {
        let sent = if cut == 0 { MIB / 2 } else { CUT };
        let origin = serve(content(), move |incoming| {
            let start = range(incoming)?.start;
            let is_begin = start == 0 || start == PIECES[1].start;
            let is_it = piece(incoming) == Some(cut) && is_begin;
            is_it.then(|| content().cut_after(sent).reply(incoming))
        });
        let directory = Directory::new(&format!("segments-cut-{cut}"));
        let retries = RetryPolicy::new().base(Duration::from_millis(1));
        let saved = save(&with(|b| b.retry(retries)), &origin, &directory).unwrap();
        assert_is(&directory, &content());
        let mut asked = all_ranges();
        let whole = asked[cut].clone().unwrap();
        asked.insert(cut + 1, Some(whole.start + sent..whole.end));
        assert_eq!(ranges(&origin), asked);
        assert_eq!(saved.report().attempts(), 2);
    }
}

/// Each has as many retries as a request has.
#[test]
fn pieces_are_tried_again_each_by_itself() {
    let origin = serve(content(), move |incoming| {
        let Range { start, .. } = range(incoming)?;
        let is_begin = PIECES.iter().any(|piece| piece.start == start);
        is_begin.then(|| content().cut_after(MIB).reply(incoming))
    });
    let directory = Directory::new("segments-each");
    let retries = RetryPolicy::new().retries(1).base(Duration::from_millis(1));
    let saved = save(&with(|b| b.retry(retries)), &origin, &directory).unwrap();
    assert_is(&directory, &content());
    assert_eq!((saved.report().attempts(), origin.log().len()), (4, 7));
}

/// How much a second run asks for, and what it had.
fn run_again(origin: &Origin, directory: &Directory, request: Request) -> (usize, u64) {
    let before = origin.log().len();
    let saved = once()
        .save_all([request], &directory.0)
        .next()
        .unwrap()
        .unwrap();
    let log = &origin.log()[before..];
    assert!(
        log.iter().all(|i| i.header("if-range") == Some("\"v1\"")),
        "{log:?}"
    );
    let asked = log
        .iter()
        .map(|incoming| range(incoming).unwrap().len())
        .sum();
    (asked, saved.report().resumed_from().unwrap())
}

/// The piece that is being read stops at its next read, the one that waits at its turn.
#[test]
fn a_piece_that_fails_for_good_is_the_one_error_of_its_file() {
    let (begun, read_on) = (Gate::new(), Gate::new());
    let gates = (begun.clone(), read_on.clone());
    let served = content();
    let origin = serve(content(), move |incoming| match piece(incoming) {
        _ if incoming.target() == "/after" => {
            // It has the token of the piece that has failed.
            gates.1.open();
            Some(Reply::ok("after"))
        }
        Some(1) if incoming.visit() < 4 => {
            gates.0.open();
            Some(held(&served, incoming, MIB, &gates.1))
        }
        Some(2) if incoming.visit() < 4 => Some(Reply::status(403).after(&gates.0)),
        _ => None,
    });
    let directory = Directory::new("segments-failed");
    let requests = [request(&origin), Request::new(origin.url("/after"))];
    let two = with(|b| b.per_host(n(2)));
    let outcomes: Vec<_> = two.save_all(requests, &directory.0).in_order().collect();
    assert_eq!(outcomes.len(), 2);
    let error = outcomes[0].as_ref().unwrap_err();
    assert_eq!(error.status().unwrap(), 403, "{error}");
    assert_eq!(origin.log().len(), 4, "{:?}", ranges(&origin));
    fs::remove_file(directory.0.join("after")).unwrap();
    assert_eq!(directory.files().len(), 2, "{:?}", directory.files());

    // In whatever number of pieces the next run wants it.
    for (says, wants) in [
        (ErrorKind::TooLarge, Request::new(origin.url("/big.bin"))),
        (
            ErrorKind::Digest,
            request(&origin).expect_length(SIZE as u64 - 1),
        ),
    ] {
        // The length of the whole is known: nobody is asked.
        let limit = if says == ErrorKind::TooLarge {
            SIZE - 1
        } else {
            SIZE
        };
        let limited = with(|b| b.max_file(Some(limit as u64)));
        let error = limited.save_all([wants], &directory.0).next().unwrap();
        assert_eq!(error.unwrap_err().kind(), says);
        assert_eq!(origin.log().len(), 4);
    }
    let (asked, had) = run_again(&origin, &directory, Request::new(origin.url("/big.bin")));
    assert_eq!(asked as u64 + had, SIZE as u64);
    // The first part, and what had been read before; not what came after it.
    assert!((MIB..3 * MIB).contains(&(had as usize)), "{had}");
    assert_is(&directory, &content());
}

#[test]
fn a_failure_of_the_first_of_many_leaves_the_others_alone() {
    let origin = serve(content(), |incoming| {
        (piece(incoming) == Some(1)).then(|| Reply::status(500))
    });
    let directory = Directory::new("segments-first-fails");
    let one = with(|b| b.per_host(n(1)));
    let error = save(&one, &origin, &directory).unwrap_err();
    assert_eq!(
        (error.status().unwrap().as_u16(), origin.log().len()),
        (500, 2)
    );
}

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

/// Two tokens are to be had again, and two jobs can have an outcome: none was lost.
fn assert_all_is_free(downloader: &Downloader, origin: &Origin) {
    let url = origin.url("/");
    let wait = Duration::from_secs(20);
    let permits = [0, 1].map(|_| downloader.permit_timeout(&*url, wait).unwrap());
    drop(permits);
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

#[test]
fn a_digest_is_of_the_whole_file() {
    use sha2::{Digest, Sha256};
    let right: String = Sha256::digest(&*content().body)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    let origin = serve(content(), |_| None);
    let directory = Directory::new("segments-digest");
    let expect = |digest: &str| request(&origin).expect_digest(digest.parse().unwrap());
    let save = |request| once().save_all([request], &directory.0).next().unwrap();

    let wrong = save(expect(&"0".repeat(64))).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Digest, "{wrong}");
    assert_eq!(directory.files(), [""; 0]);
    let long = save(request(&origin).expect_length(SIZE as u64 + 1)).unwrap_err();
    assert_eq!(long.kind(), ErrorKind::Digest, "{long}");
    // The length was known before the pieces were asked for.
    assert_eq!(origin.log().len(), 4 + 1);
    assert_eq!(directory.files(), [""; 0]);
    save(expect(&right).expect_length(SIZE as u64)).unwrap();
    assert_is(&directory, &content());
}

#[test]
fn what_the_server_says_of_the_digest_is_believed_of_the_whole() {
    use base64::prelude::*;
    use sha2::{Digest, Sha256};
    let right = BASE64_STANDARD.encode(Sha256::digest(&*content().body));
    let wrong = BASE64_STANDARD.encode(Sha256::digest("another"));
    for (digest, is_right) in [(right, true), (wrong, false)] {
        let origin = serve(content(), move |incoming| {
            let header = format!("sha-256=:{digest}:");
            Some(content().reply(incoming).header("Repr-Digest", header))
        });
        let directory = Directory::new(&format!("segments-believed-{is_right}"));
        let saved = save(&with(|b| b.verify_digests(true)), &origin, &directory);
        assert_eq!(saved.is_ok(), is_right, "{saved:?}");
    }
}

#[test]
fn a_file_that_is_too_large_is_known_by_its_first_part() {
    let origin = serve(content(), |_| None);
    let directory = Directory::new("segments-large");
    let limited = with(|b| b.max_file(Some(SIZE as u64 - 1)));
    let error = save(&limited, &origin, &directory).unwrap_err();
    assert_eq!((error.kind(), origin.log().len()), (ErrorKind::TooLarge, 1));
    assert_eq!(directory.files(), [""; 0]);
    save(
        &with(|b| b.max_file(Some(SIZE as u64))),
        &origin,
        &directory,
    )
    .unwrap();
}

#[test]
fn a_file_that_stands_there_is_replaced_if_it_has_changed() {
    let archive = Archive::start(content());
    let directory = Directory::new("segments-update");
    let save = || {
        let to = To::new(&directory.0).on_exist(OnExist::Update);
        let request = Request::new(archive.url()).segments(n(3));
        once().save_all([request], to).next().unwrap().unwrap()
    };
    assert!(!save().was_present());
    let same = save();
    assert_eq!((same.was_present(), archive.requests()), (true, 5));
    archive.change(|content| {
        *content = Content {
            date: Some(LATER),
            ..other()
        };
    });
    let new = save();
    assert_eq!((new.was_present(), archive.requests()), (false, 9));
    assert_is(&directory, &other());
}

/// By its length and date, which only the whole has; and then no piece is asked for.
#[test]
fn a_file_that_stands_there_is_known_by_what_its_first_part_says_of_the_whole() {
    let plain = content();
    let origin = serve(content(), move |incoming| {
        let range = range(incoming)?;
        let reply = Reply::status(206).header("ETag", "\"v1\"");
        let reply = reply.header("Last-Modified", plain.date.unwrap());
        let shown = format!("bytes {}-{}/{SIZE}", range.start, range.end - 1);
        Some(
            reply
                .header("Content-Range", shown)
                .body(&plain.body[range]),
        )
    });
    let directory = Directory::new("segments-same");
    assert!(!save(&once(), &origin, &directory).unwrap().was_present());
    assert!(save(&once(), &origin, &directory).unwrap().was_present());
    assert_eq!(origin.log().len(), 5);
    assert_is(&directory, &content());
}

#[test]
fn pieces_are_asked_for_where_the_first_part_came_from() {
    let origin = serve(content(), |incoming| {
        let is_asked = incoming.target() == "/big.bin";
        is_asked.then(|| Reply::redirect(302, "/there"))
    });
    let directory = Directory::new("segments-redirect");
    let saved = save(&once(), &origin, &directory).unwrap();
    assert_eq!(
        origin.targets(),
        ["/big.bin", "/there", "/there", "/there", "/there"]
    );
    assert_eq!(saved.url().path(), "/there");
    assert_eq!(saved.report().redirects().len(), 1);
    assert_is(&directory, &content());
}

#[test]
fn where_parts_are_not_kept_pieces_leave_nothing() {
    let origin = serve(content(), |incoming| {
        (piece(incoming) == Some(3)).then(|| Reply::status(404))
    });
    let directory = Directory::new("segments-not-kept");
    let save = || {
        let to = To::new(&directory.0).keep_parts(false);
        once().save_all([request(&origin)], to).next().unwrap()
    };
    save().unwrap_err();
    assert_eq!(directory.files(), [""; 0]);
}

#[test]
fn a_stamp_that_does_not_fit_its_part_says_nothing() {
    type Damage = fn(&Path, &Path);
    let damages: [Damage; 4] = [
        // Torn in the middle of a number.
        |_, stamp| {
            replace(
                stamp,
                "span 00000000000000000000 00000000000001048576 00000000000001048576 ",
                "span 00000000000000000000 00000000000001048576 00000000000001048570 ",
            )
        },
        // A span is missing.
        |_, stamp| {
            let text = fs::read_to_string(stamp).unwrap();
            let line = text.lines().find(|line| line.starts_with("span")).unwrap();
            replace(stamp, &format!("{line}\n"), "");
        },
        // Bytes that it says are there are not.
        |part, _| {
            fs::File::options()
                .write(true)
                .open(part)
                .unwrap()
                .set_len(MIB as u64 - 1)
                .unwrap()
        },
        |part, _| {
            fs::File::options()
                .write(true)
                .open(part)
                .unwrap()
                .set_len(SIZE as u64 + 1)
                .unwrap()
        },
    ];
    for (i, damage) in damages.into_iter().enumerate() {
        let origin = serve(content(), |incoming| {
            (piece(incoming) == Some(1) && incoming.visit() == 2).then(|| Reply::status(404))
        });
        let directory = Directory::new(&format!("segments-stamp-{i}"));
        let one = with(|b| b.per_host(n(1)));
        save(&one, &origin, &directory).unwrap_err();
        let files = directory.files();
        damage(&directory.0.join(&files[0]), &directory.0.join(&files[1]));
        let saved = save(&one, &origin, &directory).unwrap();
        assert_eq!(saved.report().resumed_from(), None, "{i}");
        assert_eq!(range(&origin.log()[2]), Some(0..MIB), "{i}");
        assert_is(&directory, &content());
    }
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

/// As after a power cut: the note was on the disk, and the bytes were not.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
#[test]
fn bytes_that_did_not_reach_the_disk_are_fetched_again() {
    use std::os::unix::fs::FileExt;
    let origin = serve(content(), |incoming| {
        (piece(incoming) == Some(3) && incoming.visit() == 4).then(|| Reply::status(404))
    });
    let directory = Directory::new("segments-hole");
    let one = with(|b| b.per_host(n(1)));
    save(&one, &origin, &directory).unwrap_err();
    let part = directory.0.join(&directory.files()[0]);
    let file = fs::File::create(&part).unwrap();
    file.set_len(PIECES[2].start as u64).unwrap();
    let lost = 3 * MIB..4 * MIB;
    let end = PIECES[1].end;
    let body = content().body;
    for there in [0..lost.start, lost.end..end] {
        file.write_all_at(&body[there.clone()], there.start as u64)
            .unwrap();
    }
    drop(file);
    let (asked, had) = run_again(&origin, &directory, request(&origin));
    // All of that piece behind the hole.
    let again = PIECES[0].end - lost.start + PIECES[2].len();
    assert_eq!((asked, had as usize), (again, SIZE - again));
    assert_is(&directory, &content());
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
