//! A file that stands where another is to go.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use http::header::{CONTENT_ENCODING, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED};
use http::{HeaderMap, HeaderValue};

use super::memo::Memo;
use super::open;
use super::part::show;
use crate::body::Body;
use crate::digest::Check;
use crate::fault::Fault;

#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// What was remembered of it, if the file is still that.
    memo: Option<Memo>,
    /// In whole seconds: else it is not from a server.
    modified: Option<SystemTime>,
}

/// The year 9999, at which the format of dates ends.
const LAST: Duration = Duration::from_secs(253_402_300_799);

impl Standing {
    pub(super) fn at(path: &Path) -> io::Result<Option<Self>> {
        let meta = match fs::metadata(path) {
            Ok(meta) if meta.is_file() => meta,
            Ok(meta) if meta.is_dir() => {
                let what = "a directory stands there, made for the file of another URL perhaps";
                return Err(io::Error::new(io::ErrorKind::IsADirectory, what));
            }
            Ok(_) => return Err(io::Error::other("something stands there that is no file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let modified = meta.modified().ok().filter(|&time| is_from_a_server(time));
        Ok(Some(Self {
            path: path.to_owned(),
            memo: Memo::recall(path, &meta),
            bytes: meta.len(),
            modified,
        }))
    }

    /// As this job may ask about it: the tag of another URL says nothing here (RFC 9110, section 8.8.3),
    /// and of what another request has fetched the date does not either. That is told by its bytes alone.
    pub(super) fn for_job(mut self, its: &Memo) -> Option<Self> {
        if let Some(memo) = &mut self.memo {
            if !memo.is_of(its) {
                return None;
            }
            if !memo.is_from(its) {
                memo.etag = None;
            }
        }
        Some(self)
    }

    fn etag(&self) -> Option<&HeaderValue> {
        self.memo.as_ref()?.etag.as_ref()
    }

    /// It is known whose it is: this job's.
    pub(super) fn is_of(&self, its: &Memo) -> bool {
        self.memo.as_ref().is_some_and(|memo| memo.is_of(its))
    }

    /// There is something to ask by: an answer to no question shows nothing.
    pub(super) fn can_be_asked_about(&self) -> bool {
        self.etag().is_some() || self.modified.is_some()
    }

    /// Has the server say whether it is the same, as far as there is something to ask by.
    pub(crate) fn ask(&self, headers: &mut HeaderMap) {
        if let Some(etag) = self.etag() {
            headers.insert(IF_NONE_MATCH, etag.clone());
        }
        let date = self.modified.map(httpdate::fmt_http_date);
        if let Some(date) = date.and_then(|date| HeaderValue::try_from(date).ok()) {
            headers.insert(IF_MODIFIED_SINCE, date);
        }
    }

    /// Whether that is what a 304 says.
    pub(crate) fn is_same_by(&self, answer: &HeaderMap) -> bool {
        if let Some(ours) = self.etag() {
            // By which it was judged (RFC 9110, section 13.2.2), unless the server knows none.
            let etag = answer.get(ETAG);
            return etag.is_none_or(|etag| opaque(etag) == opaque(ours));
        }
        // Some answer so to any later date; but a file of another date is another file.
        answer
            .get(LAST_MODIFIED)
            .is_none_or(|date| self.has_date(date))
    }

    fn has_date(&self, date: &HeaderValue) -> bool {
        self.modified.is_some() && self.modified == time_of(date)
    }

    /// What the server says of it by now. Best effort: some are not ours to write to, and what goes by
    /// another name as well has its date for that too.
    pub(super) fn is_now_of(&self, date: Option<SystemTime>, memo: Option<&Memo>) {
        let Ok(file) = open::existing(&self.path) else {
            return;
        };
        if open::is_linked(&file) {
            return;
        }
        if let Some(date) = date {
            let _ = file.set_modified(date);
        }
        if let Some(memo) = memo {
            memo.remember(&file);
        }
    }

    /// Whether it is what is expected.
    pub(super) fn compare(&self, mut check: Check) -> io::Result<Result<(), Fault>> {
        show(&mut File::open(&self.path)?, self.bytes, &mut check)?;
        Ok(check.verdict(self.bytes))
    }

    /// Just as long and as old as what comes, and not of another tag.
    pub(super) fn is_same_as(&self, body: &Body<'_>) -> bool {
        let headers = body.headers();
        let tags = (self.etag(), headers.get(ETAG));
        let is_of_another_tag = matches!(tags, (Some(ours), Some(theirs)) if ours != theirs);
        // Of a rest, the length is its own; and what it is the rest of is another file than this.
        body.taken() == 0
            && body.content_length() == Some(self.bytes)
            && !is_of_another_tag
            && !headers.contains_key(CONTENT_ENCODING)
            && headers
                .get(LAST_MODIFIED)
                .is_some_and(|date| self.has_date(date))
    }
}

/// The tag without its mark of weakness: whether the file is the same is a weak comparison (RFC 9110,
/// section 13.1.2).
fn opaque(etag: &HeaderValue) -> &[u8] {
    let bytes = etag.as_bytes();
    bytes.strip_prefix(b"W/").unwrap_or(bytes)
}

pub(super) fn time_of(date: &HeaderValue) -> Option<SystemTime> {
    httpdate::parse_http_date(date.to_str().ok()?).ok()
}

fn is_from_a_server(time: SystemTime) -> bool {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.is_ok_and(|since| since.subsec_nanos() == 0 && since <= LAST)
}
