//! ureq as it is, one agent, on a fixed pool of threads with one queue and no limit of a host.

use std::sync::{Arc, Mutex};
use std::thread;

use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::load::{Load, Tally};

/// What is idle is gone through at each return to the pool, host by host: with one connection
/// kept for each of 200 hosts that takes longer than to connect.
pub const fn idle(load: &Load) -> usize {
    2 * load.workers
}

fn agent(load: &Load, idle: usize) -> Agent {
    let mut config = Agent::config_builder()
        .max_idle_connections(idle)
        .max_idle_connections_per_host(load.workers);
    if load.tls {
        let root = Certificate::from_pem(&load.ca_pem()).expect("a certificate");
        let roots = RootCerts::new_with_certs(&[root]);
        config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
    }
    config.build().new_agent()
}

fn get(agent: &Agent, url: &str, load: &Load) -> u64 {
    let mut response = agent.get(url).call().expect("a response");
    let body = response.body_mut();
    if load.is_big() {
        super::count(body.as_reader()).expect("a body")
    } else {
        body.read_to_vec().expect("a body").len() as u64
    }
}

/// What the engine takes by itself: the raw loop's threads, each with an agent of its own.
pub fn run_alone(load: &Arc<Load>, tally: &Arc<Tally>) {
    let threads = super::raw::split(load).into_iter().map(|parts| {
        let (load, tally) = (Arc::clone(load), Arc::clone(tally));
        thread::spawn(move || {
            let agent = agent(&load, 1);
            for (host, requests) in parts {
                for n in 0..requests {
                    let bytes = get(&agent, &load.url(host, n), &load);
                    tally.done(host == load.hosts, bytes);
                }
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().expect("a thread");
    }
}

pub fn run(load: &Arc<Load>, tally: &Arc<Tally>, idle: usize) {
    let agent = agent(load, idle);
    let queue = Arc::new(Mutex::new(load.targets()));
    let threads = (0..load.connections()).map(|_| {
        let (load, tally) = (Arc::clone(load), Arc::clone(tally));
        let (queue, agent) = (Arc::clone(&queue), agent.clone());
        thread::spawn(move || {
            loop {
                let Some(target) = queue.lock().expect("a queue").next() else {
                    return;
                };
                let bytes = get(&agent, &target.url, &load);
                tally.done(target.host == load.hosts, bytes);
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().expect("a thread");
    }
}
