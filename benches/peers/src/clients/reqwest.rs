//! reqwest on tokio's threads: a task for each request of a window, which waits for its host and
//! then for its turn among all, so that a slow host holds nobody up.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use reqwest::{Certificate, Client};
use tokio::sync::Semaphore;

use crate::load::{Load, Tally, Target};

/// As many as fetchpool reads ahead.
const WINDOW: usize = 4096;

pub fn run(load: &Arc<Load>, tally: &Arc<Tally>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(all(load, tally));
}

async fn all(load: &Arc<Load>, tally: &Arc<Tally>) {
    let mut builder = Client::builder().pool_max_idle_per_host(load.per_host);
    if load.tls {
        let root = Certificate::from_pem(&load.ca_pem()).expect("a certificate");
        builder = builder.tls_certs_only([root]);
    }
    // Without TLS as well, reqwest wants to know whose it would be.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = builder.build().expect("a client");
    let hosts = (0..=load.hosts).map(|_| Arc::new(Semaphore::new(load.per_host)));
    let hosts: Vec<_> = hosts.collect();
    let workers = Arc::new(Semaphore::new(load.workers));
    let tasks = stream::iter(load.targets()).map(|target| {
        let (client, load) = (client.clone(), Arc::clone(load));
        let host = Arc::clone(&hosts[target.host as usize]);
        let workers = Arc::clone(&workers);
        let tally = Arc::clone(tally);
        tokio::spawn(async move {
            let _host = host.acquire().await.expect("a host");
            let _worker = workers.acquire().await.expect("a worker");
            let bytes = fetch(&client, &load, &target).await.expect("a body");
            tally.done(target.host == load.hosts, bytes);
        })
    });
    let mut tasks = tasks.buffer_unordered(WINDOW);
    while let Some(done) = tasks.next().await {
        done.expect("a task");
    }
}

async fn fetch(client: &Client, load: &Load, target: &Target) -> reqwest::Result<u64> {
    let mut response = client.get(&target.url).send().await?.error_for_status()?;
    if !load.is_big() {
        return Ok(response.bytes().await?.len() as u64);
    }
    let mut bytes = 0;
    while let Some(chunk) = response.chunk().await? {
        bytes += chunk.len() as u64;
    }
    Ok(bytes)
}
