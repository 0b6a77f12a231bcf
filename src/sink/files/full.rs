//! A disk that is full, at which the rest of a batch is not tried.

use std::collections::HashSet;
use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::Files;
use crate::fault::{ErrorKind, Fault};
use crate::outcome::Report;

/// The file systems on which nothing more can be written. Files of one batch may lie on several.
#[derive(Debug, Default)]
pub(super) struct Full {
    /// There are some. Else nobody looks where a file is to lie.
    are_some: AtomicBool,
    /// Guards their numbers, for as long as it takes to look one up.
    which: Mutex<HashSet<u64>>,
}

impl Full {
    /// Whether a file at this path may be tried.
    pub(super) fn check(&self, path: impl FnOnce() -> Option<PathBuf>) -> Result<(), Fault> {
        if !self.are_some.load(Ordering::Relaxed) {
            return Ok(());
        }
        let system = path().and_then(|path| system_of(&path));
        if system.is_none_or(|system| !self.which.lock().contains(&system)) {
            return Ok(());
        }
        let detail = "not tried: the disk was full at another file of this batch";
        Err(Fault::new(ErrorKind::Io, detail))
    }

    /// What a file at this path failed of.
    pub(super) fn note(&self, fault: &Fault, path: &Path) {
        let error = fault.source().and_then(|error| error.downcast_ref());
        let kind = error.map(io::Error::kind);
        if let Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) = kind {
            self.which.lock().extend(system_of(path));
            self.are_some.store(true, Ordering::Relaxed);
        }
    }
}

impl Files {
    pub(super) fn note_full(&self, report: &Report, fault: &Fault) {
        if let Some(path) = self.place_of_part(report) {
            self.full.note(fault, &path);
        }
    }
}

/// The number of the file system that a file at this path is on, or would be.
#[cfg(unix)]
fn system_of(path: &Path) -> Option<u64> {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    let parents = path.ancestors().skip(1);
    let mut parents = parents.map(|parent| match parent.as_os_str().is_empty() {
        true => fs::metadata("."),
        false => fs::metadata(parent),
    });
    parents.find_map(Result::ok).map(|meta| meta.dev())
}

/// Not told here: all are taken for one.
#[cfg(not(unix))]
fn system_of(_: &Path) -> Option<u64> {
    Some(0)
}
