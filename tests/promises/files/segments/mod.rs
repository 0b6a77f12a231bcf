//! A large file can come in pieces, side by side, and is the same file.

mod again;
mod checks;
mod ends;
mod first;
mod given_up;

use std::fs;
use std::ops::Range;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use fetchpool::{Directory as To, Downloader, Error, Request, Saved};

use super::Directory;
use super::archive::Content;
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
    std::iter::once(0..MIB).chain(PIECES).map(Some).collect()
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

/// Two tokens are to be had again, and two jobs can have an outcome: none was lost.
fn assert_all_is_free(downloader: &Downloader, origin: &Origin) {
    let url = origin.url("/");
    let wait = Duration::from_secs(20);
    let permits = [0, 1].map(|_| downloader.permit_timeout(&*url, wait).unwrap());
    drop(permits);
}
