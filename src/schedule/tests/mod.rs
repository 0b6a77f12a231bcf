//! The promises of the scheduler, without a network.
//!
//! In `steps` and `moves` the state is turned by hand beside a naive model, one move at a time.
//! The others run real threads, on `rig`, and wait by channels, never by the clock.

mod entries;
mod interrupts;
mod model;
mod moves;
mod order;
mod permits;
mod rig;
mod run;
mod steps;
mod stop;
mod threads;
mod workers;

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
