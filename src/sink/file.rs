//! Bodies in files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Sink, name};
use crate::body::Body;
use crate::error::{ErrorKind, Fault};
use crate::outcome::{Head, Report, Saved};

/// Files below one directory. The final name appears when the body is whole, not before, and
/// never in the place of a file that is there.
pub(crate) struct Files {
    pub(crate) directory: PathBuf,
    pub(crate) limit: u64,
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
        Ok((part.publish(&self.directory, &name)?, bytes))
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

    /// Gives it its name, or that name with a number where it is taken.
    fn publish(self, directory: &Path, name: &str) -> Result<PathBuf, Fault> {
        for number in 0.. {
            let path = directory.join(name::numbered(name, number));
            match self.rename_to_new(&path) {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(fault(&path, error)),
            }
        }
        unreachable!("a number is free")
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
