//! What one URL does not give, another of the same content may.

use std::fs;
use std::time::Duration;

use fetchpool::{Digest, ErrorKind, HeaderName, HeaderValue, Request, RetryPolicy};

use crate::files::Directory;
use crate::support::{Dead, Origin, Reply};
use crate::{once, with};

/// `printf abc | sha256sum`
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn abc() -> Digest {
    ABC.parse().unwrap()
}

#[test]
fn a_mirror_is_asked_for_what_the_one_before_does_not_give() {
    let good = Origin::start(|_| Reply::ok("abc"));
    let bad = Origin::start(|incoming| match incoming.target() {
        "/missing" => Reply::status(404),
        "/other" => Reply::ok("abd"),
        "/loop" => Reply::redirect(302, "/loop"),
        _ => Reply::status(503),
    });
    let dead = Dead::refusing();
    let firsts = ["/missing", "/other", "/loop", "/busy"].map(|path| bad.url(path));
    for first in firsts.into_iter().chain([dead.url("/")]) {
        let request = Request::new(&first)
            .mirror(good.url("/abc"))
            .expect_digest(abc());
        let page = once()
            .fetch(&request)
            .unwrap_or_else(|error| panic!("{first}: {error}"));
        assert_eq!(
            (page.text(), page.report().attempts()),
            ("abc".into(), 2),
            "{first}"
        );
        assert_eq!(page.url().as_str(), good.url("/abc"));
        let directory = Directory::new("mirror-file");
        let saved = once()
            .save_all([&request], &directory.0)
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(fs::read(saved.path()).unwrap(), b"abc");
        // As the URL that was asked has it, or the second run would look for it elsewhere.
        let name = first.rsplit('/').next().unwrap();
        let name = if name.is_empty() { "index.html" } else { name };
        assert_eq!(saved.path().file_name().unwrap(), name);
        assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 1);
    }
}

#[test]
fn each_has_its_own_attempts_and_the_last_error_counts() {
    let busy = Origin::start(|_| Reply::status(503));
    let missing = Origin::start(|_| Reply::status(404));
    let retrying = with(|b| b.retry(RetryPolicy::new().retries(2).base(Duration::from_millis(1))));
    let request = Request::new(busy.url("/1"))
        .mirror(busy.url("/2"))
        .mirror(missing.url("/3"));
    let error = retrying.fetch(request).unwrap_err();
    assert_eq!(error.status().unwrap(), 404);
    assert_eq!(busy.targets(), ["/1", "/1", "/1", "/2", "/2", "/2"]);
    assert_eq!(error.report().unwrap().attempts(), 7);
}

#[test]
fn what_is_not_the_servers_fault_is_not_a_mirrors_affair() {
    let origin = Origin::start(|_| Reply::ok("abc"));
    let request = Request::new("no url").mirror(origin.url("/"));
    assert_eq!(
        once().fetch(request).unwrap_err().kind(),
        ErrorKind::InvalidUrl
    );
    let request = Request::new(origin.url("/")).mirror(origin.url("/m"));
    let mut batch = once().fetch_with([&request], |_| Err::<(), _>(std::io::Error::other("ours")));
    assert_eq!(batch.next().unwrap().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(origin.targets(), ["/"]);
}

#[test]
fn a_mirror_that_is_no_url_is_passed_over() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/good" => Reply::ok("abc"),
        _ => Reply::status(404),
    });
    let request = Request::new(origin.url("/bad"))
        .mirror("nonsense")
        .mirror(origin.url("/good"));
    assert_eq!(once().fetch(request).unwrap().text(), "abc");
}

