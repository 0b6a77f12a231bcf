//! Bodies in memory, and the buffers they are in.

use fetchpool::ErrorKind;

use crate::once;
use crate::support::{Origin, Reply};

fn echo() -> Origin {
    Origin::start(|incoming| match incoming.target() {
        "/missing" => Reply::status(404),
        target => Reply::ok(target),
    })
}

#[test]
fn a_recycled_buffer_holds_the_next_body_and_nothing_of_the_last() {
    let origin = echo();
    let (jobs, mut outcomes) = once().open();
    let mut fetch = |path: &str| {
        jobs.push(origin.url(path));
        outcomes.next().unwrap().unwrap()
    };
    let first = fetch("/the-first-body");
    let buffer = first.body().as_ptr();
    first.recycle();
    let second = fetch("/second");
    assert_eq!(second.body(), b"/second");
    assert_eq!(second.body().as_ptr(), buffer, "no other was allocated");
    // Its buffer is the caller's now.
    let kept = second.into_body();
    assert_eq!(kept, b"/second");
    assert_ne!(fetch("/third-body").body().as_ptr(), buffer);
}

#[test]
fn a_body_goes_into_the_buffer_that_is_given_for_it() {
    let origin = echo();
    let downloader = once();
    let mut buffer = Vec::with_capacity(100);
    buffer.extend_from_slice(b"what was in it before");
    let at = buffer.as_ptr();
    let response = downloader.fetch_into(origin.url("/a"), &mut buffer);
    assert_eq!(response.unwrap().bytes(), 2);
    assert_eq!(buffer, b"/a");
    let error = downloader.fetch_into(origin.url("/missing"), &mut buffer);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Status);
    assert!(buffer.is_empty());
    let error = downloader.fetch_into("no URL", &mut buffer);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidUrl);
    downloader
        .fetch_into(origin.url("/b"), &mut buffer)
        .unwrap();
    assert_eq!(buffer, b"/b");
    assert_eq!(buffer.as_ptr(), at);
}
