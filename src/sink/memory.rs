//! Bodies in memory.

use std::io::Read;
use std::sync::Arc;

use super::{Sink, Stock};
use crate::body::Body;
use crate::fault::Fault;
use crate::outcome::{Fetched, Head, Report};
use crate::spares::Spares;

pub(crate) struct Memory {
    limit: u64,
    spares: Arc<Spares>,
}

/// What a server says of its body's length is believed only as far as this before the bytes
/// are there.
const BELIEVED: u64 = 1024 * 1024;

/// A body counts for one unread outcome more with each of these, so that what waits to be read is
/// bounded in bytes as well.
const HEAVY: usize = 1024 * 1024;

impl Memory {
    /// The first body goes into this buffer, if there is one.
    pub(crate) fn new(limit: u64, buffer: Option<Vec<u8>>) -> Self {
        Self {
            limit,
            spares: Arc::new(Spares::of(buffer)),
        }
    }

    pub(crate) fn spares(&self) -> Arc<Spares> {
        Arc::clone(&self.spares)
    }
}

impl Sink for Memory {
    type Part = (Vec<u8>, Arc<Spares>);
    type Item = Fetched;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn receive(&self, mut body: Body<'_>, _: Stock) -> Result<Self::Part, Fault> {
        body.check_length()?;
        let length = body.content_length().unwrap_or(0).min(BELIEVED);
        let mut bytes = self.spares.take().unwrap_or_default();
        bytes.reserve_exact(length as usize);
        match body.read_to_end(&mut bytes) {
            Ok(_) => Ok((bytes, Arc::clone(&self.spares))),
            Err(error) => {
                self.spares.give_back(bytes);
                Err(Fault::from_io(error, "reading the body failed"))
            }
        }
    }

    fn weight((body, _): &Self::Part) -> usize {
        body.len() / HEAVY
    }

    fn item((body, spares): Self::Part, head: Option<Head>, report: Report) -> Fetched {
        Fetched {
            report,
            head: head.expect("a body came with it"),
            body,
            spares,
        }
    }
}
