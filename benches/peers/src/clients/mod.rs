//! The contenders. Each ends its process where something fails.

use std::cell::RefCell;
use std::io::{self, Read};
use std::sync::Arc;

use crate::load::{Load, Tally};
use crate::measure;

mod curl;
mod fetchpool;
mod raw;
mod reqwest;
mod ureq;

/// In the order of the table; the first is what the others are compared with.
pub const ALL: [&str; 9] = [
    "raw",
    "fetchpool",
    "fetchpool-with",
    "ureq-alone",
    "ureq-pool",
    "ureq-pool-idle",
    "curl-multi",
    "reqwest",
    "curl -Z",
];

/// Fetches all, and tells on standard output what it took.
pub fn run(name: &str, load: Load) -> Result<(), String> {
    let tally = Arc::new(Tally::new(&load));
    let load = Arc::new(load);
    match name {
        "raw" => raw::run(&load, &tally),
        "fetchpool" => fetchpool::run(&load, &tally),
        "fetchpool-with" => fetchpool::run_with(&load, &tally),
        "ureq-alone" => ureq::run_alone(&load, &tally),
        "ureq-pool" => ureq::run(&load, &tally, ureq::idle(&load)),
        "ureq-pool-idle" => ureq::run(&load, &tally, 4096),
        "curl-multi" => curl::run(&load, &tally),
        "reqwest" => reqwest::run(&load, &tally),
        "curl -Z" => {
            curl::run_command(&load, &tally);
            tally.finish(measure::child_rss());
            return Ok(());
        }
        _ => return Err(format!("no client {name}")),
    }
    tally.finish(measure::peak_rss());
    Ok(())
}

/// Reads to the end with a buffer that the thread keeps.
fn count(mut body: impl Read) -> io::Result<u64> {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; 256 * 1024]);
    }
    BUFFER.with_borrow_mut(|buffer| {
        let mut bytes = 0;
        loop {
            match body.read(buffer)? {
                0 => return Ok(bytes),
                read => bytes += read as u64,
            }
        }
    })
}
