//! File handles and memory are bounded, whatever the number of hosts; a shortage of handles is
//! waited out, and one that does not end is said.
#![cfg(target_os = "linux")]

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fetchpool::{Body, Builder, ErrorKind, Resolve};

use super::files::Directory;
use crate::support::{self, Gate, Origin, Reply};
use crate::{n, with};

/// In the environment of the process with the downloader: the port of the origin, which is in
/// another process, so that its handles are not among those that are counted.
const PORT: &str = "FETCHPOOL_TEST_ORIGIN_PORT";

/// Runs a test in a process of its own, and the origin in this one. `None` here, when it has run.
fn beside_an_origin(test: &str, addresses: u8, handles: u32) -> Option<u16> {
    if let Ok(port) = env::var(PORT) {
        return Some(port.parse().expect("a port"));
    }
    let answer = |incoming: &support::Incoming| Reply::ok(incoming.target());
    let first = Origin::bind("127.0.1.1:0", answer).without_log();
    let port = first.addr().port();
    let more: Vec<_> = (2..=addresses)
        .map(|last| Origin::bind(&format!("127.0.1.{last}:{port}"), answer).without_log())
        .collect();
    let port = port.to_string();
    let variables: [(&str, &OsStr); 1] = [(PORT, port.as_ref())];
    assert!(!support::alone_with_handles(test, handles, &variables));
    drop((first, more));
    None
}

/// As many hosts as there are names, on as many addresses as there are.
struct Everywhere {
    addresses: u64,
}

impl Resolve for Everywhere {
    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let digits: String = host.chars().filter(char::is_ascii_digit).collect();
        let number: u64 = digits.parse().expect("a host's number");
        let last = u8::try_from(number % self.addresses + 1).expect("few addresses");
        Ok(vec![IpAddr::from([127, 0, 1, last])])
    }
}

fn on(addresses: u64) -> impl FnOnce(Builder) -> Builder {
    move |builder| builder.resolver(Everywhere { addresses })
}

fn urls(port: u16, hosts: usize, each: usize) -> impl Iterator<Item = String> {
    (0..each * hosts).map(move |i| format!("http://host{}.test:{port}/{i}", i % hosts))
}

fn open_handles() -> usize {
    fs::read_dir("/proc/self/fd")
        .expect("Linux lists them")
        .count()
}

#[test]
fn more_hosts_than_file_handles_are_all_fetched() {
    const NAME: &str = "handles::more_hosts_than_file_handles_are_all_fetched";
    const HOSTS: usize = 150;
    const EACH: usize = 12;
    let Some(port) = beside_an_origin(NAME, 1, 128) else {
        return;
    };
    let downloader = with(|b| on(1)(b).workers(32));
    // Hosts in turn, so that all are in use; and one after the other, so that each has several
    // connections.
    let spread = || urls(port, HOSTS, EACH);
    let mut grouped: Vec<_> = spread().collect();
    grouped.sort();

    let pages = downloader.fetch_all(spread()).filter_map(Result::err);
    assert_eq!(pages.map(|error| error.to_string()).next(), None);
    let pages = downloader
        .fetch_all(grouped.clone())
        .filter_map(Result::err);
    assert_eq!(pages.map(|error| error.to_string()).next(), None);

    let directory = Directory::new("few-handles");
    for urls in [spread().collect(), grouped.clone()] {
        let files = downloader
            .save_all(urls, &directory.0)
            .filter_map(Result::err);
        assert_eq!(files.map(|error| error.to_string()).next(), None);
    }
    let files = fs::read_dir(&directory.0).unwrap();
    // The second time they turn out to be the same.
    assert_eq!(files.count(), HOSTS * EACH, "and nothing beside them");

    let copy = |mut body: Body<'_>| io::copy(&mut body, &mut io::sink());
    for urls in [spread().collect(), grouped] {
        let failed = downloader.fetch_with(urls, copy).filter_map(Result::err);
        assert_eq!(failed.map(|error| error.to_string()).next(), None);
    }
    assert!(open_handles() <= 128);
}

#[test]
fn who_never_gets_a_file_handle_is_told_which_limit_to_raise() {
    const NAME: &str = "handles::who_never_gets_a_file_handle_is_told_which_limit_to_raise";
    const JOBS: usize = 500;
    let Some(port) = beside_an_origin(NAME, 1, 128) else {
        return;
    };
    let downloader = with(on(1));
    let others = hold_all_handles();
    let begun = Instant::now();
    let failed: Vec<_> = downloader
        .fetch_all(urls(port, JOBS, 1))
        .filter_map(Result::err)
        .collect();
    let took = begun.elapsed();
    assert_eq!(failed.len(), JOBS);
    for error in &failed {
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Connect, "{text}");
        assert!(text.contains("`ulimit -n`"), "{text}");
    }
    // One after the other, as many at once as there are workers, would be more than 150 s.
    assert!(took < Duration::from_secs(100), "{took:?}");
    drop(others);
    assert_eq!(
        downloader.fetch_all(urls(port, 32, 1)).flatten().count(),
        32
    );
}

