//! Bodies in files.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::{Sink, name};
use crate::body::Body;
use crate::fault::{ErrorKind, Fault};
use crate::outcome::{Head, Report, Saved};

/// Files below one directory. The final name appears when the body is whole, not before, and
/// never in the place of a file that is there.
pub(crate) struct Files {
    directory: PathBuf,
    limit: u64,
    names: Mutex<Names>,
}

/// What the workers of one batch tell each other of names. Never held during I/O.
#[derive(Default)]
struct Names {
    /// Of names that were taken: the next number to try, so that the n-th file of one name does
    /// not try all before it.
    numbers: HashMap<String, u64>,
    /// Being given to a file now. Where the file system cannot make sure that no two are given
    /// one name, this does for the workers of this batch.
    giving: HashSet<String>,
}

impl Files {
    pub(crate) fn new(directory: PathBuf, limit: u64) -> Self {
        Self {
            directory,
            limit,
            names: Mutex::default(),
        }
    }

    /// Gives the part its name, or that name with a number where it is taken.
    fn publish(&self, part: &Part, name: &str) -> Result<PathBuf, Fault> {
        // Some file systems take upper and lower case for one.
        let key = name.to_lowercase();
        loop {
            let number = self.claim(&key);
            let path = self.directory.join(name::numbered(name, number));
            let given = part.rename_to_new(&path);
            let mut names = self.names.lock();
            names.giving.remove(&name::numbered(&key, number));
            match given {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let next = names.numbers.entry(key.clone()).or_default();
                    *next = (*next).max(number + 1);
                }
                Err(error) => return Err(fault(&path, error)),
            }
        }
    }

    /// The first number that may be free for this name, and that no other worker is trying.
    fn claim(&self, key: &str) -> u64 {
        let mut names = self.names.lock();
        let mut number = names.numbers.get(key).copied().unwrap_or(0);
        while !names.giving.insert(name::numbered(key, number)) {
            number += 1;
        }
        number
    }
}

/// How much is read and written at once.
const PIECE: usize = 64 * 1024;

impl Sink for Files {
    type Part = (PathBuf, u64);
    type Item = Saved;

    fn limit(&self) -> u64 {
        self.limit
    }

    fn receive(&self, mut body: Body<'_>) -> Result<(PathBuf, u64), Fault> {
        body.check_length()?;
        let name = name::of(body.url());
        let mut part = Part::create(&self.directory, &name)?;
        part.write_all_of(&mut body)?;
        let bytes = body.taken();
        Ok((self.publish(&part, &name)?, bytes))
    }

    fn item((path, bytes): (PathBuf, u64), head: Head, report: Report) -> Saved {
        Saved {
            report,
            head,
            path,
            bytes,
        }
    }
}

/// A file that is not whole yet, under a temporary name. Dropping it removes it.
struct Part {
    path: PathBuf,
    file: File,
}

impl Part {
    fn create(directory: &Path, name: &str) -> Result<Self, Fault> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let mut made_directory = false;
        loop {
            let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
            let unique = format!("{}-{serial}", std::process::id());
            let path = directory.join(name::temporary(name, &unique));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Self { path, file }),
                // Left behind by a process of the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound && !made_directory => {
                    fs::create_dir_all(directory).map_err(|error| fault(directory, error))?;
                    made_directory = true;
                }
                Err(error) => return Err(fault(&path, error)),
            }
        }
    }

    fn write_all_of(&mut self, body: &mut Body<'_>) -> Result<(), Fault> {
        let mut piece = vec![0; PIECE];
        loop {
            let amount = body
                .read(&mut piece)
                .map_err(|error| Fault::from_io(error, "reading the body failed"))?;
            if amount == 0 {
                return Ok(());
            }
            self.file
                .write_all(&piece[..amount])
                .map_err(|error| fault(&self.path, error))?;
        }
    }

    /// `fs::rename` would replace a file that another process has made meanwhile; making a
    /// link fails if there is one.
    fn rename_to_new(&self, path: &Path) -> io::Result<()> {
        match fs::hard_link(&self.path, path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                // A file system without links (FAT, some network shares): as close as it gets.
                if path.try_exists()? {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                fs::rename(&self.path, path)
            }
            result => result,
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // After a rename there is nothing left to remove.
        let _ = fs::remove_file(&self.path);
    }
}

fn fault(path: &Path, error: io::Error) -> Fault {
    Fault::with_source(
        ErrorKind::Io,
        format!("cannot write {}", path.display()),
        error,
    )
}
