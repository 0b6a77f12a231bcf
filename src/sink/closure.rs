//! Bodies in the hands of the caller.

use std::io;
use std::sync::{OnceLock, Weak};

use super::Sink;
use crate::batch::{Intake, Jobs};
use crate::body::Body;
use crate::error::Fault;
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

    fn receive(&self, body: Body<'_>) -> Result<T, Fault> {
        body.check_length()?;
        (self.run)(body).map_err(failed)
    }

    fn item(part: T, _: Head, _: Report) -> T {
        part
    }
}

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

fn failed(error: io::Error) -> Fault {
    Fault::from_io(error, "the caller's code failed")
}
