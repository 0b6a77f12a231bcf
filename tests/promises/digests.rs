//! A body is what was expected, or an error.

use std::fs;
use std::io;
use std::time::Duration;

use fetchpool::{Directory as To, Downloader, ErrorKind, OnExist, Request, RetryPolicy};

use crate::files::Directory;
use crate::support::{Origin, Reply};
use crate::{once, with};

const BODY: &str = "abc";
/// FIPS 180-2, appendices A and B; RFC 3174, section 7.3; RFC 1321, A.5.
const DIGESTS: [&str; 4] = [
    "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
    "sha1:a9993e364706816aba3e25717850c26c9cd0d89d",
    "md5:900150983cd24fb0d6963f7d28e17f72",
];
const OTHER: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

fn expecting(url: String, digests: &[&str]) -> Request {
    let request = Request::new(url);
    digests.iter().fold(request, |request, digest| {
        request.expect_digest(digest.parse().unwrap())
    })
}

/// The kinds of what comes of it in memory, by a closure and in a file, which leaves nothing else.
fn outcomes(downloader: &Downloader, request: &Request, name: &str) -> [Option<ErrorKind>; 3] {
    let kind = |error: fetchpool::Error| error.kind();
    let memory = downloader.fetch(request).err().map(kind);
    let mut batch =
        downloader.fetch_with([request], |mut body| io::copy(&mut body, &mut io::sink()));
    let closure = batch.next().unwrap().err().map(kind);
    let directory = Directory::new(name);
    let saved = downloader.save_all([request], &directory.0).next().unwrap();
    let left = if saved.is_ok() { 1 } else { 0 };
    assert_eq!(fs::read_dir(&directory.0).map_or(0, Iterator::count), left);
    [memory, closure, saved.err().map(kind)]
}

#[test]
fn a_body_of_the_digests_that_are_expected_passes_and_no_other() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/chunked" => Reply::status(200).chunked(["a", "bc"]),
        "/other" => Reply::ok("abd"),
        "/empty" => Reply::ok(""),
        _ => Reply::ok(BODY),
    });
    for digest in DIGESTS {
        for path in ["/", "/chunked"] {
            let request = expecting(origin.url(path), &[digest]);
            assert_eq!(outcomes(&once(), &request, "right"), [None; 3], "{digest}");
        }
        for path in ["/other", "/empty"] {
            let request = expecting(origin.url(path), &[digest]);
            assert_eq!(
                outcomes(&once(), &request, "wrong"),
                [Some(ErrorKind::Digest); 3]
            );
        }
    }
    let all = expecting(origin.url("/"), &DIGESTS);
    assert_eq!(outcomes(&once(), &all, "all"), [None; 3]);
    let one_is_wrong = expecting(origin.url("/"), &[DIGESTS[0], OTHER]);
    let error = once().fetch(one_is_wrong).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Digest);
    let text = error.to_string();
    assert!(text.contains(DIGESTS[0]) && text.contains(OTHER), "{text}");
}

#[test]
fn a_length_is_expected_before_the_body_is_read_where_it_is_told() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/told" => Reply::status(200).declared_length(1 << 20).then_stall(),
        _ => Reply::status(200).chunked(["a", "bc"]),
    });
    for (path, expected, kind) in [
        ("/told", 3, Some(ErrorKind::Digest)),
        ("/untold", 3, None),
        ("/untold", 2, Some(ErrorKind::Digest)),
        ("/untold", 4, Some(ErrorKind::Digest)),
    ] {
        let request = Request::new(origin.url(path)).expect_length(expected);
        assert_eq!(
            outcomes(&once(), &request, "length"),
            [kind; 3],
            "{path} {expected}"
        );
    }
}

#[test]
fn what_a_server_says_of_it_counts_where_that_is_wanted() {
    let origin = Origin::start(|incoming| {
        let digest = match incoming.target() {
            "/right" => "sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:",
            _ => "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:",
        };
        Reply::ok(BODY).header("Repr-Digest", digest)
    });
    let verifying = with(|b| b.verify_digests(true));
    let right = Request::new(origin.url("/right"));
    let wrong = Request::new(origin.url("/wrong"));
    assert_eq!(outcomes(&verifying, &right, "right-said"), [None; 3]);
    assert_eq!(
        outcomes(&verifying, &wrong, "wrong-said"),
        [Some(ErrorKind::Digest); 3]
    );
    assert_eq!(outcomes(&once(), &wrong, "not-asked"), [None; 3]);
}

#[test]
fn it_is_not_tried_again_for_that() {
    let origin = Origin::start(|_| Reply::ok("abd"));
    let retrying = with(|b| b.retry(RetryPolicy::new().base(Duration::from_millis(1))));
    retrying
        .fetch(expecting(origin.url("/"), &DIGESTS[..1]))
        .unwrap_err();
    assert_eq!(origin.log().len(), 1);
}

#[test]
fn a_page_of_an_error_is_not_judged() {
    let origin = Origin::start(|_| Reply::status(404).body("not here"));
    let lenient = with(|b| b.status_as_error(false));
    let page = lenient.fetch(expecting(origin.url("/"), &DIGESTS)).unwrap();
    assert_eq!(page.text(), "not here");
}

