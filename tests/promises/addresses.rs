//! Which addresses are dialled: neither a name server nor a redirect gets round the policy.

// Only Linux answers on all of 127.0.0.0/8 without being told to.
#![cfg(target_os = "linux")]

use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};

use fetchpool::{ErrorKind, Report, Resolve, RetryPolicy, is_public_address};

use crate::support::{Origin, Reply};
use crate::{once, with};

const GOOD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 1));
const EVIL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

/// One that may be reached, and one on the same port that may not.
fn good_and_evil(good: impl Fn(u16) -> Reply + Send + Sync + 'static) -> (Origin, Origin) {
    // Below those that the system gives to clients, of which many may be in use on one of the two.
    let (one, other) = (20_000..30_000)
        .find_map(|port| {
            let one = TcpListener::bind((EVIL, port)).ok()?;
            Some((one, TcpListener::bind((GOOD, port)).ok()?))
        })
        .expect("some port is free on both");
    let evil = Origin::on(one, |_| Reply::ok("a secret"));
    let port = evil.addr().port();
    (Origin::on(other, move |_| good(port)), evil)
}

fn not_evil(address: IpAddr) -> bool {
    address != EVIL
}

/// The policy's word, and not the network's.
fn assert_refused(result: Result<fetchpool::Fetched, fetchpool::Error>, evil: &Origin) {
    let error = result.expect_err("it is refused");
    assert_eq!(error.kind(), ErrorKind::Connect);
    // It would be no use to try again.
    assert_eq!(error.report().map(Report::attempts), Some(1));
    let said = error.to_string();
    assert!(said.contains("policy refuses 127.0.0.2"), "{said}");
    assert!(said.contains("no failure of the network"), "{said}");
    assert_eq!(evil.stats().connections.total, 0);
}

#[test]
fn a_refused_address_is_not_dialled_however_it_is_written() {
    let evil = Origin::bind("127.0.0.2:0", |_| Reply::ok("a secret"));
    let port = evil.addr().port();
    let downloader = with(|b| {
        b.allow_address(not_evil)
            .resolve("fixed.test", [EVIL])
            .retry(RetryPolicy::new())
    });
    for host in [
        "127.0.0.2",
        "0x7f.2",
        "2130706434",
        "[::ffff:127.0.0.2]",
        "[::ffff:7f00:2]",
        "fixed.test",
    ] {
        let url = format!("http://{host}:{port}/");
        assert_refused(downloader.fetch(url), &evil);
    }
}

#[test]
fn a_redirect_to_a_refused_address_is_not_followed() {
    let (good, evil) =
        good_and_evil(|port| Reply::redirect(302, format!("http://127.0.0.2:{port}/")));
    let downloader = with(|b| b.allow_address(not_evil));
    assert_refused(downloader.fetch(good.url("/")), &evil);
    assert_eq!(good.stats().requests.total, 1);
}

/// Tells the truth once: what passed a check before the connection would not be what is dialled.
struct Rebinding(AtomicBool);

impl Resolve for Rebinding {
    fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let is_again = self.0.swap(true, Ordering::SeqCst);
        Ok(vec![if is_again { EVIL } else { GOOD }])
    }
}

#[test]
fn a_name_that_is_bound_to_another_address_meanwhile_is_asked_about_again() {
    let (good, evil) = good_and_evil(|_| Reply::ok("x").header("connection", "close"));
    let resolver = Rebinding(AtomicBool::new(false));
    let downloader = with(|b| b.allow_address(not_evil).resolver(resolver));
    let url = good.url_as("rebinding.test", "/");
    assert_eq!(downloader.fetch(&url).unwrap().body(), b"x");
    downloader.flush_dns();
    assert_refused(downloader.fetch(&url), &evil);
}

#[test]
fn the_addresses_that_are_allowed_are_used() {
    let (good, evil) = good_and_evil(|_| Reply::ok("x"));
    let downloader = with(|b| b.allow_address(not_evil).resolve("two.test", [EVIL, GOOD]));
    let page = downloader.fetch(good.url_as("two.test", "/")).unwrap();
    assert_eq!(page.body(), b"x");
    assert_eq!(evil.stats().connections.total, 0);
}

#[test]
fn this_machine_is_not_public() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let downloader = with(|b| {
        b.allow_address(is_public_address)
            .resolve("fixed.test", [GOOD, IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])])
    });
    for host in [
        "127.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "localhost",
        "fixed.test",
    ] {
        let error = downloader.fetch(origin.url_as(host, "/")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
        assert!(error.to_string().contains("policy refuses"), "{error}");
    }
    assert_eq!(origin.stats().connections.total, 0);
    assert!(once().fetch(origin.url("/")).is_ok());
}

#[test]
fn a_panic_of_the_address_policy_is_that_jobs_outcome() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let downloader = with(|b| {
        b.workers(1).allow_address(|address| {
            assert!(address != EVIL, "boom");
            true
        })
    });
    let urls = [
        origin.url("/"),
        origin.url_as("127.0.0.2", "/"),
        origin.url("/"),
    ];
    let kinds = downloader
        .fetch_all(urls)
        .in_order()
        .map(|outcome| outcome.err().map(|error| error.kind()));
    assert!(kinds.eq([None, Some(ErrorKind::Panicked), None]));
}
