//! The promises of the scheduler, without a network.
//!
//! `model` and `steps` turn the state by hand, one move at a time, on random histories. The
//! others run real threads, and wait by channels, never by the clock.

mod model;
mod moves;
mod steps;

use std::num::NonZeroUsize;
use std::time::Duration;

use super::*;

fn some(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

fn key(n: usize) -> Key {
    Key::named(&n.to_string())
}

fn limits(workers: usize, per_host: usize) -> Limits {
    Limits {
        workers: some(workers),
        per_host: some(per_host),
        idle_age: Duration::from_secs(60),
        idle_entries: 3,
    }
}
