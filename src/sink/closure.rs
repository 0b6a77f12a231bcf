//! Bodies in the hands of the caller.

use std::io;

use super::{Sink, Stock};
use crate::body::Body;
use crate::fault::{ErrorKind, Fault};
use crate::outcome::{Head, Report};

pub(crate) struct Closure<F> {
    pub(crate) run: F,
    pub(crate) limit: u64,
}

impl<F, T> Sink for Closure<F>
where
    F: Fn(Body<'_>) -> io::Result<T> + Send + Sync + 'static,
    T: Send + 'static,
{
    type Part = T;
    type Item = T;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn receive(&self, body: Body<'_>, _: Stock) -> Result<T, Fault> {
        body.check_length()?;
        (self.run)(body).map_err(|error| {
            let fault = Fault::from_io(error, "the caller's code failed");
            Fault {
                is_the_callers: fault.kind == ErrorKind::Io,
                ..fault
            }
        })
    }

    fn item(part: T, _: Option<Head>, _: Report) -> T {
        part
    }
}
