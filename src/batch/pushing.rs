//! A closure that gets the bodies and pushes further requests: the sink of a crawler.

use std::io;
use std::sync::{OnceLock, Weak};

use super::intake::{Intake, Jobs};
use crate::body::Body;
use crate::fault::Fault;
use crate::outcome::{Head, Report};
use crate::sink::{Sink, failed};

/// A closure that pushes further requests.
pub(crate) struct Pushing<F> {
    pub(crate) run: F,
    pub(crate) limit: u64,
    /// Weak: the intake owns this sink. It is there as long as a consumer or a `Jobs` is.
    pub(crate) intake: OnceLock<Weak<Intake>>,
}

impl<F, T> Sink for Pushing<F>
where
    F: Fn(Body<'_>, &Jobs) -> io::Result<T> + Send + Sync + 'static,
    T: Send + 'static,
{
    type Part = T;
    type Item = T;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn receive(&self, body: Body<'_>) -> Result<T, Fault> {
        body.check_length()?;
        let Some(intake) = self.intake.get().and_then(Weak::upgrade) else {
            return Err(Fault::cancelled());
        };
        (self.run)(body, &Jobs::new(intake)).map_err(failed)
    }

    fn item(part: T, _: Head, _: Report) -> T {
        part
    }
}