#[test]
fn who_never_gets_a_file_handle_for_his_file_is_told_which_limit_to_raise() {
    const NAME: &str =
        "handles::who_never_gets_a_file_handle_for_his_file_is_told_which_limit_to_raise";
    let Some(port) = beside_an_origin(NAME, 1, 128) else {
        return;
    };
    let downloader = with(on(1));
    let directory = Directory::new("no-handles");
    let mut others = hold_all_handles();
    // One handle: enough for a connection, not for the file beside it.
    others.pop();
    let error = downloader
        .save_all(urls(port, 1, 1), &directory.0)
        .next()
        .unwrap()
        .unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Io, "{text}");
    assert!(text.contains("`ulimit -n`"), "{text}");

    drop(others);
    assert_eq!(
        downloader.fetch_all(urls(port, 32, 1)).flatten().count(),
        32
    );
}

fn hold_all_handles() -> Vec<File> {
    let open = || File::open("/dev/null").ok();
    std::iter::from_fn(open).collect()
}

#[test]
fn who_waits_for_a_file_handle_until_its_time_is_over_is_told_so() {
    const NAME: &str = "handles::who_waits_for_a_file_handle_until_its_time_is_over_is_told_so";
    let Some(port) = beside_an_origin(NAME, 1, 64) else {
        return;
    };
    let downloader = with(|b| on(1)(b).timeout(Some(Duration::from_millis(300))));
    let others = hold_all_handles();
    let error = downloader
        .fetch(urls(port, 1, 1).next().unwrap())
        .unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{text}");
    assert!(text.contains("`ulimit -n`"), "{text}");
    drop(others);
}

#[test]
fn a_shortage_of_file_handles_that_ends_costs_no_attempt() {
    const NAME: &str = "handles::a_shortage_of_file_handles_that_ends_costs_no_attempt";
    const HOSTS: usize = 20;
    let Some(port) = beside_an_origin(NAME, 1, 64) else {
        return;
    };
    let refused = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&refused);
    let downloader = with(|b| {
        // Asked just before there is to be a socket.
        on(1)(b).allow_address(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            true
        })
    });
    let others = hold_all_handles();
    let batch = downloader.fetch_all(urls(port, HOSTS, 1));
    let fetching = std::thread::spawn(move || batch.collect::<Vec<_>>());
    support::eventually("all have tried in vain, some twice", || {
        refused.load(Ordering::SeqCst) > HOSTS
    });
    drop(others);
    let pages = fetching.join().unwrap();
    assert_eq!(pages.len(), HOSTS);
    for page in pages {
        assert_eq!(page.unwrap().report().attempts(), 1);
    }
}

#[test]
fn idle_connections_age_out_also_of_hosts_that_are_never_asked_again() {
    const NAME: &str = "handles::idle_connections_age_out_also_of_hosts_that_are_never_asked_again";
    let Some(port) = beside_an_origin(NAME, 1, 1024) else {
        return;
    };
    let age = Duration::from_millis(300);
    let downloader = with(|b| on(1)(b).idle_age(age));
    let begun = Instant::now();
    assert_eq!(
        downloader.fetch_all(urls(port, 30, 6)).flatten().count(),
        180
    );
    let kept = support::open_sockets();
    assert!(kept >= 30 || begun.elapsed() > age, "{kept} were kept");
    support::eventually("they are closed", || support::open_sockets() == 0);
}

/// Of this process, in KiB.
fn resident_memory() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux tells it");
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("the second number") * 4
}

#[test]
fn twenty_thousand_hosts_cost_no_more_sockets_and_memory_than_five_thousand() {
    const NAME: &str =
        "handles::twenty_thousand_hosts_cost_no_more_sockets_and_memory_than_five_thousand";
    const HOSTS: usize = 20_000;
    let Some(port) = beside_an_origin(NAME, 20, 1024) else {
        return;
    };
    let downloader = with(|b| on(20)(b).window_when_idle(n(4096)));
    let (mut fetched, mut most_handles, mut early) = (0, 0, None);
    for page in downloader.fetch_all(urls(port, HOSTS, 1)) {
        page.unwrap();
        fetched += 1;
        if fetched % 500 == 0 {
            most_handles = most_handles.max(open_handles());
        }
        if fetched == 5_000 {
            early = Some((most_handles, resident_memory()));
        }
    }
    let late = resident_memory();
    let (early_handles, early) = early.expect("five thousand were fetched");
    let figures = format!("handles {early_handles}, {most_handles}; {early}, {late} KiB");
    assert_eq!(fetched, HOSTS);
    // 64 hosts that idle, 32 workers, and a few that are neither.
    assert!(most_handles < 64 + 2 * 32 + 16, "{figures}");
    assert!(late < early + 8 * 1024, "{figures}");
}

#[test]
fn connections_that_a_busy_host_does_not_need_age_out_as_well() {
    let both = Gate::new();
    let gate = both.clone();
    let origin = Origin::start(move |incoming| match incoming.target() {
        "/both" => Reply::ok("x").after(&gate),
        _ => Reply::ok("x"),
    });
    let downloader = with(|b| b.idle_age(Duration::from_millis(100)));
    let mut pages = downloader.fetch_all([origin.url("/both"), origin.url("/both")]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            both.wait_for_waiters(2);
            both.open();
        });
        assert_eq!(pages.by_ref().flatten().count(), 2);
    });
    // One of them is used all the time, and is not old.
    support::eventually("the other is closed", || {
        downloader.fetch(origin.url("/")).unwrap();
        origin.stats().connections.now == 1
    });
}
