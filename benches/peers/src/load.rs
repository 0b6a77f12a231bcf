//! What a client is to fetch, and what it tells when it is done.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use crate::measure;

/// Requests to a row of hosts, which are addresses one after another.
#[derive(Clone, Debug)]
pub struct Load {
    pub tls: bool,
    pub first: Ipv4Addr,
    pub port: u16,
    pub hosts: u32,
    /// Requests to each host.
    pub each: u64,
    pub path: String,
    /// Bytes of each body.
    pub body: u64,
    pub workers: usize,
    pub per_host: usize,
    /// All of a host's URLs one after another, rather than one of each host in turn.
    pub grouped: bool,
    /// A host that takes a second to answer, and how many of its URLs come first of all.
    pub slow: Option<(SocketAddrV4, u64)>,
    pub ca: PathBuf,
}

/// A request to make.
pub struct Target {
    /// The host's number; the slow one has that after the last.
    pub host: u32,
    pub url: String,
}

impl Load {
    pub fn fast(&self) -> u64 {
        u64::from(self.hosts) * self.each
    }

    pub fn total(&self) -> u64 {
        self.fast() + self.slow.map_or(0, |(_, requests)| requests)
    }

    /// How many requests there can be at once.
    pub fn connections(&self) -> usize {
        let hosts = self.hosts as usize + usize::from(self.slow.is_some());
        self.workers.min(hosts * self.per_host)
    }

    /// Bodies too large to be kept in memory.
    pub fn is_big(&self) -> bool {
        self.body > 1 << 20
    }

    pub fn address(&self, host: u32) -> SocketAddrV4 {
        match self.slow {
            Some((address, _)) if host == self.hosts => address,
            _ => SocketAddrV4::new(Ipv4Addr::from(u32::from(self.first) + host), self.port),
        }
    }

    pub fn path(&self, host: u32) -> &str {
        if host == self.hosts {
            "/wait/1000"
        } else {
            &self.path
        }
    }

    pub fn url(&self, host: u32, n: u64) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let (address, path) = (self.address(host), self.path(host));
        format!("{scheme}://{address}{path}?{n}")
    }

    /// The URLs, made one at a time.
    pub fn targets(&self) -> impl Iterator<Item = Target> + Send + 'static {
        let load = self.clone();
        (0..self.total()).map(move |n| {
            let slow = load.total() - load.fast();
            let host = match n.checked_sub(slow) {
                None => load.hosts,
                Some(n) if load.grouped => (n / load.each) as u32,
                Some(n) => (n % u64::from(load.hosts)) as u32,
            };
            let url = load.url(host, n);
            Target { host, url }
        })
    }

    /// Whether an URL is one of the slow host's.
    pub fn is_slow(&self, host: Option<&str>) -> bool {
        match self.slow {
            Some((address, _)) => host.and_then(|host| host.parse().ok()) == Some(*address.ip()),
            None => false,
        }
    }

    pub fn ca_pem(&self) -> Vec<u8> {
        fs::read(&self.ca).expect("the root certificate")
    }

    pub fn to_args(&self) -> Vec<String> {
        let mut args = String::new();
        let _ = write!(
            args,
            "tls={}|first={}|port={}|hosts={}|each={}|path={}|body={}|workers={}|per_host={}|grouped={}|ca={}",
            self.tls,
            self.first,
            self.port,
            self.hosts,
            self.each,
            self.path,
            self.body,
            self.workers,
            self.per_host,
            self.grouped,
            self.ca.display(),
        );
        if let Some((address, requests)) = self.slow {
            let _ = write!(args, "|slow={address}|slow_requests={requests}");
        }
        args.split('|').map(str::to_owned).collect()
    }

    pub fn from_args(args: &[String]) -> Option<Self> {
        let find = |key: &str| {
            let mut pairs = args.iter().filter_map(|arg| arg.split_once('='));
            pairs.find(|(k, _)| *k == key).map(|(_, value)| value)
        };
        let slow = match find("slow") {
            Some(address) => Some((address.parse().ok()?, find("slow_requests")?.parse().ok()?)),
            None => None,
        };
        Some(Self {
            tls: find("tls")?.parse().ok()?,
            first: find("first")?.parse().ok()?,
            port: find("port")?.parse().ok()?,
            hosts: find("hosts")?.parse().ok()?,
            each: find("each")?.parse().ok()?,
            path: find("path")?.to_owned(),
            body: find("body")?.parse().ok()?,
            workers: find("workers")?.parse().ok()?,
            per_host: find("per_host")?.parse().ok()?,
            grouped: find("grouped")?.parse().ok()?,
            slow,
            ca: find("ca")?.into(),
        })
    }
}

/// What has been fetched, from all threads.
pub struct Tally {
    start: Instant,
    body: u64,
    fast: u64,
    total: u64,
    fast_done: AtomicU64,
    done: AtomicU64,
    held: AtomicI64,
}

impl Tally {
    pub fn new(load: &Load) -> Self {
        Self {
            start: Instant::now(),
            body: load.body,
            fast: load.fast(),
            total: load.total(),
            fast_done: AtomicU64::new(0),
            done: AtomicU64::new(0),
            held: AtomicI64::new(0),
        }
    }

    /// A body of this length has come. Where there is a slow host, the last of the others ends
    /// the process.
    pub fn done(&self, slow: bool, bytes: u64) {
        let expected = if slow { 1024 } else { self.body };
        if bytes != expected {
            eprintln!("{bytes} bytes instead of {expected}");
            process::exit(1);
        }
        self.done.fetch_add(1, Ordering::Relaxed);
        if self.total > self.fast && !slow {
            let done = self.fast_done.fetch_add(1, Ordering::Relaxed) + 1;
            if done == self.fast {
                self.report(measure::peak_rss());
                process::exit(0);
            }
        }
    }

    /// All has been fetched, and the connections are still there.
    pub fn idles(&self) {
        self.held.store(measure::held(), Ordering::Relaxed);
    }

    /// Ends the measurement of a client that came to its end.
    pub fn finish(&self, rss_kib: u64) {
        let done = self.done.load(Ordering::Relaxed);
        assert_eq!(done, self.total, "not all has been fetched");
        self.report(rss_kib);
    }

    fn report(&self, rss_kib: u64) {
        let wall = self.start.elapsed().as_micros();
        let allocations = measure::allocations();
        let held = self.held.load(Ordering::Relaxed);
        println!("wall_us={wall} rss_kib={rss_kib} allocations={allocations} held={held}");
    }
}