/// Half of it came in another run: it is looked at as well.
#[test]
fn bytes_that_were_kept_are_judged_with_the_rest() {
    const SIZE: usize = 200_000;
    // `head -c 200000 /dev/zero | sha256sum`
    let digest = "sha256:4cbbd9be0cba685835755f827758705db5a413c5494c34262cd25946a73e7582";
    let origin = Origin::start(move |incoming| {
        let start = incoming.range_start().unwrap_or(0);
        let reply = match start {
            0 => Reply::status(200),
            start => Reply::status(206).header(
                "Content-Range",
                format!("bytes {start}-{}/{SIZE}", SIZE - 1),
            ),
        };
        let reply = reply
            .header("ETag", "\"v1\"")
            .declared_length(SIZE as u64 - start);
        match incoming.visit() {
            1 => reply.then_send(vec![0; 150_000]).then_close(),
            _ => reply.then_send(vec![0; SIZE - start as usize]),
        }
    });
    for (path, damaged) in [("/good", false), ("/damaged", true)] {
        let directory = Directory::new(&path[1..]);
        let request = expecting(origin.url(path), &[digest]);
        let retrying = with(|b| b.retry(RetryPolicy::new().base(Duration::from_millis(1))));
        once()
            .save_all([&request], &directory.0)
            .next()
            .unwrap()
            .unwrap_err();
        if damaged {
            let mut parts = fs::read_dir(&directory.0)
                .unwrap()
                .map(|entry| entry.unwrap().path());
            let part = parts
                .find(|path| path.to_str().unwrap().ends_with(".part"))
                .unwrap();
            let mut bytes = fs::read(&part).unwrap();
            bytes[1000] = 1;
            fs::write(&part, bytes).unwrap();
        }
        // The whole is fetched again where the beginning turns out to be what is wrong.
        let saved = retrying
            .save_all([&request], &directory.0)
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(saved.report().attempts(), if damaged { 2 } else { 1 });
        let resumed = if damaged { None } else { Some(150_000) };
        assert_eq!(saved.report().resumed_from(), resumed);
        assert_eq!(fs::read(saved.path()).unwrap(), vec![0; SIZE]);
    }
}

#[test]
fn a_file_of_the_digest_is_there_without_a_question() {
    let origin = Origin::start(|_| Reply::ok(BODY));
    for policy in [OnExist::SameOrBoth, OnExist::Update, OnExist::Skip] {
        let directory = Directory::new(&format!("there-{policy:?}"));
        fs::create_dir(&directory.0).unwrap();
        fs::write(directory.0.join("f"), BODY).unwrap();
        let to = To::new(&directory.0).on_exist(policy);
        let request = expecting(origin.url("/f"), &DIGESTS);
        let saved = once().save_all([request], to).next().unwrap().unwrap();
        assert!(saved.was_present());
        assert_eq!(origin.log().len(), 0);
    }
}

#[test]
fn a_file_of_the_digest_is_fetched_where_it_is_to_be_replaced_or_kept_besides() {
    let origin = Origin::start(|_| Reply::ok(BODY));
    for (policy, files) in [
        (OnExist::Overwrite, Some(1)),
        (OnExist::KeepBoth, Some(2)),
        (OnExist::Error, None),
    ] {
        let directory = Directory::new(&format!("all-the-same-{policy:?}"));
        fs::create_dir(&directory.0).unwrap();
        fs::write(directory.0.join("f"), BODY).unwrap();
        let asked = origin.log().len();
        let to = To::new(&directory.0).on_exist(policy);
        let request = expecting(origin.url("/f"), &DIGESTS);
        let outcome = once().save_all([request], to).next().unwrap();
        match files {
            Some(files) => {
                assert!(!outcome.unwrap().was_present());
                assert_eq!(fs::read_dir(&directory.0).unwrap().count(), files);
                assert_eq!(origin.log().len(), asked + 1);
            }
            None => {
                assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Io);
                assert_eq!(origin.log().len(), asked);
            }
        }
    }
}

#[test]
fn a_file_of_another_is_not_it() {
    let origin = Origin::start(|_| Reply::ok(BODY));
    for (policy, files) in [
        (OnExist::SameOrBoth, Some(2)),
        (OnExist::Update, Some(1)),
        (OnExist::Skip, None),
    ] {
        let directory = Directory::new(&format!("another-{policy:?}"));
        fs::create_dir(&directory.0).unwrap();
        fs::write(directory.0.join("f"), "abd").unwrap();
        let to = To::new(&directory.0).on_exist(policy);
        let request = expecting(origin.url("/f"), &DIGESTS);
        let outcome = once().save_all([request], to).next().unwrap();
        match files {
            Some(files) => {
                assert_eq!(fs::read(outcome.unwrap().path()).unwrap(), BODY.as_bytes());
                assert_eq!(fs::read_dir(&directory.0).unwrap().count(), files);
            }
            None => {
                let error = outcome.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Digest);
                assert!(
                    error.to_string().contains("/f, which stands there"),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn a_body_that_is_rejected_is_kept_where_that_is_wanted() {
    let origin = Origin::start(|_| Reply::ok("abd"));
    let directory = Directory::new("rejected");
    let to = To::new(&directory.0).keep_rejected(true);
    for name in ["f.txt.rejected", "f.txt (1).rejected"] {
        let request = expecting(origin.url("/f.txt"), &DIGESTS);
        let error = once()
            .save_all([request], to.clone())
            .next()
            .unwrap()
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Digest);
        let path = directory.0.join(name);
        assert!(
            error
                .to_string()
                .ends_with(&format!("it is kept as {}", path.display())),
            "{error}"
        );
        assert_eq!(fs::read(path).unwrap(), b"abd");
    }
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 2);
    // Where it would stand: there may be no such directory yet.
    let request = expecting(origin.url("/f.txt"), &DIGESTS);
    let placed = to.place(|_| "sub/f.txt".into());
    once().save_all([request], placed).for_each(drop);
    assert_eq!(
        fs::read(directory.0.join("sub/f.txt.rejected")).unwrap(),
        b"abd"
    );
}