#[test]
fn a_mirror_of_another_origin_gets_no_credentials_but_its_own() {
    let missing = Origin::start(|_| Reply::status(404));
    let mirror = Origin::start(|_| Reply::ok("abc"));
    let mut key = HeaderValue::from_static("hunter2");
    key.set_sensitive(true);
    let with_user = mirror.url("/").replace("http://", "http://m:pass@");
    let request = Request::new(missing.url("/"))
        .header(HeaderName::from_static("x-key"), key)
        .header(
            HeaderName::from_static("authorization"),
            HeaderValue::from_static("Bearer x"),
        )
        .header(
            HeaderName::from_static("x-plain"),
            HeaderValue::from_static("plain"),
        )
        .mirror(with_user);
    once().fetch(request).unwrap();
    let asked = &mirror.log()[0];
    assert_eq!(
        (asked.header("x-key"), asked.header("x-plain")),
        (None, Some("plain"))
    );
    assert_eq!(asked.header("authorization"), Some("Basic bTpwYXNz"));
}

/// Half came from the first: the mirror's validator is its own, and so is its part.
#[test]
fn bytes_of_two_mirrors_are_never_joined() {
    const SIZE: usize = 200_000;
    let first = Origin::start(|_| {
        let reply = Reply::status(200)
            .header("ETag", "\"v1\"")
            .declared_length(SIZE as u64);
        reply.then_send(vec![b'a'; 150_000]).then_close()
    });
    let second = Origin::start(|_| Reply::ok(vec![b'b'; SIZE]).header("ETag", "\"v1\""));
    let directory = Directory::new("mirror-parts");
    let request = Request::new(first.url("/f")).mirror(second.url("/f"));
    let saved = once()
        .save_all([request], &directory.0)
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(fs::read(saved.path()).unwrap(), vec![b'b'; SIZE]);
    assert_eq!(second.log()[0].range_start(), None);
    // Of what came from the first nothing is left.
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 1);
}

/// In an earlier run it was the mirror's turn, and that broke off; in this one the first has it.
#[test]
fn what_a_mirror_has_begun_is_not_left_once_the_file_is_there() {
    const SIZE: usize = 200_000;
    let first = Origin::start(|incoming| match incoming.visit() {
        1 => Reply::status(503),
        _ => Reply::ok(vec![b'a'; SIZE]),
    });
    let second = Origin::start(|_| {
        let reply = Reply::status(200).header("ETag", "\"v1\"");
        let begun = reply.declared_length(SIZE as u64);
        begun.then_send(vec![b'b'; 150_000]).then_close()
    });
    let directory = Directory::new("mirror-left");
    let save = || {
        let request = Request::new(first.url("/f")).mirror(second.url("/f"));
        once().save_all([request], &directory.0).next().unwrap()
    };
    save().unwrap_err();
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 2);
    let saved = save().unwrap();
    assert_eq!(fs::read(saved.path()).unwrap(), vec![b'a'; SIZE]);
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 1);
}

/// Its pieces are not mirrored one by one: a mirror's file may be another.
#[test]
fn a_file_whose_pieces_fail_is_the_mirrors_affair_as_a_whole() {
    const SIZE: usize = 12_000_000;
    let first = Origin::start(|incoming| match incoming.range_start() {
        Some(0) => Reply::status(206)
            .header("ETag", "\"v1\"")
            .header("Content-Range", format!("bytes 0-1048575/{SIZE}"))
            .body(vec![b'a'; 1 << 20]),
        _ => Reply::status(404),
    });
    let second = Origin::start(|incoming| {
        let (start, end): (usize, usize) = match incoming.header("range") {
            Some(range) => {
                let (start, end) = range["bytes=".len()..].split_once('-').unwrap();
                (start.parse().unwrap(), end.parse().unwrap_or(SIZE - 1))
            }
            None => return Reply::ok(vec![b'b'; SIZE]),
        };
        Reply::status(206)
            .header("ETag", "\"v2\"")
            .header("Content-Range", format!("bytes {start}-{end}/{SIZE}"))
            .body(vec![b'b'; end + 1 - start])
    });
    let directory = Directory::new("mirror-pieces");
    let request = Request::new(first.url("/f"))
        .segments(std::num::NonZeroUsize::new(3).unwrap())
        .mirror(second.url("/f"));
    let saved = once()
        .save_all([request], &directory.0)
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(fs::read(saved.path()).unwrap(), vec![b'b'; SIZE]);
    assert_eq!(saved.url().as_str(), second.url("/f"));
    assert!(second.log().len() > 2, "{:?}", second.targets());
}
