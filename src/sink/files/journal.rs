//! What became of each job of a run, for the next one to go on from.
//!
//! A line a job, of fields with a tab between them, in which `%`, control characters and what is not
//! ASCII are percent-encoded; `-` is nothing. The format is told in full at
//! [`Directory::journal`](crate::Directory::journal).

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use http::header::{ETAG, LAST_MODIFIED};
use http::{HeaderMap, HeaderName};
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};

use super::Landed;
use super::open::{self, Lock, Locked};
use super::placing::fingerprint_of;
use super::publish::parent_of;
use crate::digest::Digest;
use crate::fault::{ErrorKind, Fault};
use crate::http::redirect::strip_credentials;
use crate::outcome::Report;

const FIRST: &str = "fetchpool journal 1\n";

/// How long one that is taken is waited for. A run that ends, or a batch that is dropped while its
/// first job still reads the journal, has it for a moment more.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

pub(super) struct Journal {
    path: PathBuf,
    /// Opened by the first job that comes; those that come meanwhile wait for it to have been read.
    opened: OnceLock<Result<Opened, String>>,
}

struct Opened {
    /// What it said then.
    done: HashMap<String, Done>,
    /// Locked, against other runs, for as long as this lives. The mutex is there so that each line
    /// is written in one piece: it is held over a write to the end of a file, and over nothing else.
    /// `None` once the batch is over.
    file: Mutex<Option<Locked>>,
    /// That it cannot be written is said once.
    is_lame: AtomicBool,
}

/// A file that an earlier run has fetched.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Done {
    /// Relative to the directory, if it is in it.
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    digests: String,
}

impl Done {
    /// It was judged by these as well.
    pub(super) fn is_of(&self, digests: &[Digest]) -> bool {
        let is_known = |digest: &Digest| {
            self.digests
                .split(',')
                .any(|text| text.parse() == Ok(*digest))
        };
        digests.iter().all(is_known)
    }
}

impl Journal {
    pub(super) fn new(path: PathBuf) -> Self {
        let opened = OnceLock::new();
        Self { path, opened }
    }

    /// Lets another batch have it, before the last of this one's workers lets go of that.
    pub(super) fn close(&self) {
        if let Some(Ok(opened)) = self.opened.get() {
            *opened.file.lock() = None;
        }
    }

    /// What an earlier run has made of this URL.
    pub(super) fn done(&self, report: &Report) -> Result<Option<&Done>, Fault> {
        let opened = self.opened.get_or_init(|| Opened::at(&self.path));
        match opened {
            Ok(opened) => Ok(key(report).and_then(|of| opened.done.get(&of))),
            Err(why) => {
                let detail = format!("cannot use the journal {}: {why}", self.path.display());
                Err(Fault::new(ErrorKind::Io, detail))
            }
        }
    }

    pub(super) fn note_landed(
        &self,
        report: &Report,
        landed: &Landed,
        headers: &HeaderMap,
        directory: &Path,
    ) {
        // It says so already.
        if landed.was_present
            && matches!(self.done(report), Ok(Some(done)) if done.bytes == landed.bytes)
        {
            return;
        }
        let path = landed.path.strip_prefix(directory);
        let path = path.unwrap_or(&landed.path).to_string_lossy();
        let digests = report.request.its_digests().iter().map(Digest::to_string);
        let value = |name: &HeaderName| headers.get(name).map(|value| value.as_bytes());
        let outcome = if landed.was_present {
            "present"
        } else {
            "saved"
        };
        self.note(
            report,
            [
                Some(outcome.as_bytes()),
                Some(landed.bytes.to_string().as_bytes()),
                Some(path.as_bytes()),
                value(&ETAG),
                value(&LAST_MODIFIED),
                Some(digests.collect::<Vec<_>>().join(",").as_bytes()),
            ],
        );
    }

    pub(super) fn note_failed(&self, report: &Report, fault: &Fault) {
        let outcome = Some(fault.kind.as_str().as_bytes());
        self.note(report, [outcome, None, None, None, None, None]);
    }

