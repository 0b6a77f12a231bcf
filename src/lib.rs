//! A blocking batch downloader: many URLs, many hosts, a fixed pool of threads, and never more
//! than a set number of connections to any one host. No async runtime.
//!
//! ```no_run
//! use fetchpool::Downloader;
//!
//! let urls = ["https://example.com/a", "https://example.org/b"];
//! for page in Downloader::new().fetch_all(urls) {
//!     match page {
//!         Ok(page) => println!("{} {} bytes", page.shown_url(), page.body().len()),
//!         Err(error) => eprintln!("{error}"),
//!     }
//! }
//! ```
//!
//! # Which call
//!
//! Those for many return a [`Batch`] (or [`Outcomes`]), an iterator over their outcomes; an outcome is a
//! `Result`.
//!
//! | bodies go | many | one at a time |
//! | --- | --- | --- |
//! | into memory | [`Downloader::fetch_all`], with [`Fetched::recycle`] for many small ones | [`Downloader::fetch`] |
//! | into a buffer of yours | | [`Downloader::fetch_into`] |
//! | into files | [`Downloader::save_all`] | |
//! | to a closure, as they come | [`Downloader::fetch_with`] | |
//! | into memory, requests pushed | [`Downloader::open`] | |
//! | to a closure that pushes further requests | [`Downloader::open_with`] | |
//! | wherever you read them by other means | | [`Downloader::permit`] |
//!
//! What they take is anything that turns into a [`Request`]: text, a [`Url`], or a request with
//! headers, a [`Priority`], budgets and a tag of its own. What comes out is a `Result` for each,
//! whose [`Report`] says which request it was and how that went.
//!
//! # How it works
//!
//! Each host has a *budget*: a bounded channel, whose fill is the requests that are being made.
//! A request takes a token of its host's budget (and of those of the caller's that it names, see
//! [`Request::budget`]) as it is given to a worker, all of them or none, and gives them back
//! with the last byte of the body. Workers never wait for tokens; requests do, in line, and a
//! host whose line is long holds nobody else up. A redirect gives the old host's token back and
//! stands in line for the new one's.
//!
//! The input is read lazily, a window ahead of the outcomes that have been asked for, and
//! outcomes that nobody reads are bounded in number: see [`Batch`].
//!
//! # Time and failure
//!
//! Every wait for a server has a limit, none is a total by default: a large file may take hours, a
//! silent server may not ([`Builder::idle_timeout`] and its neighbours). Totals are there for who wants
//! them: of a request ([`Request::timeout`]), of a batch ([`Batch::timeout`]).
//!
//! What failed and may pass is tried again, as the [`RetryPolicy`] says: a busy server, a cut, a time
//! limit. Between attempts a request holds neither a thread nor a token. `Retry-After` keeps the whole
//! host waiting, and a host that takes no connection is left alone for a while ([`HostBreaker`]); other
//! hosts do not feel it. A body that is cut goes on where it broke off, if its validator is strong
//! (RFC 9110, section 8.8.1) and the server can do that; otherwise it starts again, and a closure is
//! called anew.
//!
//! # Files
//!
//! A file is whole or not there: [`Downloader::save_all`] gives it its name by a rename, when all of its
//! bytes have been verified ([`Request::expect_digest`], and the framing of its body) and are on the
//! disk. What came of a body that broke off is bound to its URL and validator, and is gone on with by
//! the next attempt or the next run. [`Directory`] says where files go, what becomes of those that
//! stand there, and has a journal for runs that may be interrupted.
//!
//! # Names
//!
//! *Host* is what a [`Key`] says: a name and a port. Sizes are in bytes, times are
//! [`Duration`](std::time::Duration)s on the monotonic clock, counts that cannot be zero are
//! [`NonZeroUsize`](std::num::NonZeroUsize).
//!
//! # Errors and panics
//!
//! Every request has an outcome, whatever happens: [`ErrorKind`] lists the ways to fail. A
//! closure of the caller's that panics is the outcome of its request; the worker goes on.
//!
//! # Features
//!
//! None of them takes anything away or changes what another crate of the program relies on.
//!
//! - **`ring`** (on by default): TLS encrypts with the crate `ring`.
//! - **`aws-lc-rs`**: TLS encrypts with AWS-LC. It takes longer to compile, and on some targets
//!   needs CMake.
//! - **`platform-verifier`**: there is a `Builder::platform_verifier`, which lets the system judge
//!   certificates. Until that is called all is as without the feature.
//!
//! What encrypts is, in this order: the provider that the program has installed for the whole
//! process (`rustls::crypto::CryptoProvider::install_default`) before a downloader is built;
//! AWS-LC; `ring`. So what the program has decided holds, whatever crates turn on, and
//! `aws-lc-rs`, which is on only if somebody asked for it, goes before the default. Without any
//! of the three [`Builder::build`] fails and [`Downloader::new`] panics.
//!
//! # Logging
//!
//! Through the [`log`](https://docs.rs/log) crate, few lines, and never a header or a URL with its secrets. What may
//! be shown of a URL, [`Report::shown`] says; errors and what `Debug` prints keep to it.
//!
//! The crates underneath log as well, under the targets `ureq`, `ureq_proto` and `rustls`. Up to
//! the level `Debug` they name hosts, statuses and the values of a few harmless headers, and
//! leave out paths, queries, other headers and where a redirect leads to. At `Trace` they do
//! not: `ureq` shows paths with queries, and `Location` as it came; `ureq_proto` shows the very
//! bytes of requests, `Authorization` and cookies among them, and of responses. Where logs go to
//! others, give these targets no more than `Debug`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod batch;
mod body;
mod builder;
mod deadline;
mod digest;
mod downloader;
mod engine;
mod error;
mod fault;
mod http;
mod job;
mod outcome;
mod redact;
mod request;
mod retry;
mod rules;
mod schedule;
mod sink;
mod spares;

pub use ::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
pub use url::Url;

pub use crate::batch::{Batch, Canceller, Jobs, Outcomes};
pub use crate::body::Body;
pub use crate::builder::Builder;
pub use crate::digest::{Digest, DigestAlgorithm, ParseDigestError};
pub use crate::downloader::Downloader;
pub use crate::error::Error;
pub use crate::fault::ErrorKind;
pub use crate::http::HostBreaker;
pub use crate::http::address::is_public_address;
pub use crate::http::resolve::{IpFamily, Resolve, SystemResolver};
pub use crate::outcome::{Fetched, Received, Report, Saved, Timings};
pub use crate::request::Request;
pub use crate::retry::{Failure, RetryPolicy};
pub use crate::schedule::{Key, Permit, Priority};
pub use crate::sink::{Directory, Layout, NameFrom, OnExist};

/// The README's examples are compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
