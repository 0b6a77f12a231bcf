//! What the library promises, each on real sockets against the scripted origin: one file a promise.
//!
//! With something to encrypt with built in: without, what holds is in `tests/provider.rs`.
#![cfg(any(feature = "ring", feature = "aws-lc-rs"))]

mod addresses;
mod batch;
mod breaker;
mod budget;
mod completeness;
mod digests;
mod ending;
mod ends;
mod files;
mod handles;
mod hop;
mod large;
mod lazy;
mod memory;
mod mirrors;
mod names;
mod open;
mod panic;
mod permit;
mod redirects;
mod resume;
mod retry;
mod secrets;
#[path = "../support/mod.rs"]
mod support;
mod time;
mod tls;

use std::num::NonZeroUsize;

use fetchpool::{Builder, Downloader, RetryPolicy};

fn n(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).expect("not zero")
}

/// Each request once: those tests that are about retries say so.
fn builder() -> Builder {
    Downloader::builder().retry(RetryPolicy::none())
}

/// A downloader with no settings besides.
fn once() -> Downloader {
    with(|builder| builder)
}

/// A downloader with these settings.
fn with(settings: impl FnOnce(Builder) -> Builder) -> Downloader {
    settings(builder()).build().expect("valid settings")
}
