//! The scripted origin: a real HTTP/1.1 server on loopback that sends the very bytes, pauses and resets that a test
//! asks for, and counts what it sees.
//!
//! ```ignore
//! mod support;
//! use support::{Gate, Origin, Reply};
//!
//! let gate = Gate::new();
//! let held = gate.clone();
//! let origin = Origin::start(move |incoming| match incoming.target() {
//!     "/slow" => Reply::ok("slow").after(&held),
//!     "/cut" => Reply::ok("half").declared_length(8).then_reset(),
//!     _ => Reply::status(404),
//! });
//! // … ask for origin.url("/slow") six times …
//! gate.wait_for_waiters(6);
//! assert_eq!(origin.stats().requests.peak, 6);
//! gate.open();
//! ```
//!
//! Nothing here sleeps to synchronise: a test waits for a [`Gate`] or for [`Origin::wait_until`], and every wait ends in
//! a panic that says what it waited for once [`PATIENCE`] is spent.
//!
//! Needs `parking_lot`, `crossbeam-channel` and `socket2`.

// Each test file compiles this module for itself and uses some of it; `pub` is for them, not for the world.
#![allow(dead_code, unreachable_pub, unused_imports)]

mod census;
mod client;
mod connection;
mod dead;
mod gate;
mod head;
mod incoming;
mod ledger;
mod origin;
mod player;
mod process;
mod reply;
mod script;
mod stop;

use std::time::Duration;

pub use client::Client;
pub use dead::Dead;
pub use gate::Gate;
pub use incoming::Incoming;
pub use ledger::{Flow, Stats};
pub use origin::Origin;
#[cfg(unix)]
pub use process::alone_with_handles;
pub use process::{alone, alone_in, eventually};
#[cfg(target_os = "linux")]
pub use process::{open_sockets, threads, threads_named, threads_not_of_origins};
pub use reply::Reply;

/// How long any wait of the support code lasts before it panics: no test hangs for ever, and no loaded machine fails one.
pub const PATIENCE: Duration = Duration::from_secs(30);
