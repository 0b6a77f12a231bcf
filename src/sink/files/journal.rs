//! What became of each job of a run, for the next one to go on from.
//!
//! A line a job, of fields with a tab between them, in which `%`, control characters and what is not
//! ASCII are percent-encoded; `-` is nothing. The format is told in full at
//! [`Directory::journal`](crate::Directory::journal).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use http::header::{ETAG, LAST_MODIFIED};
use http::{HeaderMap, HeaderName};
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode, percent_encode};

use super::Landed;
use super::open::{self, Lock, Locked, check_longest};
use super::publish::parent_of;
use super::resource::fingerprint_with;
use crate::digest::Digest;
use crate::fault::{ErrorKind, Fault};
use crate::http::redirect::strip_credentials;
use crate::outcome::Report;
use crate::request::Request;

const FIRST: &[u8] = b"fetchpool journal 1\n";

/// The key's digits as bytes.
type Key = [u8; 12];

/// How long one that is taken is waited for. A run that ends, or a batch that is dropped while its
/// first job still reads the journal, has it for a moment more.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

pub(super) struct Journal {
    path: PathBuf,
    /// Of the files, as the system calls it: known when there is the first.
    home: OnceLock<PathBuf>,
    /// Opened as the first request is let in; those that come meanwhile wait for it to have been read.
    opened: OnceLock<Result<Opened, String>>,
}

struct Opened {
    /// What it said then.
    done: HashMap<Key, Done>,
    /// By the hashes of paths, whose the files there are: the last that each went to.
    whose: HashMap<u64, Key>,
    /// How often each request has been let in. Nobody holds this lock and another.
    counts: Mutex<HashMap<Key, u32>>,
    /// Hashes of the paths that this run has given to files: what was done there is there no more.
    given: Mutex<HashSet<u64>>,
    /// Locked, against other runs, for as long as this lives. The mutex is there so that each line
    /// is written in one piece: it is held over a write to the end of a file, and over nothing else. Nobody
    /// holds two of these.
    /// `None` once the batch is over.
    lines: Mutex<Option<Lines<Locked>>>,
    /// That it cannot be written is said once.
    is_lame: AtomicBool,
}

/// A file that an earlier run has fetched. Small, as there may be millions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Done {
    /// Relative to the directory, if it is in it.
    pub(super) path: Box<Path>,
    pub(super) bytes: u64,
    digests: Option<Box<str>>,
}

impl Done {
    /// It was judged by these as well.
    pub(super) fn is_of(&self, digests: &[Digest]) -> bool {
        let known = self.digests.as_deref().unwrap_or_default();
        let is_known = |digest: &Digest| known.split(',').any(|text| text.parse() == Ok(*digest));
        digests.iter().all(is_known)
    }
}

