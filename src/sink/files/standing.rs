//! A file that stands where another is to go.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use http::header::{CONTENT_ENCODING, LAST_MODIFIED};

use super::part::show;
use crate::body::Body;
use crate::digest::Check;
use crate::fault::Fault;

#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// In whole seconds: else it is not from a server.
    modified: Option<SystemTime>,
}

/// The year 9999, at which the format of dates ends.
const LAST: Duration = Duration::from_secs(253_402_300_799);

impl Standing {
    pub(super) fn at(path: &Path) -> io::Result<Option<Self>> {
        let meta = match fs::metadata(path) {
            Ok(meta) if meta.is_file() => meta,
            Ok(_) => return Err(io::Error::other("something stands there that is no file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let modified = meta.modified().ok().filter(|&time| is_from_a_server(time));
        Ok(Some(Self {
            path: path.to_owned(),
            bytes: meta.len(),
            modified,
        }))
    }

    /// Since when it is what it is, to ask whether that has changed.
    pub(crate) fn date(&self) -> Option<HeaderValue> {
        let date = httpdate::fmt_http_date(self.modified?);
        HeaderValue::try_from(date).ok()
    }

    pub(crate) fn is_of(&self, date: &HeaderValue) -> bool {
        self.modified.is_some() && self.modified == time_of(date)
    }

    /// Whether it is what is expected.
    pub(super) fn compare(&self, mut check: Check) -> io::Result<Result<(), Fault>> {
        show(&mut File::open(&self.path)?, self.bytes, &mut check)?;
        Ok(check.verdict(self.bytes))
    }

    /// Just as long and as old as what comes.
    pub(super) fn is_same_as(&self, body: &Body<'_>) -> bool {
        let headers = body.headers();
        body.content_length() == Some(self.bytes)
            && !headers.contains_key(CONTENT_ENCODING)
            && headers
                .get(LAST_MODIFIED)
                .is_some_and(|date| self.is_of(date))
    }
}

pub(super) fn time_of(date: &HeaderValue) -> Option<SystemTime> {
    httpdate::parse_http_date(date.to_str().ok()?).ok()
}

fn is_from_a_server(time: SystemTime) -> bool {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.is_ok_and(|since| since.subsec_nanos() == 0 && since <= LAST)
}
