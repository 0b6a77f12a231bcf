//! A file that is not whole yet.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use http::HeaderValue;

use super::memo;
use super::open::{self, Lock, Locked};
use super::stamp::{Record, Span, Stamp};
use super::{fault, publish};
use crate::body::Body;
use crate::digest::Check;
use crate::fault::{ErrorKind, Fault};
use crate::http::Beginning;

/// A file that is not whole yet, under a name that nobody takes for the real one. It is ours
/// alone while this lives. Dropping it removes it, unless it can be gone on with.
#[derive(Debug)]
pub(crate) struct Part {
    path: PathBuf,
    /// Open for as long as it is ours.
    file: Option<Locked>,
    /// It has its name.
    is_whole: bool,
    /// What it is of, as it stands beside it.
    stamp: Option<Stamp>,
    bytes: u64,
    /// In an earlier attempt or run.
    was_begun: bool,
    keep: bool,
}

const OPEN: &str = "a part is open until it has its name";

/// How much is read, and then written, at once.
pub(super) const PIECE: u64 = 128 * 1024;

/// Below that a body is fetched again rather than gone on with: its stamp would cost as much.
pub(super) const WORTH_KEEPING: u64 = 64 * 1024;

/// From that on the room is taken before it is filled.
const WORTH_RESERVING: u64 = 1024 * 1024;

impl Part {
    /// What an earlier attempt, or an earlier run, has left of this.
    pub(super) fn find(path: &Path, of: &str, keep: bool) -> io::Result<Option<Self>> {
        let Some(stamp) = Stamp::read(path)?.filter(|stamp| stamp.of == of) else {
            return Ok(None);
        };
        let Lock::Had(file) = open::lock(path, false)? else {
            return Ok(None);
        };
        // Another may have had it between our look at the stamp and our lock.
        let mut stamp = Stamp::read(path)?.filter(|now| *now == stamp);
        let bytes = match &mut stamp {
            Some(stamp) => bytes_in(stamp, &file)?,
            None => None,
        };
        Ok(bytes.filter(|&bytes| bytes > 0).map(|bytes| Self {
            path: path.to_owned(),
            file: Some(file),
            is_whole: false,
            stamp,
            bytes,
            was_begun: true,
            keep,
        }))
    }

    /// An empty one, at this path or, where somebody is at that, at one like it.
    pub(super) fn create(path: impl Fn(u32) -> PathBuf, keep: bool) -> Result<Self, Fault> {
        let mut number = 0;
        let mut made_directory = false;
        loop {
            let path = path(number);
            match open::lock(&path, true) {
                Ok(Lock::Had(file)) => {
                    return Ok(Self {
                        path,
                        file: Some(file),
                        is_whole: false,
                        stamp: None,
                        bytes: 0,
                        was_begun: false,
                        // Nobody would look for it there.
                        keep: keep && number == 0,
                    });
                }
                Ok(Lock::Taken) => number += 1,
                // Its owner is through with it.
                Ok(Lock::Gone) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound && !made_directory => {
                    let directory = publish::parent_of(&path);
                    fs::create_dir_all(directory).map_err(|error| fault(directory, error))?;
                    made_directory = true;
                }
                Err(error) => return Err(fault(&path, error)),
            }
        }
    }

