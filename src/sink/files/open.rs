//! How files are opened and locked. What only some systems have, is here.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::ops::{Deref, DerefMut};
use std::path::Path;

/// A file that is written from its start; what was there is gone.
pub(super) fn fresh(path: &Path) -> io::Result<File> {
    options().create(true).truncate(true).open(path)
}

/// A file that is there, to be read; `None` if there is none, or something else than a file.
pub(super) fn for_reading(path: &Path) -> io::Result<Option<File>> {
    match guarded(OpenOptions::new().read(true)).open(path) {
        Ok(file) => Ok(file.metadata()?.is_file().then_some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A file that is there, to be written over.
pub(super) fn existing(path: &Path) -> io::Result<File> {
    options().open(path)
}

/// Writes all of it there, wherever the file is at: so several threads can at once.
#[cfg(unix)]
pub(super) fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(windows)]
pub(super) fn write_at(file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !bytes.is_empty() {
        match file.seek_write(bytes, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(amount) => {
                bytes = &bytes[amount..];
                at += amount as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Where the first byte is, from there on, that was never written, or got lost before it was on the
/// disk; the file's end where the file system does not tell. The file is left at another place.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(super) fn hole(file: &File, from: u64) -> io::Result<u64> {
    use rustix::fs::SeekFrom;
    use rustix::io::Errno;
    forget_what_was_read(file);
    match rustix::fs::seek(file, SeekFrom::Hole(from)) {
        // Nothing is there, and that is no file system without holes: there, `from` is data.
        Err(Errno::NXIO) => Ok(from),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(u64::MAX),
        result => Ok(result?),
    }
}

/// Room that was taken and not written to is a hole, until somebody has read it: then the zeros in memory
/// count as data.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn forget_what_was_read(file: &File) {
    use rustix::fs::{Advice, fadvise};
    let _ = fadvise(file, 0, None, Advice::DontNeed);
}

/// No room is taken there.
#[cfg(target_vendor = "apple")]
fn forget_what_was_read(_: &File) {}

/// Not here.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(super) fn hole(_: &File, _: u64) -> io::Result<u64> {
    Ok(u64::MAX)
}

/// What came of trying to have a part for oneself.
pub(super) enum Lock {
    Had(Locked),
    /// Somebody is at it.
    Taken,
    /// Ours, but by another name as well.
    Linked(Locked),
    /// It is not, or no longer, there.
    Gone,
}

/// A file that is ours for as long as this lives.
#[derive(Debug)]
pub(super) struct Locked(File);

impl Deref for Locked {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Write for Locked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(unix)]
impl Drop for Locked {
    fn drop(&mut self) {
        // To close it is not enough: a process that the program has just started may have a copy of it,
        // until it begins its own program, and with that the lock.
        let _ = rustix::fs::flock(&self.0, rustix::fs::FlockOperation::Unlock);
    }
}

/// Opens a part for nobody else but us, for as long as the file is open.
pub(super) fn lock(path: &Path, create: bool) -> io::Result<Lock> {
    let mut options = options();
    exclusive(&mut options);
    match options.read(true).create(create).truncate(false).open(path) {
        Ok(file) => lock_open(Locked(file), path),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !create => Ok(Lock::Gone),
        Err(error) if is_taken(&error) => Ok(Lock::Taken),
        Err(error) => Err(error),
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    guarded(options.write(true)).clone()
}

/// In a directory for all a link could lead anywhere, and a pipe would keep us for ever.
#[cfg(unix)]
fn guarded(options: &mut OpenOptions) -> &mut OpenOptions {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    options.custom_flags(flags.bits() as i32)
}

#[cfg(not(unix))]
fn guarded(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(unix)]
fn exclusive(_: &mut OpenOptions) {}

#[cfg(unix)]
fn is_taken(_: &io::Error) -> bool {
    false
}

#[cfg(unix)]
fn lock_open(file: Locked, path: &Path) -> io::Result<Lock> {
    use rustix::fs::{FlockOperation, flock};
    use rustix::io::Errno;
    use std::os::unix::fs::MetadataExt;
    match flock(&*file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(Lock::Taken),
        // A file system without locks: as close as it gets.
        Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    // Whoever had it may have renamed or removed it just before.
    let ours = file.metadata()?;
    if !ours.is_file() {
        return Err(io::Error::other("what is there is no file"));
    }
    Ok(match is_at(&file, path)? {
        true if ours.nlink() > 1 => Lock::Linked(file),
        true => Lock::Had(file),
        false => Lock::Gone,
    })
}

/// Whether what is at this path is this file still. A lock keeps nobody from removing it, and the next
/// from having one of his own there.
#[cfg(unix)]
pub(super) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let ours = file.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(there) => Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// It goes by another name as well.
#[cfg(unix)]
pub(super) fn is_linked(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    file.metadata().is_ok_and(|meta| meta.nlink() > 1)
}

/// Not told.
#[cfg(windows)]
pub(super) fn is_linked(_: &File) -> bool {
    false
}

/// Nobody can remove what is open for one alone.
#[cfg(windows)]
pub(super) fn is_at(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Opened so that nobody else can, which is a lock.
#[cfg(windows)]
fn exclusive(options: &mut OpenOptions) {
    use std::os::windows::fs::OpenOptionsExt;
    options.share_mode(0);
}

/// `ERROR_SHARING_VIOLATION`.
#[cfg(windows)]
fn is_taken(error: &io::Error) -> bool {
    error.raw_os_error() == Some(32)
}

#[cfg(windows)]
fn lock_open(file: Locked, _: &Path) -> io::Result<Lock> {
    Ok(Lock::Had(file))
}

/// How long a file may get, of those that this process writes (`ulimit -f`). Beyond that the system
/// would not only refuse, but end the process by a signal.
#[cfg(unix)]
pub(super) fn longest() -> u64 {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

#[cfg(not(unix))]
pub(super) fn longest() -> u64 {
    u64::MAX
}

/// Whether a file may get so long, if this is how long it may get.
pub(super) fn check_longest(bytes: u64, longest: u64) -> io::Result<()> {
    match bytes <= longest {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "a file may not get as long as that (see `ulimit -f`)",
        )),
    }
}

/// Takes the room on the disk for so many bytes, if the file system can tell beforehand. `Err` has how
/// much there is.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn reserve(file: &File, bytes: u64) -> Result<(), u64> {
    use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
    use rustix::io::Errno;
    let free = fstatvfs(file).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    // Asked first: it would be filled, for a moment, with what there is no room for.
    if bytes > free {
        return Err(free);
    }
    // The size is what says how much has come.
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes) {
        Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => Err(free),
        // A file system that cannot.
        _ => Ok(()),
    }
}

/// Not here: a full disk shows when it is.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn reserve(_: &File, _: u64) -> Result<(), u64> {
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    /// As after a power cut, when somebody has looked at the file before we do.
    #[test]
    fn a_hole_that_somebody_has_read_is_one() {
        const WRITTEN: u64 = 64 * 1024;
        const SIZE: u64 = 16 * WRITTEN;
        // Beside this test: where temporary files are may be memory, of which a power cut leaves nothing.
        let test = std::env::current_exe().unwrap();
        let path = test.with_extension(format!("hole-{}", std::process::id()));
        let options = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .clone();
        let mut file = options.open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        reserve(&file, SIZE).unwrap();
        file.write_all(&[7; WRITTEN as usize]).unwrap();
        file.set_len(SIZE).unwrap();
        file.sync_all().unwrap();
        let found = hole(&file, 0).unwrap();
        assert!(found == WRITTEN || found >= SIZE, "{found}");
        let mut zeros = vec![1; (SIZE - WRITTEN) as usize];
        file.read_exact_at(&mut zeros, WRITTEN).unwrap();
        assert_eq!(hole(&file, 0).unwrap(), found);
    }
}
