//! Where bodies go. Knows nothing of HTTP's wire.

mod closure;
mod directory;
mod disposition;
mod files;
mod memory;
mod name;
mod stock;

pub(crate) use closure::Closure;
pub use directory::{Directory, Layout, NameFrom, OnExist};
pub(crate) use files::{Divided, Files};
pub(crate) use memory::Memory;
pub(crate) use stock::{Came, Kept, Stock};

use crate::body::Body;
use crate::digest::Check;
use crate::fault::Fault;
use crate::outcome::{Before, Head, Report};
use crate::request::Request;

/// What came of the first part of a body.
pub(crate) enum Begun<T> {
    /// There is no need for the rest.
    All(T),
    /// The rest is to come in pieces.
    First(Box<Divided>),
}

/// Where the bodies of a batch go, and what its consumer gets for each.
pub(crate) trait Sink: Send + Sync + 'static {
    /// What the sink itself makes of a body.
    type Part: Send;
    /// What the consumer gets.
    type Item: Send + 'static;

    /// The largest body in bytes.
    fn limit(&self) -> u64;

    /// Of a request that is let in, in the order of the input.
    fn admit(&self, _: &Request) -> Before {
        Before::default()
    }

    /// What it has already of what is about to be asked for.
    fn stock(&self, _: &Report) -> Result<Stock, Fault> {
        Ok(Stock::Nothing)
    }

    /// Reads the body, on a worker that holds the host's token meanwhile.
    fn receive(&self, body: Body<'_>, stock: Stock) -> Result<Self::Part, Fault>;

    /// Reads the first part of a body that is to come in pieces.
    fn begin(&self, _: Body<'_>) -> Result<Begun<Self::Part>, Fault> {
        unreachable!("a sink that asks for no part divides nothing")
    }

    /// What it has is all, as the response says if there is one.
    fn settle(
        &self,
        _: Stock,
        _: Option<&Head>,
        _: &Report,
        _: Option<Check>,
    ) -> Result<Self::Part, Fault> {
        unreachable!("a sink that keeps nothing has no stock")
    }

    /// Nobody waits for more of the batch.
    fn close(&self) {}

    /// A job came to nothing.
    fn failed(&self, _: &Report, _: &Fault) {}

    /// How many unread outcomes this counts for, besides the one that it is.
    fn weight(_: &Self::Part) -> usize {
        0
    }

    fn item(part: Self::Part, head: Option<Head>, report: Report) -> Self::Item;
}
