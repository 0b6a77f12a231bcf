//! The entity tag of a file's response, remembered with the file: in an extended attribute, where
//! the system and the file system have such.
//!
//! `user.fetchpool.etag` is `LENGTH SECONDS.NANOSECONDS FROM ETAG`: the file's length and date as it
//! was saved, and the hash of the URL that answered. A file that somebody has changed since is not of
//! that tag any more.

use std::fs::{File, Metadata};
use std::path::Path;
use std::time::SystemTime;

use http::HeaderValue;

/// Best effort: without it the server is asked by date.
pub(super) fn remember(file: &File, etag: &HeaderValue, from: &str) {
    if let Some(mut memo) = file.metadata().ok().and_then(|meta| state(&meta)) {
        memo.extend_from_slice(format!("{from} ").as_bytes());
        memo.extend_from_slice(etag.as_bytes());
        attribute::set(file, &memo);
    }
}

/// A tag, and the hash of the URL whose it is.
#[derive(Clone, Debug)]
pub(super) struct Memo {
    pub(super) etag: HeaderValue,
    pub(super) from: String,
}

/// The tag of what stands there, if it is still that.
pub(super) fn recall(path: &Path, meta: &Metadata) -> Option<Memo> {
    let memo = attribute::get(path)?;
    let memo = memo.strip_prefix(&*state(meta)?)?;
    let blank = memo.iter().position(|&byte| byte == b' ')?;
    Some(Memo {
        etag: HeaderValue::from_bytes(&memo[blank + 1..]).ok()?,
        from: String::from_utf8(memo[..blank].to_vec()).ok()?,
    })
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