    /// # Panics
    /// For one that was not found.
    pub(crate) fn beginning(&self) -> Beginning<'_> {
        let stamp = self.stamp.as_ref().expect("a part is found by its stamp");
        Beginning {
            bytes: self.bytes,
            etag: &stamp.etag,
            coding: None,
            length: stamp.length,
        }
    }

    /// The hash of the URL that its bytes and its tag are from.
    ///
    /// # Panics
    /// For one that was not found.
    pub(super) fn from(&self) -> &str {
        let stamp = self.stamp.as_ref().expect("a part is found by its stamp");
        &stamp.from
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What it consists of, where that came in pieces and is not all there.
    pub(super) fn spans(&self) -> Option<&[Span]> {
        let stamp = self.stamp.as_ref()?;
        let is_all = stamp.length == Some(self.bytes);
        (!stamp.spans.is_empty() && !is_all).then_some(&stamp.spans)
    }

    /// Where the progress of its spans is noted, if it has a stamp.
    pub(super) fn record(&self) -> Result<Option<Record>, Fault> {
        let record = self.stamp.as_ref().map(|stamp| stamp.record(&self.path));
        record
            .transpose()
            .map_err(|error| fault(&Stamp::path(&self.path), error))
    }

    /// Several threads may do so at once, each at its own place. This does not count as progress:
    /// see [`has_come`](Self::has_come).
    pub(super) fn write_at(&self, bytes: &[u8], at: u64) -> Result<(), Fault> {
        let file = self.file.as_ref().expect(OPEN);
        open::write_at(file, bytes, at).map_err(|error| fault(&self.path, error))
    }

    /// So much of this span is in it.
    pub(super) fn note(&self, record: &Record, span: usize, done: u64) -> Result<(), Fault> {
        let noted = record.note(span, done);
        noted.map_err(|error| fault(&Stamp::path(&self.path), error))
    }

    /// So many bytes are in it by now.
    pub(super) fn has_come(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// Its beginning is from an earlier attempt or run.
    pub(super) fn was_begun(&self) -> bool {
        self.was_begun
    }

    /// Empties it, and has it say what it is going to be of.
    pub(super) fn begin(&mut self, stamp: Option<Stamp>, length: Option<u64>) -> Result<(), Fault> {
        self.try_begin(stamp)
            .map_err(|error| fault(&self.path, error))?;
        let file = self.file.as_mut().expect(OPEN);
        let length = length.filter(|&length| length >= WORTH_RESERVING);
        let reserved = length.map_or(Ok(()), |length| open::reserve(file, length));
        // Of this file alone: who says how long it is may be wrong, and others may be small.
        reserved.map_err(|free| {
            let path = self.path.display();
            let needed = length.unwrap_or_default();
            let detail =
                format!("cannot write {path}: it takes {needed} bytes, and {free} are free");
            Fault::new(ErrorKind::Io, detail)
        })
    }

    fn try_begin(&mut self, stamp: Option<Stamp>) -> io::Result<()> {
        let file = self.file.as_mut().expect(OPEN);
        // First: bytes never stand under another's stamp.
        if file.metadata()?.len() > 0 {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
        }
        self.bytes = 0;
        self.was_begun = false;
        match &stamp {
            Some(stamp) => stamp.write(&self.path)?,
            None => remove_if_there(&Stamp::path(&self.path))?,
        }
        self.stamp = stamp;
        Ok(())
    }

    /// Shows what is there already.
    pub(super) fn show_to(&mut self, check: &mut Check) -> Result<(), Fault> {
        if !check.has_digests() {
            return Ok(());
        }
        let file = self.file.as_mut().expect(OPEN);
        show(file, self.bytes, check).map_err(|error| fault(&self.path, error))
    }

    /// Whether its bytes are those of a file of its length.
    pub(super) fn is_like(&self, path: &Path) -> Result<bool, Fault> {
        // Anew, as it is not open any more where it had to be closed to get a name.
        let ours = File::open(&self.path).map_err(|error| fault(&self.path, error))?;
        let theirs = File::open(path).map_err(|error| fault(path, error))?;
        are_alike(BufReader::new(ours), BufReader::new(theirs)).map_err(|error| fault(path, error))
    }

    /// Goes to the end of what is there.
    pub(super) fn go_on(&mut self) -> Result<(), Fault> {
        let file = self.file.as_mut().expect(OPEN);
        let end = file.seek(SeekFrom::Start(self.bytes));
        end.map(drop).map_err(|error| fault(&self.path, error))
    }

    /// Writes what comes. Where that breaks off, what has come is in the file.
    pub(super) fn take(&mut self, body: &mut Body<'_>) -> Result<(), Fault> {
        let length = body.content_length().unwrap_or(PIECE).clamp(1, PIECE);
        let mut piece = vec![0; usize::try_from(length).expect("a small one")];
        loop {
            let (filled, ended) = fill(body, &mut piece);
            let file = self.file.as_mut().expect(OPEN);
            let written = file.write_all(&piece[..filled]);
            written.map_err(|error| fault(&self.path, error))?;
            self.bytes += filled as u64;
            match ended {
                Ok(false) => {}
                Ok(true) => return Ok(()),
                Err(error) => return Err(Fault::from_io(error, "reading the body failed")),
            }
        }
    }

    /// On the disk, of this date, and with this tag.
    pub(super) fn settle(
        &mut self,
        date: Option<SystemTime>,
        etag: Option<(&HeaderValue, &str)>,
        sync: bool,
    ) -> Result<(), Fault> {
        let file = self.file.as_mut().expect(OPEN);
        if let Some(date) = date {
            // Some file systems have none, and whole it is without.
            if let Err(error) = file.set_modified(date) {
                log::debug!("{}: it does not get its date: {error}", self.path.display());
            }
        }
        if let Some((etag, from)) = etag {
            memo::remember(file, etag, from);
        }
        let settled = if sync { file.sync_all() } else { Ok(()) };
        settled.map_err(|error| fault(&self.path, error))
    }

    /// Gives it its name.
    pub(super) fn publish(&mut self, to: &Path, replace: bool) -> io::Result<()> {
        if cfg!(windows) {
            // What is open cannot be renamed there.
            self.file = None;
        }
        if replace {
            fs::rename(&self.path, to)?;
        } else {
            publish::rename_to_new(&self.path, to)?;
        }
        self.is_whole = true;
        if self.stamp.is_some() {
            // If it stays, it is of no part and says nothing.
            let _ = fs::remove_file(Stamp::path(&self.path));
        }
        Ok(())
    }

    /// It is not to be gone on with.
    pub(super) fn discard(mut self) {
        self.keep = false;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.is_whole || self.keep && self.stamp.is_some() && self.bytes > 0 {
            return;
        }
        // Nothing can be done where that fails.
        let _ = fs::remove_file(&self.path);
        if self.stamp.is_some() {
            let _ = fs::remove_file(Stamp::path(&self.path));
        }
    }
}

/// How many bytes of what it is of are in a part; `None` if that is not of it.
fn bytes_in(stamp: &mut Stamp, file: &File) -> io::Result<Option<u64>> {
    let size = file.metadata()?.len();
    if stamp.length.is_some_and(|all| size > all) {
        return Ok(None);
    }
    if stamp.spans.is_empty() {
        return Ok(Some(size));
    }
    let is_beyond = |span: &Span| span.done > 0 && span.start + span.done > size;
    if stamp.spans.iter().any(is_beyond) {
        return Ok(None);
    }
    // A power cut may leave the note and not the bytes. The size of other parts tells what is on
    // the disk; of these, that there is no hole in it.
    for span in stamp.spans.iter_mut().filter(|span| span.done > 0) {
        let hole = open::hole(file, span.start)?;
        span.done = span.done.min(hole - span.start);
    }
    Ok(Some(stamp.spans.iter().map(|span| span.done).sum()))
}

/// So many bytes from the start.
pub(super) fn show(file: &mut File, bytes: u64, check: &mut Check) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    let mut left = file.take(bytes);
    let mut piece = vec![0; PIECE as usize];
    loop {
        match left.read(&mut piece)? {
            0 => return Ok(()),
            amount => check.see(&piece[..amount]),
        }
    }
}

fn are_alike(mut one: impl BufRead, mut other: impl BufRead) -> io::Result<bool> {
    loop {
        let (ours, theirs) = (one.fill_buf()?, other.fill_buf()?);
        let length = ours.len().min(theirs.len());
        if length == 0 {
            return Ok(ours.len() == theirs.len());
        }
        if ours[..length] != theirs[..length] {
            return Ok(false);
        }
        one.consume(length);
        other.consume(length);
    }
}

/// How much came, and whether that was the end.
pub(super) fn fill(body: &mut dyn Read, piece: &mut [u8]) -> (usize, io::Result<bool>) {
    let mut filled = 0;
    while filled < piece.len() {
        match body.read(&mut piece[filled..]) {
            Ok(0) => return (filled, Ok(true)),
            Ok(amount) => filled += amount,
            Err(error) => return (filled, Err(error)),
        }
    }
    (filled, Ok(false))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