impl Journal {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            home: OnceLock::new(),
            opened: OnceLock::new(),
        }
    }

    /// Lets another batch have it, before the last of this one's workers lets go of that.
    pub(super) fn close(&self) {
        if let Some(Ok(opened)) = self.opened.get() {
            *opened.lines.lock() = None;
        }
    }

    fn opened(&self) -> &Result<Opened, String> {
        self.opened.get_or_init(|| Opened::at(&self.path))
    }

    /// What an earlier run has made of this URL.
    pub(super) fn done(&self, request: &Request, alike: u32) -> Result<Option<&Done>, Fault> {
        match self.opened() {
            Ok(opened) => {
                let done = key_of(request, alike).and_then(|key| opened.done.get(&key));
                Ok(done.filter(|done| !opened.given.lock().contains(&hash_of(&done.path))))
            }
            Err(why) => Err(unusable(&self.path, why)),
        }
    }

    /// How many that are alike have been let in before this one.
    pub(super) fn count(&self, request: &Request) -> u32 {
        let (Ok(opened), Some(key)) = (self.opened(), key_of(request, 0)) else {
            return 0;
        };
        let mut counts = opened.counts.lock();
        let count = counts.entry(key).or_insert(0);
        *count += 1;
        *count - 1
    }

    /// Whether the file there is what an earlier run has made of another request.
    pub(super) fn is_anothers(&self, file: &Path, directory: &Path, report: &Report) -> bool {
        let Some(Ok(opened)) = self.opened.get() else {
            return false;
        };
        let path = self.known_from_anywhere(file, directory);
        let whose = opened.whose.get(&hash_of(&path));
        let key = key_of(&report.request, report.progress.before.alike);
        whose.is_some_and(|whose| Some(*whose) != key)
    }

    pub(super) fn note_landed(
        &self,
        report: &Report,
        landed: &Landed,
        headers: &HeaderMap,
        directory: &Path,
    ) {
        let path = self.known_from_anywhere(&landed.path, directory);
        if landed.was_present && self.says(report, &path, landed.bytes) {
            return;
        }
        let digests = report.request.its_digests().iter().map(Digest::to_string);
        let value = |name: &HeaderName| headers.get(name).map(|value| value.as_bytes());
        let outcome = if landed.was_present {
            "present"
        } else {
            if let Some(Ok(opened)) = self.opened.get() {
                opened.given.lock().insert(hash_of(&path));
            }
            "saved"
        };
        self.note(
            report,
            [
                Some(outcome.as_bytes()),
                Some(landed.bytes.to_string().as_bytes()),
                Some(path.as_os_str().as_encoded_bytes()),
                value(&ETAG),
                value(&LAST_MODIFIED),
                Some(digests.collect::<Vec<_>>().join(",").as_bytes()),
            ],
        );
    }

    /// A path as it leads to the file from wherever the next run is started, and wherever the directory is
    /// by then. One file has one, however it was named.
    fn known_from_anywhere<'a>(&self, file: &'a Path, directory: &Path) -> Cow<'a, Path> {
        let parent = parent_of(file).canonicalize().ok();
        let (Some(parent), Some(name)) = (parent, file.file_name()) else {
            // It is gone again, or there is no current directory.
            return Cow::Borrowed(file);
        };
        let home = || directory.canonicalize().unwrap_or_default();
        let home = self.home.get_or_init(home);
        let within = parent.strip_prefix(home).unwrap_or(&parent);
        Cow::Owned(within.join(name))
    }

    /// It stands there already, and of all that the file was judged by.
    fn says(&self, report: &Report, path: &Path, bytes: u64) -> bool {
        let done = self.done(&report.request, report.progress.before.alike);
        let done = done.ok().flatten();
        done.is_some_and(|done| {
            done.is_of(report.request.its_digests()) && done.bytes == bytes && *done.path == *path
        })
    }

    pub(super) fn note_failed(&self, report: &Report, fault: &Fault) {
        if fault.kind == ErrorKind::InvalidUrl {
            // It is not let in, so that it may be the first.
            let _ = self.opened();
        }
        let outcome = Some(fault.kind.as_str().as_bytes());
        self.note(report, [outcome, None, None, None, None, None]);
    }

    fn note(&self, report: &Report, fields: [Option<&[u8]>; 6]) {
        let Some(Ok(opened)) = self.opened.get() else {
            return;
        };
        let of = key(&report.request, report.progress.before.alike);
        let url = report.shown_url();
        let [outcome, bytes, path, etag, date, digests] = fields;
        let (of, url) = (of.as_deref().map(str::as_bytes), Some(url.as_bytes()));
        let line = line([outcome, of, bytes, path, etag, date, digests, url]);
        let written = match &mut *opened.lines.lock() {
            Some(lines) => lines.add(&line),
            // Nobody waits for its outcome any more.
            None => return,
        };
        if let Err(error) = written {
            // The file is where it belongs; the next run asks about it, that is all.
            if !opened.is_lame.swap(true, Ordering::Relaxed) {
                log::warn!("cannot write the journal {}: {error}", self.path.display());
            }
        }
    }
}

impl Opened {
    fn at(path: &Path) -> Result<Self, String> {
        take(path).and_then(Self::of).map_err(why)
    }

    fn of(mut file: Locked) -> io::Result<Self> {
        let mut done = HashMap::new();
        let mut lines = BufReader::new(&*file);
        let is_new = is_new(&mut lines)?;
        let longest = open::longest();
        let mut end = if is_new { 0 } else { FIRST.len() as u64 };
        let mut line = Vec::new();
        let mut whose = HashMap::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            let Some(whole) = line.strip_suffix(b"\n") else {
                break;
            };
            if let Some((key, file)) = parse(whole) {
                whose.insert(hash_of(&file.path), key);
                done.insert(key, file);
            }
            end += line.len() as u64;
            line.clear();
        }
        // The others' files are there no more.
        done.retain(|key, file| whose.get(&hash_of(&file.path)) == Some(key));
        file.set_len(end)?;
        file.seek(SeekFrom::Start(end))?;
        if is_new {
            end = FIRST.len() as u64;
            check_longest(end, longest)?;
            file.write_all(FIRST)?;
        }
        Ok(Self {
            done,
            whose,
            counts: Mutex::default(),
            given: Mutex::default(),
            lines: Mutex::new(Some(Lines::new(file, longest.saturating_sub(end)))),
            is_lame: AtomicBool::new(false),
        })
    }
}

