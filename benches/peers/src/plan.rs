//! The workloads.

use std::time::Duration;

use crate::load::Load;
use crate::server::{NGINX_FIRST, NGINX_HOSTS, Nginx, ORIGIN_FIRST, ORIGIN_HOSTS, Origin};

const MIB: u64 = 1 << 20;

/// What is asked for on the command line.
pub struct Plan {
    only: Vec<String>,
    clients: Vec<String>,
    pub rounds: usize,
    pub quick: bool,
    pub pin: bool,
    pub counts: bool,
}

pub struct Servers<'a> {
    pub nginx: &'a Nginx,
    pub origin: &'a Origin,
}

pub struct Work {
    pub id: &'static str,
    pub title: String,
    pub load: Load,
    pub rounds: usize,
    /// A smaller load, for counting.
    pub counts: Option<Load>,
    /// What the wall time is compared with: a time, or a load without what is in the way.
    pub ideal: Option<Duration>,
    pub alone: Option<Load>,
}

impl Plan {
    pub fn from_args(args: &[String]) -> Option<Self> {
        let mut plan = Self {
            only: Vec::new(),
            clients: Vec::new(),
            rounds: 5,
            quick: false,
            pin: false,
            counts: true,
        };
        let list = |text: &String| text.split(',').map(str::to_owned).collect();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--only" => plan.only = list(args.next()?),
                "--clients" => plan.clients = list(args.next()?),
                "--rounds" => plan.rounds = args.next()?.parse().ok().filter(|&n| n > 0)?,
                "--quick" => plan.quick = true,
                "--pin" => plan.pin = true,
                "--no-counts" => plan.counts = false,
                _ => return None,
            }
        }
        Some(plan)
    }

    /// Whether a contender takes part.
    pub fn takes(&self, client: &str, work: &Work) -> bool {
        let named = self.clients.iter().any(|name| name == client);
        // Milliseconds a request: only for who asks.
        let named = named || self.clients.is_empty() && client != "ureq-pool-idle";
        let able = match client {
            // It has no limit of a host, and a start that shows in all that is short.
            "curl -Z" => work.id == "1",
            // Those would be 4 GiB of memory.
            "fetchpool" => !work.load.is_big(),
            _ => true,
        };
        named && able
    }

    fn scaled(&self, n: u64) -> u64 {
        if self.quick { n / 10 } else { n }
    }

    /// The large file, and the smaller ones.
    fn sizes(&self) -> (u64, u64) {
        if self.quick {
            (512 * MIB, 16 * MIB)
        } else {
            (4096 * MIB, 128 * MIB)
        }
    }

    pub fn files(&self) -> [u64; 2] {
        let (large, small) = self.sizes();
        [large, small]
    }

    /// One connection to each of many hosts, over http and over https.
    pub fn idle(&self, servers: &Servers<'_>) -> Option<[Load; 2]> {
        let is_listed = self.only.is_empty() || self.only.iter().any(|id| id == "8");
        let http = Load {
            hosts: NGINX_HOSTS,
            each: 1,
            workers: 1,
            ..self.nginx(servers)
        };
        let https = https(&http, servers);
        is_listed.then_some([http, https])
    }

    pub fn works(&self, servers: &Servers<'_>) -> Vec<Work> {
        let mut works = self.all(servers);
        works.retain(|work| {
            let listed = |id: &String| work.id.starts_with(id.as_str());
            self.only.is_empty() || self.only.iter().any(listed)
        });
        works
    }

    fn nginx(&self, servers: &Servers<'_>) -> Load {
        Load {
            tls: false,
            first: NGINX_FIRST,
            port: servers.nginx.port,
            hosts: 1,
            each: self.scaled(20_000),
            path: "/1k".to_owned(),
            body: 1024,
            workers: 6,
            per_host: 6,
            grouped: false,
            slow: None,
            ca: servers.nginx.ca.clone(),
        }
    }

    fn all(&self, servers: &Servers<'_>) -> Vec<Work> {
        let nginx = self.nginx(servers);
        let mut works = self.small(&nginx);
        works.extend(self.waiting(&nginx, servers.origin));
        works.extend(self.big(&nginx, ["5a", "5b", "5c"]));
        let tls = https(&nginx, servers);
        works.push(self.one_host("6a", "https: ", &tls));
        works.extend(self.big(&tls, ["6b", "6c", "6d"]));
        works.push(self.million(&nginx));
        works
    }

    fn work(&self, id: &'static str, title: impl Into<String>, load: Load) -> Work {
        Work {
            id,
            title: title.into(),
            load,
            rounds: self.rounds,
            counts: None,
            ideal: None,
            alone: None,
        }
    }

    fn one_host(&self, id: &'static str, scheme: &str, load: &Load) -> Work {
        let title = format!("{scheme}{} × 1 KiB on one host, 6 at once", load.each);
        let mut work = self.work(id, title, load.clone());
        work.counts = Some(Load {
            each: self.scaled(5000),
            ..load.clone()
        });
        work
    }

    fn small(&self, nginx: &Load) -> Vec<Work> {
        let hosts = |grouped| {
            let load = Load {
                hosts: NGINX_HOSTS,
                each: self.scaled(100),
                workers: 32,
                grouped,
                ..nginx.clone()
            };
            let order = if grouped {
                "listed host by host"
            } else {
                "listed in turn"
            };
            let id = if grouped { "2b" } else { "2a" };
            let title = format!("200 hosts × {} × 1 KiB, 32 at once, {order}", load.each);
            let mut work = self.work(id, title, load.clone());
            let each = self.scaled(100).min(25);
            work.counts = Some(Load { each, ..load });
            work
        };
        vec![self.one_host("1", "", nginx), hosts(false), hosts(true)]
    }

    fn waiting(&self, nginx: &Load, origin: &Origin) -> [Work; 2] {
        let load = Load {
            first: ORIGIN_FIRST,
            port: origin.port,
            hosts: ORIGIN_HOSTS - 1,
            each: 50,
            path: "/wait/20".to_owned(),
            workers: 384,
            ..nginx.clone()
        };
        let title = "64 hosts × 50 answers of 20 ms, 384 at once; ideal: 9 × 20 ms";
        let mut wide = self.work("3", title, load);
        wide.ideal = Some(Duration::from_millis(180));

        let alone = Load {
            hosts: 50,
            each: 20,
            workers: 32,
            ..nginx.clone()
        };
        let load = Load {
            slow: Some((origin.slow_host(), 100)),
            ..alone.clone()
        };
        let title = "100 URLs of a one-second host first, then 50 hosts × 20, 32 at once: \
                     until the last of the 50's";
        let mut slow = self.work("4", title, load);
        slow.alone = Some(alone);
        [wide, slow]
    }

    fn big(&self, load: &Load, ids: [&'static str; 3]) -> [Work; 3] {
        let (large, small) = self.sizes();
        let kinds = [(1, large, 1), (32, small, 6), (32, small, 32)];
        let mut kinds = ids.into_iter().zip(kinds);
        std::array::from_fn(|_| {
            let (id, (each, body, at_once)) = kinds.next().expect("three");
            let load = Load {
                each,
                path: format!("/{body}"),
                body,
                workers: at_once,
                per_host: at_once,
                ..load.clone()
            };
            let scheme = if load.tls { "https: " } else { "" };
            let mib = body / MIB;
            let title = format!("{scheme}{each} × {mib} MiB on one host, {at_once} at once");
            self.work(id, title, load)
        })
    }

    fn million(&self, nginx: &Load) -> Work {
        let load = Load {
            hosts: NGINX_HOSTS,
            each: self.scaled(5000),
            workers: 32,
            ..nginx.clone()
        };
        let title = format!("{} URLs, 200 hosts in turn: resident memory", load.fast());
        let mut work = self.work("7", title, load);
        work.rounds = 1;
        work
    }
}

fn https(load: &Load, servers: &Servers<'_>) -> Load {
    Load {
        tls: true,
        port: servers.nginx.tls_port,
        ..load.clone()
    }
}
