//! How a file gets its name.

use std::fs;
use std::io;
use std::path::Path;

/// Renames, but never in the place of what is there: that is `AlreadyExists`.
pub(super) fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(result) = at_once(from, to) {
        return result;
    }
    // `fs::rename` would replace a file that another process has made meanwhile; making a link
    // fails if there is one.
    match fs::hard_link(from, to) {
        // It has its name now, whatever becomes of the other.
        Ok(()) => {
            let _ = fs::remove_file(from);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        Err(_) => {
            // A file system without links (FAT, some network shares): as close as it gets.
            if to.try_exists()? {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(from, to)
        }
    }
}

/// By one call of the system; `None` where that, or the file system, has none.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn at_once(from: &Path, to: &Path) -> Option<io::Result<()>> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => None,
        result => Some(result.map_err(Into::into)),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn at_once(_: &Path, _: &Path) -> Option<io::Result<()>> {
    None
}

/// The directory of a path, to have a name in it survive a power cut. It is opened before the name
/// is given: where that fails, nothing has happened yet.
#[cfg(unix)]
pub(super) struct Parent(fs::File);

#[cfg(unix)]
impl Parent {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let parent = parent_of(path);
        match fs::File::open(parent) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(parent)?;
                fs::File::open(parent).map(Self)
            }
            opened => opened.map(Self),
        }
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        match self.0.sync_all() {
            // Some network file systems have no such thing.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            result => result,
        }
    }
}

/// A directory cannot be opened there; NTFS keeps a journal of names itself.
#[cfg(not(unix))]
pub(super) struct Parent;

#[cfg(not(unix))]
impl Parent {
    pub(super) fn of(_: &Path) -> io::Result<Self> {
        Ok(Self)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn parent_of(path: &Path) -> &Path {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or_else(|| Path::new("."))
}