/// That there is one to be had, without reading what it says.
pub(in crate::sink) fn check(path: &Path) -> Result<(), Fault> {
    let begun = take(path).and_then(|file| is_new(&*file));
    begun.map(drop).map_err(|error| unusable(path, &why(error)))
}

fn unusable(path: &Path, why: &str) -> Fault {
    let detail = format!("cannot use the journal {}: {why}", path.display());
    Fault::new(ErrorKind::Io, detail)
}

/// Our own errors say what to do; the system's do not.
fn why(error: io::Error) -> String {
    match error.get_ref() {
        Some(_) => error.to_string(),
        None => format!("{error}; name another file"),
    }
}

/// Whether it was made just now, or by one who was killed then; an error if it is not ours.
fn is_new(lines: impl Read) -> io::Result<bool> {
    let mut first = Vec::new();
    lines.take(FIRST.len() as u64).read_to_end(&mut first)?;
    if !first.is_empty() && first != FIRST {
        return Err(io::Error::other(
            "it is not a journal, or one of another version: name another file",
        ));
    }
    Ok(first.is_empty())
}

/// Has it for this run alone.
fn take(path: &Path) -> io::Result<Locked> {
    let until = Instant::now() + PATIENCE;
    fs::create_dir_all(parent_of(path))?;
    loop {
        match open::lock(path, true)? {
            Lock::Had(file) | Lock::Linked(file) => return Ok(file),
            Lock::Taken | Lock::Gone if Instant::now() < until => thread::sleep(LOOK_AGAIN),
            Lock::Taken | Lock::Gone => {
                return Err(io::Error::other(
                    "another run is using it: wait for its end, or name another file",
                ));
            }
        }
    }
}

/// Where lines are added.
struct Lines<W> {
    to: W,
    /// The last was cut short, such as by a disk that is full: the next is not to be its end.
    is_torn: bool,
    /// Bytes that may still be added.
    room: u64,
}

impl<W: Write> Lines<W> {
    fn new(to: W, room: u64) -> Self {
        Self {
            to,
            is_torn: false,
            room,
        }
    }

    fn add(&mut self, line: &str) -> io::Result<()> {
        let line = if self.is_torn {
            Cow::Owned(format!("\n{line}"))
        } else {
            Cow::Borrowed(line)
        };
        check_longest(line.len() as u64, self.room)?;
        self.room -= line.len() as u64;
        self.is_torn = true;
        self.to.write_all(line.as_bytes())?;
        self.is_torn = false;
        Ok(())
    }
}

fn key_of(request: &Request, alike: u32) -> Option<Key> {
    unhex(key(request, alike)?.as_bytes())
}

/// Which request of a run it is: what is asked for, and for which file; and how many that are alike are
/// before it.
fn key(request: &Request, alike: u32) -> Option<String> {
    let mut headers = request.headers().cloned().unwrap_or_default();
    strip_credentials(&mut headers);
    let place = request.place();
    // Of one that is a URL and nothing else: that of the URL.
    let more = match (headers.is_empty(), place, alike) {
        (true, None, 0) => String::new(),
        _ => format!("{headers:?} {place:?} {alike}"),
    };
    Some(fingerprint_with(request.url()?, &more))
}

/// Two that share one by chance cost a question.
fn hash_of(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

/// What would end the field or the line, or is not to be seen.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

fn line(fields: [Option<&[u8]>; 8]) -> String {
    fields.map(encoded).join("\t") + "\n"
}

fn encoded(field: Option<&[u8]>) -> String {
    match field {
        None | Some(b"") => "-".to_owned(),
        Some(b"-") => "%2D".to_owned(),
        Some(bytes) => percent_encode(bytes, ENCODED).to_string(),
    }
}

fn decoded(field: &[u8]) -> Option<Vec<u8>> {
    (field != b"-").then(|| percent_decode(field).collect())
}

/// A file that was fetched, by its key. Failures are for people: they are tried again.
fn parse(line: &[u8]) -> Option<(Key, Done)> {
    let fields: Vec<_> = line.split(|&byte| byte == b'\t').collect();
    let [outcome, key, bytes, path, _etag, _date, digests, _url] = fields[..] else {
        return None;
    };
    if !matches!(outcome, b"saved" | b"present") {
        return None;
    }
    let digests = decoded(digests).map(String::from_utf8);
    let done = Done {
        path: PathBuf::from(os_string(decoded(path)?)?).into(),
        bytes: std::str::from_utf8(bytes).ok()?.parse().ok()?,
        digests: digests.transpose().ok()?.map(Into::into),
    };
    Some((unhex(key)?, done))
}

fn unhex(digits: &[u8]) -> Option<Key> {
    let mut bytes = Key::default();
    if digits.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        let value = digit(pair[0])? * 16 + digit(pair[1])?;
        *byte = value.try_into().expect("two digits");
    }
    Some(bytes)
}

