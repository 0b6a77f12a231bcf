//! Whose a file is, and its response's entity tag, remembered with the file: in an extended attribute,
//! where the system and the file system have such.
//!
//! `user.fetchpool.source` is `LENGTH SECONDS.NANOSECONDS OF FROM`, and ` ETAG` if that is wanted: the
//! file's length and date as it was saved, and the hashes of the URL that was asked for and of the one
//! that answered. Of a file that somebody has changed since it says nothing any more.

use std::fs::{File, Metadata};
use std::path::Path;
use std::time::SystemTime;

use http::HeaderValue;

use super::resource::{fingerprint, resource};
use crate::outcome::Report;

/// The hashes of the URL that was asked for and of the one that answered, and the tag that is that one's.
#[derive(Clone, Debug)]
pub(super) struct Memo {
    pub(super) etag: Option<HeaderValue>,
    of: String,
    from: String,
}

impl Memo {
    /// Of what answers this job, or is asked by it now.
    pub(super) fn of(report: &Report, etag: Option<&HeaderValue>) -> Option<Self> {
        Some(Self {
            etag: etag.cloned(),
            of: fingerprint(report.request.url()?),
            from: resource(report)?,
        })
    }

    /// One URL has answered both.
    pub(super) fn is_from(&self, other: &Self) -> bool {
        self.from == other.from
    }

    /// Or it was another that the same URL led to in its time.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.is_from(other) || self.of == other.of
    }

    /// Best effort: without it the server is asked by date.
    pub(super) fn remember(&self, file: &File) {
        if let Some(mut memo) = file.metadata().ok().and_then(|meta| state(&meta)) {
            memo.extend_from_slice(format!("{} {}", self.of, self.from).as_bytes());
            if let Some(etag) = &self.etag {
                memo.push(b' ');
                memo.extend_from_slice(etag.as_bytes());
            }
            attribute::set(file, &memo);
        }
    }

    /// Of what stands there, if it is still that.
    pub(super) fn recall(path: &Path, meta: &Metadata) -> Option<Self> {
        let memo = attribute::get(path)?;
        let memo = memo.strip_prefix(&*state(meta)?)?;
        let mut fields = memo.splitn(3, |&byte| byte == b' ');
        let mut hash = || String::from_utf8(fields.next()?.to_vec()).ok();
        let (of, from) = (hash()?, hash()?);
        let etag = fields.next().map(HeaderValue::from_bytes);
        Some(Self {
            etag: etag.transpose().ok()?,
            of,
            from,
        })
    }
}

fn state(meta: &Metadata) -> Option<Vec<u8>> {
    let since = meta.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH);
    let since = since.ok()?;
    let (length, seconds, nanos) = (meta.len(), since.as_secs(), since.subsec_nanos());
    Some(format!("{length} {seconds}.{nanos:09} ").into_bytes())
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
mod attribute {
    use std::fs::File;
    use std::path::Path;

    use rustix::fs::{XattrFlags, fsetxattr, getxattr};

    const NAME: &str = "user.fetchpool.source";

    /// More than any tag that makes sense.
    const LONGEST: usize = 4096;

    pub(super) fn set(file: &File, value: &[u8]) {
        if value.len() <= LONGEST {
            let _ = fsetxattr(file, NAME, value, XattrFlags::empty());
        }
    }

    pub(super) fn get(path: &Path) -> Option<Vec<u8>> {
        let mut value = vec![0; LONGEST];
        let length = getxattr(path, NAME, &mut value).ok()?;
        value.truncate(length);
        Some(value)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
mod attribute {
    use std::fs::File;
    use std::path::Path;

    pub(super) fn set(_: &File, _: &[u8]) {}

    pub(super) fn get(_: &Path) -> Option<Vec<u8>> {
        None
    }
}
