//! A file that is not whole yet.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use http::HeaderMap;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, LAST_MODIFIED};

use super::memo::Memo;
use super::open::{self, Lock, Locked, check_longest};
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
    /// As it may get.
    longest: u64,
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
        let file = match open::lock(path, false)? {
            Lock::Had(file) => file,
            Lock::Linked(file) => {
                unlink(file, path)?;
                return Ok(None);
            }
            Lock::Taken | Lock::Gone => return Ok(None),
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
            longest: open::longest(),
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
                        longest: open::longest(),
                        was_begun: false,
                        // Nobody would look for it there.
                        keep: keep && number == 0,
                    });
                }
                Ok(Lock::Taken) => number += 1,
                Ok(Lock::Linked(file)) => {
                    unlink(file, &path).map_err(|error| fault(&path, error))?;
                }
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

    /// Adds what the first response said of the file, as far as that of its rest does not.
    pub(crate) fn complete(&self, headers: &mut HeaderMap) {
        let Some(stamp) = &self.stamp else {
            return;
        };
        let said = [
            (CONTENT_DISPOSITION, &stamp.disposition),
            (LAST_MODIFIED, &stamp.modified),
            (CONTENT_TYPE, &stamp.content_type),
        ];
        for (name, value) in said {
            if let (false, Some(value)) = (headers.contains_key(&name), value) {
                headers.insert(name, value.clone());
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
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
        let may_be = check_longest(at + bytes.len() as u64, self.longest);
        let written = may_be.and_then(|()| open::write_at(file, bytes, at));
        written.map_err(|error| fault(&self.path, error))
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
        // Before the room is taken, which is refused in the same way.
        check_longest(length.unwrap_or(0), self.longest)
            .and_then(|()| self.try_begin(stamp))
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
            Some(stamp) => stamp.write(&self.path).inspect_err(|_| {
                // Such as on a full disk, which makes the file and has no room for what it says.
                let _ = fs::remove_file(Stamp::path(&self.path));
            })?,
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
        let ours = self.reread().map_err(|error| fault(&self.path, error))?;
        let theirs = File::open(path).map_err(|error| fault(path, error))?;
        are_alike(BufReader::new(ours), BufReader::new(theirs)).map_err(|error| fault(path, error))
    }

    /// From its start.
    fn reread(&self) -> io::Result<File> {
        // It is not open any more where it had to be closed to get a name.
        let Some(file) = &self.file else {
            return File::open(&self.path);
        };
        let mut file = file.try_clone()?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    }

    /// Goes to the end of what is there.
    pub(super) fn go_on(&mut self) -> Result<(), Fault> {
        self.try_to_go_on()
            .map_err(|error| fault(&self.path, error))
    }

    fn try_to_go_on(&mut self) -> io::Result<()> {
        let file = self.file.as_mut().expect(OPEN);
        if file.metadata()?.len() > self.bytes {
            file.set_len(self.bytes)?;
        }
        file.seek(SeekFrom::Start(self.bytes)).map(drop)
    }

    /// Writes what comes. Where that breaks off, what has come is in the file.
    pub(super) fn take(&mut self, body: &mut Body<'_>) -> Result<(), Fault> {
        let length = body.content_length().unwrap_or(PIECE).clamp(1, PIECE);
        let mut piece = vec![0; usize::try_from(length).expect("a small one")];
        loop {
            let (filled, ended) = fill(body, &mut piece);
            let file = self.file.as_mut().expect(OPEN);
            let bytes = self.bytes + filled as u64;
            let may_be = check_longest(bytes, self.longest);
            let written = may_be.and_then(|()| file.write_all(&piece[..filled]));
            written.map_err(|error| fault(&self.path, error))?;
            self.bytes = bytes;
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
        memo: Option<&Memo>,
        sync: bool,
    ) -> Result<(), Fault> {
        let file = self.file.as_mut().expect(OPEN);
        if let Some(date) = date {
            // Some file systems have none, and whole it is without.
            if let Err(error) = file.set_modified(date) {
                log::debug!("{}: it does not get its date: {error}", self.path.display());
            }
        }
        if let Some(memo) = memo {
            memo.remember(file);
        }
        let settled = if sync { file.sync_all() } else { Ok(()) };
        settled.map_err(|error| {
            // Which bytes are on the disk is not known then, and asking again does not tell.
            self.keep = false;
            fault(&self.path, error)
        })
    }

    /// Gives it its name.
    pub(super) fn publish(&mut self, to: &Path, replace: bool) -> io::Result<()> {
        if !self.is_there()? {
            return Err(io::Error::other(
                "somebody has removed its part, or put another in its place",
            ));
        }
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
            let _ = remove_old_stamp(&self.path);
        }
        Ok(())
    }

    /// What is at its path is not another's by now.
    fn is_there(&self) -> io::Result<bool> {
        let file = self.file.as_ref();
        file.map_or(Ok(true), |file| open::is_at(file, &self.path))
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
        if !self.is_there().unwrap_or(false) {
            return;
        }
        // Nothing can be done where that fails. The stamp first: as soon as the part is gone, another
        // may have one there.
        if self.stamp.is_some() {
            let _ = fs::remove_file(Stamp::path(&self.path));
        }
        if cfg!(windows) {
            // What is open cannot be removed there.
            self.file = None;
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// How many bytes of what it is of are in a part; `None` if that is not of it.
fn bytes_in(stamp: &mut Stamp, file: &File) -> io::Result<Option<u64>> {
    let size = file.metadata()?.len();
    if stamp.length.is_some_and(|all| size > all) {
        return Ok(None);
    }
    // What was written last before a power cut may not be on the disk, whatever the size, or the
    // note of a span, says. It shows as a hole.
    if stamp.spans.is_empty() {
        return Ok(Some(size.min(open::hole(file, 0)?)));
    }
    let is_beyond = |span: &Span| span.done > 0 && span.start + span.done > size;
    if stamp.spans.iter().any(is_beyond) {
        return Ok(None);
    }
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

/// What goes by another name as well, such as a copy's made of links, or that of the whole file where
/// its writer was killed as it gave it that, is not ours to write to. This name is.
fn unlink(file: Locked, path: &Path) -> io::Result<()> {
    remove_if_there(&Stamp::path(path))?;
    // What is open cannot be removed there.
    let file = (!cfg!(windows)).then_some(file);
    fs::remove_file(path)?;
    drop(file);
    Ok(())
}

/// Of a part that has got its name: by now, another may be at one of this path, with its own stamp. That
/// is only known to whoever has the lock.
fn remove_old_stamp(part: &Path) -> io::Result<()> {
    match open::lock(part, true)? {
        Lock::Had(file) if file.metadata()?.len() == 0 => unlink(file, part),
        _ => Ok(()),
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("fetchpool-part-{name}-{}", std::process::id()))
    }

    fn stamp(length: u64, spans: Vec<Span>) -> Stamp {
        Stamp {
            of: "of".to_owned(),
            from: "from".to_owned(),
            url: "http://h/".to_owned(),
            etag: HeaderValue::from_static("\"v1\""),
            length: Some(length),
            disposition: None,
            modified: None,
            content_type: None,
            spans,
        }
    }

    /// A part of this, of three bytes.
    fn begun(path: &Path) -> Part {
        let mut part = Part::create(|_| path.to_owned(), true).unwrap();
        part.begin(Some(stamp(9, vec![])), None).unwrap();
        part.write_at(b"abc", 0).unwrap();
        part.has_come(3);
        part
    }

    /// As another process may begin in the moment in which a file has got its name.
    #[test]
    fn a_stamp_that_is_anothers_by_now_stays() {
        let (path, whole) = (path("another"), path("whole"));
        let of = Stamp::path(&path);
        drop(begun(&path));
        fs::rename(&path, &whole).unwrap();
        // One at work, and one that has broken off.
        for mut part in [Some(begun(&path)), None] {
            remove_old_stamp(&path).unwrap();
            assert!(of.exists());
            part.take();
            assert_eq!(fs::read(&path).unwrap(), b"abc");
        }
        fs::remove_file(&path).unwrap();
        remove_old_stamp(&path).unwrap();
        assert!(!of.exists() && !path.exists());
        fs::remove_file(&whole).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_part_that_goes_by_another_name_takes_its_stamp_along() {
        let (path, other) = (path("linked"), path("other"));
        drop(begun(&path));
        fs::hard_link(&path, &other).unwrap();
        assert!(Part::find(&path, "of", false).unwrap().is_none());
        assert!(!path.exists() && !Stamp::path(&path).exists());
        assert_eq!(fs::read(&other).unwrap(), b"abc");
        fs::remove_file(&other).unwrap();
    }

    /// Of a sparse file, so that nobody has to wait for it.
    #[cfg(unix)]
    #[test]
    fn what_lies_beyond_four_gibibytes_is_found_again() {
        const START: u64 = (4 << 30) + 4096;
        const LENGTH: u64 = START + 100_000;
        const DONE: u64 = 65_536;
        let path = path("large");
        let span = |start, end| Span {
            start,
            end,
            done: 0,
        };
        let stamp = stamp(LENGTH, vec![span(0, START), span(START, LENGTH)]);
        let mut part = Part::create(|_| path.clone(), true).unwrap();
        // Without the length: no room is taken for it.
        part.begin(Some(stamp), None).unwrap();
        let record = part.record().unwrap().unwrap();
        part.write_at(&[7; DONE as usize], START).unwrap();
        part.note(&record, 1, DONE).unwrap();
        part.has_come(DONE);
        drop(part);
        let part = Part::find(&path, "of", false).unwrap().unwrap();
        let done: Vec<_> = part.spans().unwrap().iter().map(|span| span.done).collect();
        assert_eq!((part.bytes(), done), (DONE, vec![0, DONE]));
        let mut file = File::open(&path).unwrap();
        file.seek(SeekFrom::Start(START - 1)).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!((bytes[0], bytes.len() as u64), (0, DONE + 1));
        assert!(bytes[1..].iter().all(|&byte| byte == 7));
    }
}