#[cfg(unix)]
fn os_string(bytes: Vec<u8>) -> Option<OsString> {
    use std::os::unix::ffi::OsStringExt;
    Some(OsString::from_vec(bytes))
}

/// What is not Unicode cannot be had back there, which costs a question.
#[cfg(not(unix))]
fn os_string(bytes: Vec<u8>) -> Option<OsString> {
    String::from_utf8(bytes).ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Field = Option<Vec<u8>>;

    fn written(fields: &[Field; 6]) -> String {
        let [path, etag, date, digests, url, _] = fields.each_ref().map(Option::as_deref);
        let key = Some(&b"00010203040506070809fdfe"[..]);
        line([
            Some(b"saved"),
            key,
            Some(b"7"),
            path,
            etag,
            date,
            digests,
            url,
        ])
    }

    fn field() -> impl Strategy<Value = Field> {
        let bytes = prop_oneof![
            prop::collection::vec(any::<u8>(), 1..20),
            Just(b"-".to_vec()),
            Just(b"%2D".to_vec()),
            "[\\PC\t\n\r%-]{1,20}".prop_map(String::into_bytes),
        ];
        prop::option::of(bytes)
    }

    proptest! {
        /// Paths, entity tags and URLs may be of any bytes.
        #[test]
        fn a_line_is_one_whatever_it_says(fields in prop::array::uniform6(field())) {
            let line = written(&fields);
            prop_assert!(line.is_ascii());
            prop_assert_eq!(line.lines().count(), 1);
            let read = line.trim_end_matches('\n').split('\t').skip(3);
            let read: Vec<_> = read.map(|field| decoded(field.as_bytes())).collect();
            prop_assert_eq!(&read[..], &fields[..5]);
        }

        #[cfg(unix)]
        #[test]
        fn a_file_is_read_as_it_was_written(path in prop::collection::vec(any::<u8>(), 1..20)) {
            let digests = b"sha256:00,md5:11".to_vec();
            let fields = [Some(path.clone()), None, None, Some(digests), None, None];
            let line = written(&fields);
            let (key, done) = parse(line.trim_end_matches('\n').as_bytes()).unwrap();
            prop_assert_eq!(key, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0xfd, 0xfe]);
            prop_assert_eq!(done.path.as_os_str().as_encoded_bytes(), &path[..]);
            prop_assert_eq!(done.bytes, 7);
            prop_assert_eq!(done.digests.as_deref(), Some("sha256:00,md5:11"));
        }

        #[test]
        fn whatever_stands_there_is_a_line_or_none(
            line in prop::collection::vec(any::<u8>(), 0..80),
            like in "saved\t([0-9a-f]{24}|\\PC{24})\t[0-9+]{0,25}(\t[\\PC%]{0,9}){4,6}",
        ) {
            let _ = (parse(&line), parse(like.as_bytes()));
        }
    }

    /// However it came to stand before another.
    #[test]
    fn half_a_line_says_nothing() {
        let line = written(&std::array::from_fn(|_| Some(b"abc".to_vec())));
        let last = line.rfind('\t').unwrap();
        for end in 0..last {
            assert_eq!(parse(&line.as_bytes()[..end]), None, "{end}");
        }
    }

    /// A disk that is full takes so many bytes more.
    struct Full {
        taken: Vec<u8>,
        room: usize,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let amount = bytes.len().min(self.room);
            self.room -= amount;
            self.taken.extend_from_slice(&bytes[..amount]);
            match amount {
                0 => Err(io::ErrorKind::StorageFull.into()),
                amount => Ok(amount),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_after_one_that_was_cut_short_stands_alone() {
        for room in 0..4 {
            let taken = Vec::new();
            let mut lines = Lines::new(Full { taken, room }, u64::MAX);
            assert!(lines.add("one\n").is_err() && lines.add("two\n").is_err());
            lines.to.room = 100;
            lines.add("three\n").unwrap();
            lines.add("four\n").unwrap();
            let text = String::from_utf8(lines.to.taken).unwrap();
            assert!(text.ends_with("\nthree\nfour\n"), "{text:?}");
        }
    }
}
