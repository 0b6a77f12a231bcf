//! Where bodies go. Knows nothing of HTTP's wire.

mod closure;
mod file;
mod memory;
mod name;

pub(crate) use closure::Closure;
pub(crate) use file::Files;
pub(crate) use memory::Memory;

use crate::body::Body;
use crate::fault::Fault;
use crate::outcome::{Head, Report};

/// Where the bodies of a batch go, and what its consumer gets for each.
pub(crate) trait Sink: Send + Sync + 'static {
    /// What the sink itself makes of a body.
    type Part: Send;
    /// What the consumer gets.
    type Item: Send + 'static;

    /// The largest body in bytes.
    fn limit(&self) -> u64;

    /// Reads the body, on a worker that holds the host's token meanwhile.
    fn receive(&self, body: Body<'_>) -> Result<Self::Part, Fault>;

    fn item(part: Self::Part, head: Head, report: Report) -> Self::Item;
}
