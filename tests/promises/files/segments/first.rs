//! What the first part tells: whether, and from where, a file can come in pieces.

use fetchpool::{ErrorKind, Request, RetryPolicy};

use super::super::Directory;
use super::super::archive::{Archive, Content};
use super::{MIB, SIZE, assert_is, content, range, ranges, request, save, serve};
use crate::support::{Incoming, Origin, Reply};
use crate::{n, once, with};

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

/// Signed for a time that is over when the last piece has its turn.
#[test]
fn a_piece_whose_redirect_is_no_longer_good_asks_where_the_first_one_did() {
    let origin = serve(content(), |incoming| match incoming.target() {
        "/big.bin" => {
            let signed = format!("/there?Expires={0}&Signature={0}", incoming.visit());
            Some(Reply::redirect(302, signed))
        }
        "/there?Expires=1&Signature=1" => {
            let is_first = range(incoming)?.start == 0;
            (!is_first).then(|| Reply::status(403))
        }
        _ => None,
    });
    let directory = Directory::new("segments-expired");
    let saved = save(&with(|b| b.per_host(n(1))), &origin, &directory).unwrap();
    assert_is(&directory, &content());
    assert_eq!(saved.report().attempts(), 1);
}

/// Each asks once more.
#[test]
fn a_piece_that_is_refused_everywhere_is_an_error() {
    let origin = serve(content(), |incoming| match incoming.target() {
        "/big.bin" => Some(Reply::redirect(302, "/there")),
        _ => (range(incoming)?.start > 0).then(|| Reply::status(403)),
    });
    let directory = Directory::new("segments-refused");
    let error = save(&with(|b| b.per_host(n(1))), &origin, &directory).unwrap_err();
    assert_eq!(error.status().unwrap(), 403);
    let again = ["/big.bin", "/big.bin", "/big.bin", "/there"];
    let asked = origin.targets();
    assert_eq!(
        asked[..5],
        ["/big.bin", "/there", "/there", "/there", "/there"]
    );
    assert_eq!(asked[5..], again);
}
