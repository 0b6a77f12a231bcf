//! A blocking batch downloader: many URLs, many hosts, a fixed pool of threads, and never more
//! than a set number of connections to any one host. No async runtime.
//!
//! ```no_run
//! use fetchpool::Downloader;
//!
//! let urls = ["https://example.com/a", "https://example.org/b"];
//! for page in Downloader::new().fetch_all(urls) {
//!     match page {
//!         Ok(page) => println!("{} {} bytes", page.url(), page.body().len()),
//!         Err(error) => eprintln!("{error}"),
//!     }
//! }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod batch;
mod body;
mod downloader;
mod error;
mod http;
mod job;
mod outcome;
mod request;
mod schedule;
mod sink;

pub use ::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
pub use url::Url;

pub use crate::batch::{Batch, Canceller, Jobs, Outcomes};
pub use crate::body::Body;
pub use crate::downloader::{Builder, Downloader};
pub use crate::error::{Error, ErrorKind};
pub use crate::outcome::{Fetched, Report, Saved, Timings};
pub use crate::request::Request;
pub use crate::schedule::{Key, Permit, Priority};
