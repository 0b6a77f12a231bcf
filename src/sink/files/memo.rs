//! The entity tag of a file's response, remembered with the file: in an extended attribute, where
//! the system and the file system have such.
//!
//! `user.fetchpool.etag` is `LENGTH SECONDS.NANOSECONDS OF FROM ETAG`: the file's length and date as it
//! was saved, and the hashes of the URL that was asked for and of the one that answered. A file that
//! somebody has changed since is not of that tag any more.

use std::fs::{File, Metadata};
use std::path::Path;
use std::time::SystemTime;

use http::HeaderValue;

use super::resource::{fingerprint, resource};
use crate::outcome::Report;

/// A tag, and the hashes of the URL that was asked for and of the one whose it is.
#[derive(Clone, Debug)]
pub(super) struct Memo {
    pub(super) etag: HeaderValue,
    of: String,
    from: String,
}

impl Memo {
    pub(super) fn of(etag: &HeaderValue, report: &Report) -> Option<Self> {
        Some(Self {
            etag: etag.clone(),
            of: fingerprint(report.request.url()?),
            from: resource(report)?,
        })
    }

    /// It is of the URL that answers, or is asked now.
    pub(super) fn is_from(&self, report: &Report) -> bool {
        Some(&self.from) == resource(report).as_ref()
    }

    /// Neither that, nor has this request's URL led there in its time.
    pub(super) fn is_anothers(&self, report: &Report) -> bool {
        let is_of = |url| fingerprint(url) == self.of;
        !self.is_from(report) && !report.request.url().is_some_and(is_of)
    }

    /// Best effort: without it the server is asked by date.
    pub(super) fn remember(&self, file: &File) {
        if let Some(mut memo) = file.metadata().ok().and_then(|meta| state(&meta)) {
            memo.extend_from_slice(format!("{} {} ", self.of, self.from).as_bytes());
            memo.extend_from_slice(self.etag.as_bytes());
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
        Some(Self {
            etag: HeaderValue::from_bytes(fields.next()?).ok()?,
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

    const NAME: &str = "user.fetchpool.etag";

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