    fn note(&self, report: &Report, fields: [Option<&[u8]>; 6]) {
        let (Some(Ok(opened)), Some(of)) = (self.opened.get(), key(report)) else {
            return;
        };
        let url = report.shown_url();
        let [outcome, rest @ ..] = fields;
        let before = [outcome, Some(of.as_bytes())];
        let fields = before.into_iter().chain(rest).chain([Some(url.as_bytes())]);
        let fields: Vec<_> = fields.map(encoded).collect();
        let line = fields.join("\t") + "\n";
        let written = match &mut *opened.file.lock() {
            Some(file) => file.write_all(line.as_bytes()),
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
        let file = take(path).map_err(|error| error.to_string())?;
        Self::of(file).map_err(|error| error.to_string())
    }

    fn of(mut file: Locked) -> io::Result<Self> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        // Of one whose writer was killed the last line is torn.
        let whole = bytes.iter().rposition(|&byte| byte == b'\n');
        let text = String::from_utf8_lossy(&bytes[..whole.map_or(0, |end| end + 1)]);
        let is_begun = FIRST.as_bytes().starts_with(&bytes);
        let Some(lines) = text.strip_prefix(FIRST) else {
            if !is_begun {
                return Err(io::Error::other(
                    "it is not a journal, or one of another version: name another file",
                ));
            }
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(FIRST.as_bytes())?;
            return Ok(Self::with(HashMap::new(), file));
        };
        let done = lines.lines().filter_map(parse).collect();
        file.set_len(whole.map_or(0, |end| end as u64 + 1))?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self::with(done, file))
    }

    fn with(done: HashMap<String, Done>, file: Locked) -> Self {
        Self {
            done,
            file: Mutex::new(Some(file)),
            is_lame: AtomicBool::new(false),
        }
    }
}

/// Has it for this run alone.
fn take(path: &Path) -> io::Result<Locked> {
    let until = Instant::now() + PATIENCE;
    fs::create_dir_all(parent_of(path))?;
    loop {
        match open::lock(path, true)? {
            Lock::Had(file) => return Ok(file),
            Lock::Taken | Lock::Gone if Instant::now() < until => thread::sleep(LOOK_AGAIN),
            Lock::Taken | Lock::Gone => {
                return Err(io::Error::other(
                    "another run is using it: wait for its end, or name another file",
                ));
            }
        }
    }
}

/// Which request of a run it is: what is asked for, and for which file.
fn key(report: &Report) -> Option<String> {
    let request = &report.request;
    let mut headers = request.headers().cloned().unwrap_or_default();
    strip_credentials(&mut headers);
    let (place, namesakes) = (request.place(), report.progress.namesakes);
    // Of one that is a URL and nothing else: that of the URL.
    let more = match (headers.is_empty(), place, namesakes) {
        (true, None, 0) => String::new(),
        _ => format!("{headers:?} {place:?} {namesakes}"),
    };
    Some(fingerprint_of(request.url()?, &more))
}

/// What would end the field or the line, or is not to be seen.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

fn encoded(field: Option<&[u8]>) -> String {
    match field {
        None | Some(b"") => "-".to_owned(),
        Some(b"-") => "%2D".to_owned(),
        Some(bytes) => percent_encode(bytes, ENCODED).to_string(),
    }
}

fn decoded(field: &str) -> String {
    match field {
        "-" => String::new(),
        field => percent_decode_str(field).decode_utf8_lossy().into_owned(),
    }
}

/// A file that was fetched, by its key. Failures are for people: they are tried again.
fn parse(line: &str) -> Option<(String, Done)> {
    let fields: Vec<_> = line.split('\t').collect();
    let [outcome, of, bytes, path, _etag, _date, digests, _url] = fields[..] else {
        return None;
    };
    let done = Done {
        path: PathBuf::from(decoded(path)),
        bytes: bytes.parse().ok()?,
        digests: decoded(digests),
    };
    matches!(outcome, "saved" | "present").then(|| (of.to_owned(), done))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_field_is_read_as_it_was_written(text in "\\PC{0,20}|[\\x00-\\x7f]{0,20}|-") {
            let written = encoded(Some(text.as_bytes()));
            prop_assert!(!written.contains(['\t', '\n', '\r']) && !written.is_empty());
            prop_assert_eq!(decoded(&written), text);
        }

        #[test]
        fn whatever_stands_there_is_a_line_or_none(line in "\\PC{0,40}|([a-z0-9%-]{0,9}\t){7}x") {
            let _ = parse(&line);
        }
    }
}
