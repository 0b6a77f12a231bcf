//! What is expected of a file, and what stands in its place, is of the whole.

use fetchpool::{Directory as To, ErrorKind, OnExist, Request};

use super::super::Directory;
use super::super::archive::{Archive, Content, LATER};
use super::{SIZE, assert_is, content, other, range, request, save, serve};
use crate::support::Reply;
use crate::{n, once, with};

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
