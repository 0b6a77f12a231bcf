//! A server that was given up is perhaps still at work.

use fetchpool::{Builder, Request};

use super::*;
use crate::{n, with};

fn origin() -> Origin {
    Origin::start(|incoming| match incoming.target() {
        "/silent" => Reply::nothing().then_stall(),
        "/stall" => Reply::ok("half").declared_length(8).then_stall(),
        _ => Reply::ok("x"),
    })
}

type Limited = fn(Builder) -> Builder;

/// By each limit that a server can be given up for.
fn given_up(origin: &Origin, grace: Duration, check: impl Fn(&fetchpool::Downloader)) {
    let limits: [(&str, Limited); 5] = [
        ("/silent", |b| b.timeout(Some(LIMIT))),
        ("/silent", |b| b.idle_timeout(LIMIT)),
        ("/silent", |b| b.header_timeout(LIMIT)),
        ("/stall", |b| b.timeout(Some(LIMIT))),
        ("/stall", |b| b.low_speed(100, LIMIT)),
    ];
    for (target, limited) in limits {
        let downloader = with(|b| limited(b).per_host(n(1)).timeout_grace(grace));
        late(|| downloader.fetch(origin.url(target)));
        check(&downloader);
    }
}

#[test]
fn its_token_stays_out_for_the_grace_time() {
    let origin = origin();
    let grace = LIMIT;
    given_up(&origin, grace, |downloader| {
        let patient = Request::new(origin.url("/next")).timeout(ROOM);
        downloader.fetch(patient).unwrap();
        let log = origin.log();
        let [.., asked, next] = &log[..] else {
            panic!("two requests")
        };
        let between = next.at() - asked.at();
        assert!(between >= LIMIT * 3 / 4 + grace, "{between:?}");
    });
}

#[test]
fn other_hosts_are_not_held_up() {
    let (origin, other) = (origin(), origin());
    given_up(&origin, Duration::from_secs(3600), |downloader| {
        assert!(downloader.try_permit(origin.url("/")).unwrap().is_none());
        downloader.fetch(other.url("/")).unwrap();
    });
}

#[test]
fn without_a_grace_time_it_is_there_at_once() {
    let origin = origin();
    given_up(&origin, Duration::ZERO, |downloader| {
        assert!(downloader.try_permit(origin.url("/")).unwrap().is_some());
    });
}

#[test]
fn a_server_that_was_asked_for_nothing_has_nothing_to_be_at_work_on() {
    let mute = Dead::mute();
    let downloader = with(|b| b.per_host(n(1)).connect_timeout(LIMIT));
    late(|| downloader.fetch(over_tls(&mute)));
    assert!(downloader.try_permit(over_tls(&mute)).unwrap().is_some());
}
