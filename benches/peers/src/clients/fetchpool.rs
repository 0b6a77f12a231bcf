//! This crate: bodies into memory and dropped, and a closure that counts bytes.

use std::num::NonZeroUsize;
use std::sync::Arc;

use fetchpool::Downloader;

use crate::load::{Load, Tally};

fn downloader(load: &Load) -> Downloader {
    let per_host = NonZeroUsize::new(load.per_host).expect("not zero");
    let builder = Downloader::builder().workers(load.workers);
    let mut builder = builder.per_host(per_host);
    if load.tls {
        builder = builder.add_root_pem(load.ca_pem());
    }
    builder.build().expect("a downloader")
}

pub fn run(load: &Arc<Load>, tally: &Arc<Tally>) {
    let downloader = downloader(load);
    for page in downloader.fetch_all(load.targets().map(|target| target.url)) {
        let page = page.expect("a page");
        let slow = load.is_slow(page.url().host_str());
        tally.done(slow, page.body().len() as u64);
        page.recycle();
    }
    tally.idles();
}

pub fn run_with(load: &Arc<Load>, tally: &Arc<Tally>) {
    let downloader = downloader(load);
    let urls = load.targets().map(|target| target.url);
    let of = Arc::clone(load);
    let bodies = downloader.fetch_with(urls, move |mut body| {
        let slow = of.is_slow(body.url().host_str());
        Ok((slow, super::count(&mut body)?))
    });
    for body in bodies {
        let (slow, bytes) = body.expect("a body");
        tally.done(slow, bytes);
    }
}
