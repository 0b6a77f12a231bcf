//! Bodies in memory.

use std::io::Read;

use super::Sink;
use crate::body::Body;
use crate::fault::Fault;
use crate::outcome::{Fetched, Head, Report};

pub(crate) struct Memory {
    pub(crate) limit: u64,
}

/// What a server says of its body's length is believed only as far as this before the bytes
/// are there.
const BELIEVED: u64 = 1024 * 1024;

impl Sink for Memory {
    type Part = Vec<u8>;
    type Item = Fetched;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn receive(&self, mut body: Body<'_>) -> Result<Vec<u8>, Fault> {
        body.check_length()?;
        let length = body.content_length().unwrap_or(0).min(BELIEVED);
        let mut bytes = Vec::with_capacity(length as usize);
        body.read_to_end(&mut bytes)
            .map_err(|error| Fault::from_io(error, "reading the body failed"))?;
        Ok(bytes)
    }

    fn item(body: Vec<u8>, head: Head, report: Report) -> Fetched {
        Fetched { report, head, body }
    }
}
