//! A host that takes no connection is not dialled for each of its jobs, and nobody else feels it.

use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroU32;
use std::time::Duration;

use fetchpool::{ErrorKind, HostBreaker};
use socket2::{Domain, Socket, Type};

use crate::support::{Dead, Origin, Reply};
use crate::with;

const HOUR: Duration = Duration::from_secs(3600);

fn after(failures: u32) -> HostBreaker {
    HostBreaker::new().failures(NonZeroU32::new(failures).unwrap())
}

#[test]
fn a_dead_hosts_jobs_fail_fast_each_with_its_outcome() {
    let dead = Dead::refusing();
    let live = Origin::start(|_| Reply::ok("x"));
    let downloader = with(|b| b.host_breaker(after(10).cool_down(HOUR)));
    let urls = (0..1000).map(|i| match i % 100 {
        0 => live.url("/"),
        _ => dead.url(&format!("/{i}")),
    });
    let (mut tried, mut not_tried, mut fetched) = (0, 0, 0);
    for page in downloader.fetch_all(urls) {
        match page {
            Ok(_) => fetched += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
                match error.to_string().contains("not tried") {
                    true => not_tried += 1,
                    false => tried += 1,
                }
            }
        }
    }
    assert_eq!((fetched, tried + not_tried), (10, 990));
    // Those that were under way as the tenth failed.
    assert!((10..16).contains(&tried), "{tried} were tried");
}

#[test]
fn one_success_between_failures_and_the_count_begins_again() {
    let origin = Origin::start(|_| Reply::ok("x").header("Connection", "close"));
    let downloader = with(|b| {
        b.host_breaker(after(2).cool_down(HOUR))
            .connect_timeout(Duration::from_secs(60))
            .resolver(flaky::Flaky::new())
    });
    let url = origin.url_as("flaky.test", "/");
    for round in 0..3 {
        // The resolver gives an address that refuses, and then one that does not.
        downloader.flush_dns();
        let error = downloader.fetch(&url).unwrap_err();
        assert!(!error.to_string().contains("not tried"), "{round}: {error}");
        downloader.flush_dns();
        downloader.fetch(&url).unwrap();
    }
}

mod flaky {
    use std::io;
    use std::net::IpAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// In turn an address that nobody listens on, and the origin's.
    pub(super) struct Flaky(AtomicUsize);

    impl Flaky {
        pub(super) fn new() -> Self {
            Self(AtomicUsize::new(0))
        }
    }

    impl fetchpool::Resolve for Flaky {
        fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            let address = match self.0.fetch_add(1, Ordering::SeqCst) % 2 {
                0 => [127, 0, 0, 77],
                _ => [127, 0, 0, 1],
            };
            Ok(vec![address.into()])
        }
    }
}

/// A port that refuses until somebody listens.
fn closed_port() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket
        .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

#[test]
fn jobs_wait_for_a_host_that_comes_back_if_they_are_to() {
    let (socket, address) = closed_port();
    let breaker = after(1).cool_down(Duration::from_millis(20)).wait(true);
    let downloader = with(|b| b.host_breaker(breaker));
    let urls = (0..50).map(|i| format!("http://{address}/{i}"));
    let mut pages = downloader.fetch_all(urls);
    // Up to six are under way before the first fails.
    let first = pages.next().unwrap();
    assert_eq!(first.unwrap_err().kind(), ErrorKind::Connect);
    socket.listen(128).unwrap();
    let origin = Origin::on(TcpListener::from(socket), |_| Reply::ok("x"));
    let outcomes: Vec<_> = pages.collect();
    assert_eq!(outcomes.len(), 49);
    let fetched = outcomes.iter().filter(|page| page.is_ok()).count();
    assert!(fetched >= 40, "{fetched} waited");
    assert_eq!(origin.stats().requests.total as usize, fetched);
    for page in outcomes.into_iter().flatten() {
        assert_eq!(page.report().attempts(), 1);
    }
}

#[test]
fn a_certificate_that_is_not_trusted_is_no_sign_of_a_dead_host() {
    // Speaks no TLS at all, and at once.
    let origin = Origin::start(|_| Reply::ok("x"));
    let downloader = with(|b| b.host_breaker(after(1).cool_down(HOUR)));
    let url = origin.url("/").replace("http:", "https:");
    for _ in 0..3 {
        let error = downloader.fetch(&url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Tls, "{error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn one_probe_at_a_time_also_where_it_takes_longer_than_the_cool_down() {
    let dead = Dead::unreachable();
    let breaker = after(1).cool_down(Duration::from_millis(20));
    let limit = Duration::from_millis(300);
    let downloader = with(|b| b.host_breaker(breaker).connect_timeout(limit));
    let url = dead.url("/");
    assert_eq!(
        downloader.fetch(&url).unwrap_err().kind(),
        ErrorKind::Timeout
    );
    // Until the first of them is the probe.
    while downloader.fetch(&url).unwrap_err().kind() == ErrorKind::Connect {}
    let kinds = downloader
        .fetch_all(vec![url; 20])
        .map(|page| page.unwrap_err().kind());
    let tried = kinds.filter(|kind| *kind == ErrorKind::Timeout).count();
    assert!(tried <= 1, "{tried} at once");
}

#[test]
fn what_never_came_to_a_connection_is_no_sign_of_life() {
    let dead = Dead::refusing();
    let downloader = with(|b| b.host_breaker(after(2).cool_down(HOUR)));
    let long = dead.url(&"/".repeat(70_000));
    for url in [dead.url("/"), long, dead.url("/")] {
        let _ = downloader.fetch(url).unwrap_err();
    }
    let error = downloader.fetch(dead.url("/")).unwrap_err();
    assert!(error.to_string().contains("not tried"), "{error}");
}
