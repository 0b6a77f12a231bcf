//! Names and addresses: looked up seldom, tried in turn, waited for within a limit.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fetchpool::{ErrorKind, IpFamily, Resolve};

use crate::support::{Dead, Gate, Origin, Reply};
use crate::{once, with};

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Answers with these addresses, after the gate, and counts.
struct Scripted {
    gate: Gate,
    asked: Arc<AtomicUsize>,
    answer: fn() -> io::Result<Vec<IpAddr>>,
}

impl Scripted {
    fn new(answer: fn() -> io::Result<Vec<IpAddr>>) -> (Self, Gate, Arc<AtomicUsize>) {
        let (gate, asked) = (Gate::new(), Arc::default());
        let scripted = Self {
            gate: gate.clone(),
            asked: Arc::clone(&asked),
            answer,
        };
        (scripted, gate, asked)
    }
}

impl Resolve for Scripted {
    fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.gate.wait();
        (self.answer)()
    }
}

fn named(origin: &Origin, host: &str) -> String {
    format!("http://{host}:{}/", origin.addr().port())
}

#[test]
fn a_name_is_looked_up_once_for_all_who_want_it() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let (resolver, gate, asked) = Scripted::new(|| Ok(vec![ip("127.0.0.1")]));
    let downloader = with(|b| b.resolver(resolver));
    let spellings = ["a.test", "A.TEST", "a.test."].map(|host| named(&origin, host));
    let urls: Vec<_> = spellings.iter().cycle().take(60).cloned().collect();
    let fetching = std::thread::spawn(move || downloader.fetch_all(urls).flatten().count());
    gate.wait_for_waiters(1);
    gate.open();
    assert_eq!(fetching.join().unwrap(), 60);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn a_kept_connection_needs_no_address_and_the_next_new_one_does() {
    let origin = Origin::start(|incoming| match incoming.target() {
        "/last" => Reply::ok("x").header("Connection", "close"),
        _ => Reply::ok("x"),
    });
    let (resolver, gate, asked) = Scripted::new(|| Ok(vec![ip("127.0.0.1")]));
    gate.open();
    let downloader = with(|b| b.resolver(resolver));
    let url = named(&origin, "a.test");
    downloader.fetch(&url).unwrap();
    downloader.flush_dns();
    downloader.fetch(format!("{url}last")).unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    downloader.fetch(&url).unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[test]
fn addresses_written_as_numbers_and_fixed_ones_are_not_looked_up() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let (resolver, _gate, asked) = Scripted::new(|| Err(io::Error::other("no")));
    let downloader = with(|b| {
        b.resolver(resolver)
            .resolve("Fixed.test", [ip("127.0.0.1")])
    });
    downloader.fetch(origin.url("/")).unwrap();
    downloader.fetch(named(&origin, "fixed.test")).unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[test]
fn a_failed_look_up_is_a_dns_error_and_so_is_a_name_without_addresses() {
    let kind = |answer: fn() -> io::Result<Vec<IpAddr>>, family| {
        let (resolver, gate, _) = Scripted::new(answer);
        gate.open();
        let downloader = with(|b| b.resolver(resolver).ip_family(family));
        let error = downloader.fetch("http://a.test/").unwrap_err();
        assert!(error.to_string().contains("a.test"), "{error}");
        error.kind()
    };
    assert_eq!(
        kind(|| Err(io::Error::other("no")), IpFamily::Any),
        ErrorKind::Dns
    );
    assert_eq!(kind(|| Ok(vec![]), IpFamily::Any), ErrorKind::Dns);
    assert_eq!(
        kind(|| Ok(vec![ip("127.0.0.1")]), IpFamily::V6),
        ErrorKind::Dns
    );
    assert_eq!(kind(|| panic!("resolver"), IpFamily::Any), ErrorKind::Dns);
}

#[test]
fn a_look_up_that_hangs_ends_at_its_limit_and_when_it_is_cancelled() {
    let (resolver, gate, _) = Scripted::new(|| Ok(vec![ip("127.0.0.1")]));
    let downloader = with(|b| {
        b.resolver(resolver)
            .resolve_timeout(Duration::from_millis(200))
    });
    let error = downloader.fetch("http://a.test/").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains("looking up"), "{error}");
    gate.open();

    let (resolver, gate, _) = Scripted::new(|| Ok(vec![ip("127.0.0.1")]));
    let downloader = with(|b| b.resolver(resolver));
    let batch = downloader.fetch_all(["http://a.test/"]);
    let canceller = batch.canceller();
    let outcomes = std::thread::spawn(move || batch.collect::<Vec<_>>());
    gate.wait_for_waiters(1);
    let begun = Instant::now();
    canceller.cancel();
    let outcomes = outcomes.join().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(
        outcomes[0].as_ref().unwrap_err().kind(),
        ErrorKind::Cancelled
    );
    gate.open();
}

// Only Linux answers on all of 127.0.0.0/8 without being told to.
#[cfg(target_os = "linux")]
#[test]
fn a_dead_first_address_delays_the_first_connection_and_no_other() {
    // One port, two addresses: the first takes no connection and refuses none.
    let dead = Dead::unreachable();
    let live = Origin::bind(&format!("127.0.0.5:{}", dead.addr().port()), |_| {
        Reply::ok("x").header("connection", "close")
    });
    let url = named(&live, "two.test");
    let answer = || Ok(vec![ip("127.0.0.1"), ip("127.0.0.5")]);
    let (resolver, gate, _) = Scripted::new(answer);
    gate.open();
    let downloader = with(|b| b.resolver(resolver));
    for turn in 0..20 {
        let page = downloader.fetch(&url).unwrap();
        let connect = page.report().timings().connect();
        // RFC 8305's 250 ms before the second is tried beside it; not the 10 s of the limit.
        assert!(connect < Duration::from_secs(5), "{turn}: {connect:?}");
    }
    assert_eq!(live.stats().connections.total, 20);
}

#[test]
fn an_address_that_refuses_is_followed_by_the_next() {
    let live = Origin::start(|_| Reply::ok("x"));
    let answer = || Ok(vec![ip("127.0.0.77"), ip("::1"), ip("127.0.0.1")]);
    let (resolver, gate, _) = Scripted::new(answer);
    gate.open();
    let downloader = with(|b| b.resolver(resolver));
    assert!(downloader.fetch(named(&live, "three.test")).is_ok());
    let dead = Dead::refusing();
    let url = format!("http://three.test:{}/", dead.addr().port());
    let error = downloader.fetch(url).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert!(error.to_string().contains("of 3 addresses"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn connections_are_made_from_the_address_that_is_asked_for() {
    let origin = Origin::start(|_| Reply::ok("x"));
    let downloader = with(|b| b.local_address(ip("127.0.0.42")));
    assert!(downloader.fetch(origin.url("/")).is_ok());
    let downloader = with(|b| {
        b.local_address(ip("127.0.0.42"))
            .resolve("v6.test", [ip("::1")])
    });
    // Of the other family it cannot be used.
    let kind = downloader
        .fetch(named(&origin, "v6.test"))
        .map_err(|error| error.kind());
    assert_eq!(kind.err(), Some(ErrorKind::Connect));
    drop(once());
}
