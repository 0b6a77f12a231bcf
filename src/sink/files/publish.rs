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
        Ok(()) => fs::remove_file(from),
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

/// Has a name survive a power cut.
#[cfg(unix)]
pub(super) fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = fs::File::open(directory.unwrap_or_else(|| Path::new(".")))?;
    match directory.sync_all() {
        // Some network file systems have no such thing.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        result => result,
    }
}

/// A directory cannot be opened there; NTFS keeps a journal of names itself.
#[cfg(not(unix))]
pub(super) fn sync_directory_of(_: &Path) -> io::Result<()> {
    Ok(())
}
