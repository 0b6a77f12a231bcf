//! How files are saved: what the caller decides.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::check_journal;
use crate::body::Body;
use crate::error::Error;
use crate::fault::{ErrorKind, Fault};

/// A directory for files, and how they are put there: what
/// [`Downloader::save_all`](crate::Downloader::save_all) takes. A path is one with all defaults.
///
/// ```no_run
/// use fetchpool::{Directory, Downloader, Layout, OnExist};
///
/// let mirror = Directory::new("mirror").layout(Layout::Tree).on_exist(OnExist::Update);
/// for file in Downloader::new().save_all(["https://example.com/data/a.csv"], mirror) {
///     println!("{}", file?.path().display()); // mirror/example.com/data/a.csv
/// }
/// # Ok::<(), fetchpool::Error>(())
/// ```
#[derive(Clone)]
pub struct Directory {
    pub(super) path: PathBuf,
    pub(super) on_exist: OnExist,
    pub(super) name_from: NameFrom,
    pub(super) layout: Layout,
    pub(super) place: Option<Arc<Place>>,
    pub(super) sync: bool,
    pub(super) keep_parts: bool,
    pub(super) keep_date: bool,
    pub(super) keep_etag: bool,
    pub(super) keep_rejected: bool,
    pub(super) journal: Option<PathBuf>,
    pub(super) spared: Vec<PathBuf>,
}

pub(super) type Place = dyn Fn(&Body<'_>) -> PathBuf + Send + Sync;

/// What is done where a file of the name stands already.
///
/// *The same* is a file of which the server shows that. It answers 304 to a request with the file's date,
/// or its response is of just the file's length and date. After the body has come, its bytes show it. The
/// date is only taken for a sign where it is in whole seconds, as it is on files that have theirs from a
/// `Last-Modified`, and not of a file that is known to be another URL's: by the
/// [journal](Directory::journal), or by a hash of its URL in an extended attribute, on Linux and macOS
/// and most of their file systems. *Elsewhere, a file of another URL that has the name and the date is
/// taken for the same*: use a journal, or [`Layout::Tree`], for lists in which names come twice. Where the request expects a digest it is by that that a file is the same, and no
/// server is asked; a file of the digest that stands there is an error with [`Error`](Self::Error) all
/// the same, and is fetched anew with [`Overwrite`](Self::Overwrite) and [`KeepBoth`](Self::KeepBoth).
///
/// What another request of the same batch has made is no file that stands there: the second of one
/// name gets `name (1).ext`, whatever the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnExist {
    /// If it is the same, its body is not fetched, or not kept. Otherwise both are kept: the new one is
    /// called `name (1).ext`. Such copies of earlier runs are looked at in the same way, so that there is
    /// one of each version. What shows by its bytes to be the same gets the response's date, by which
    /// the next run knows it.
    #[default]
    SameOrBoth,
    /// What stands there is taken as it is; the server is not asked where the name is known before the
    /// response. Where the
    /// request expects a digest or a length and the file is not of it, that is an error of the kind
    /// [`Digest`](crate::ErrorKind::Digest); [`Update`](Self::Update) fetches it anew.
    Skip,
    /// The new file takes its place, when it is whole.
    Overwrite,
    /// If it is the same, its body is not fetched. Otherwise the new file takes its place, when
    /// it is whole.
    Update,
    /// Both are kept, even if they are the same.
    KeepBoth,
    /// It is an error, of the kind [`Io`](crate::ErrorKind::Io).
    Error,
}

impl OnExist {
    /// A file that stands there may be replaced.
    pub(super) fn replaces(self) -> bool {
        matches!(self, Self::Overwrite | Self::Update)
    }
}

/// Which URL names a file, where no `Content-Disposition` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameFrom {
    /// The one that was asked for. So the name is known before anything is asked, and a redirect
    /// cannot choose it.
    #[default]
    FirstUrl,
    /// The one that answered, after redirects. Of several files of one name it is then the first to come
    /// that has it without a number, as it is where `Content-Disposition` names them: runs may differ.
    FinalUrl,
}

/// Where below the directory files go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// All into the directory itself, under the last segment of their URL's path.
    #[default]
    Flat,
    /// Into `host/path`, as the URL has it; `host_port` where it names a port.
    ///
    /// A URL that is also the directory of another (`/a` and `/a/b`) cannot stand beside that: the
    /// second of them to come is an error of the kind [`Io`](crate::ErrorKind::Io), unless
    /// [`OnExist::KeepBoth`] gives it a number. Name one of them with
    /// [`Request::save_as`](crate::Request::save_as).
    ///
    /// Queries have no part in it: of two URLs that differ by theirs alone the second gets
    /// `name (1).ext`.
    Tree,
}

impl Directory {
    /// A directory, made when the first file is if it is not there, with all defaults.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let is_here = path.as_os_str().is_empty();
        Self {
            path: if is_here { ".".into() } else { path },
            on_exist: OnExist::default(),
            name_from: NameFrom::default(),
            layout: Layout::default(),
            place: None,
            sync: true,
            keep_parts: true,
            keep_date: true,
            keep_etag: false,
            keep_rejected: false,
            journal: None,
            spared: Vec::new(),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is done where a file of the name stands already. The default is
    /// [`OnExist::SameOrBoth`].
    #[must_use]
    pub fn on_exist(mut self, policy: OnExist) -> Self {
        self.on_exist = policy;
        self
    }

    /// Which URL names a file, where neither [`Request::save_as`](crate::Request::save_as) nor a
    /// `Content-Disposition` does. The default is [`NameFrom::FirstUrl`].
    #[must_use]
    pub fn name_from(mut self, which: NameFrom) -> Self {
        self.name_from = which;
        self
    }

    /// Where below the directory files go. The default is [`Layout::Flat`].
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Has a function say where a response's file goes, relative to the directory. It goes before
    /// all else that gives names but [`Request::save_as`](crate::Request::save_as).
    ///
    /// Where it leads to another file system than the directory is on, by a link or a mount, a file cannot
    /// be put there: until it has its name it is where its URL would have it, which is in the directory
    /// itself, but for [`Layout::Tree`].
    ///
    /// What it returns is made safe: roots and `..` are left out, and each part is made a name
    /// that all systems take; what has no name left is `index.html`, as with `save_as`. The body cannot
    /// be read by it. Of a file that is gone on with, the response has the length of the whole, and the
    /// type that was told first; its status may be 206 or 304.
    ///
    /// ```
    /// use fetchpool::Directory;
    ///
    /// let by_type = Directory::new("files").place(|response| {
    ///     let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
    ///     let name = response.url().path().rsplit('/').next().unwrap_or("file");
    ///     [kind.unwrap_or("unknown"), name].iter().collect()
    /// });
    /// ```
    #[must_use]
    pub fn place(mut self, place: impl Fn(&Body<'_>) -> PathBuf + Send + Sync + 'static) -> Self {
        self.place = Some(Arc::new(place));
        self
    }

    /// Whether a file is on the disk, not only in the system's memory, before it has its name, and
    /// its directory after that (`fsync`). The default is `true`: after a power cut a file is
    /// whole or not there. `false` is faster where there are many small files.
    #[must_use]
    pub fn sync(mut self, sync: bool) -> Self {
        self.sync = sync;
        self
    }

    /// Whether what came of a body stays, for the next attempt and the next run to go on with,
    /// where the server has named a strong validator and it is large enough to be worth it
    /// (64 KiB). The default is `true`. It has a hidden name that ends in `.part`, and beside it is a
    /// second that ends in `.part.from` and says what it is of.
    ///
    /// It stays beside the file, as far as that is known before the response. Where the response
    /// decides, it has the name, and is in the directory, that the URL alone gives: with a
    /// `Content-Disposition` that is beside the file under another name, and with [`place`](Self::place)
    /// in the directory itself ([`Layout::Tree`]: in that of the URL).
    #[must_use]
    pub fn keep_parts(mut self, keep: bool) -> Self {
        self.keep_parts = keep;
        self
    }

    /// Whether a file has the date of its response's `Last-Modified`. The default is `true`: it is
    /// what shows in the next run that the file is the same.
    #[must_use]
    pub fn keep_date(mut self, keep: bool) -> Self {
        self.keep_date = keep;
        self
    }

    /// Whether a file remembers its response's `ETag`, by which the server is asked in the next run
    /// whether it is the same: better than a date where there are several versions in a second,
    /// or no dates. The default is `false`.
    ///
    /// It is in an extended attribute, `user.fetchpool.source`, and counts as long as the file has the
    /// length and the date with which it was saved. Hashes of the file's URLs are there in any case, so
    /// that one of another URL is not taken for it. Linux and macOS have such attributes, on most
    /// file systems; elsewhere this does nothing.
    #[must_use]
    pub fn keep_etag(mut self, keep: bool) -> Self {
        self.keep_etag = keep;
        self
    }

    /// Whether a body that is not of the digest that was expected stays for somebody to look at,
    /// as `NAME.rejected` where the file would stand; the error says where. None takes the place of an
    /// earlier one: the next of `f.txt` is `f.txt (1).rejected`. The default is `false`.
    #[must_use]
    pub fn keep_rejected(mut self, keep: bool) -> Self {
        self.keep_rejected = keep;
        self
    }

    /// Spares a file of your own that may lie in the directory, such as a list of checksums: no file
    /// gets its path, by whatever name, request or [policy](Self::on_exist), but one like it with a number.
    /// The [`journal`](Self::journal) is spared without it. May be called for several.
    #[must_use]
    pub fn spare(mut self, path: impl Into<PathBuf>) -> Self {
        self.spared.push(path.into());
        self
    }

    /// Keeps a journal in this file, which is made with its directory if it is not there: what became
    /// of each request. The default is none.
    ///
    /// A batch with the journal of an earlier one, such as was interrupted, takes for done what that
    /// has fetched, as long as the file stands there with its length, whatever
    /// [`on_exist`](Self::on_exist) says: no server is asked, the outcome
    /// [`was_present`](crate::Saved::was_present), and no request behind it gets its path. Only a
    /// request that expects a digest with which the file was not judged then, or another length, is not
    /// taken for done by that. All else is fetched, failures too. The journal is read as the first
    /// request is let in, by the thread that does so.
    ///
    /// One batch at a time has it: for another it is an error of all of its requests, of the kind
    /// [`Io`](crate::ErrorKind::Io), when it has waited for a second; nothing is fetched. So is a file
    /// that is something else, which is left as it is. [`check`](Self::check) tells both beforehand.
    ///
    /// ```no_run
    /// use std::num::NonZeroUsize;
    ///
    /// use fetchpool::{Directory, Downloader, ErrorKind, Request};
    ///
    /// // The URLs, and what their files should come to.
    /// let list = [(
    ///     "https://example.com/big.iso",
    ///     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    /// )];
    /// let mut requests = Vec::new();
    /// for (url, digest) in list {
    ///     let request = Request::new(url).expect_digest(digest.parse()?);
    ///     requests.push(request.segments(NonZeroUsize::new(4).unwrap()));
    /// }
    ///
    /// let directory = Directory::new("d").journal("d.journal");
    /// // A journal that cannot be had is one error here, and not one of each request.
    /// directory.check()?;
    /// for file in Downloader::new().save_all(requests, directory) {
    ///     match file {
    ///         Ok(file) if file.was_present() => println!("{}: done before", file.path().display()),
    ///         Ok(file) => println!("{}: {} bytes", file.path().display(), file.bytes()),
    ///         Err(error) => {
    ///             // Where it stood in the list.
    ///             let index = error.report().map_or(0, |report| report.index());
    ///             match error.kind() {
    ///                 ErrorKind::Digest => eprintln!("{index}: not what it should be: {error}"),
    ///                 // The next run tries it again, and goes on where a body broke off.
    ///                 _ => eprintln!("{index}: {error}"),
    ///             }
    ///         }
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A line that cannot be written is a warning in the log, not an error: the file is whole, and the
    /// next run asks about it. Lines are not synced, so that some may be missing after a power cut;
    /// without [`sync`](Self::sync) a line may be there and its file not whole.
    ///
    /// The first line is `fetchpool journal 1`. Each other is a request's, written in one piece when
    /// it is through, of eight fields with a tab between them; one that was cancelled has none, and
    /// what was done before has no second one. In a field `%`, control characters and all that is not
    /// ASCII is percent-encoded; `-` is nothing. A last line without its end is ignored. Of lines with
    /// one key, or with one path, the last counts; one of a failure takes none back.
    ///
    /// | field | |
    /// | --- | --- |
    /// | outcome | `saved`, `present`, or why it failed: an [`ErrorKind`] |
    /// | key | the first 24 hexadecimal digits of the SHA-256 of the URL without its password and what signs it; and of the request's headers, the path it names, and how many that are alike stand before it in the list, where there are such. Credentials have no part in it: requests that differ in nothing else are alike |
    /// | bytes | the file's length |
    /// | path | the file's, relative to the directory if it is in it, absolute if not |
    /// | ETag | as the response had it |
    /// | Last-Modified | likewise |
    /// | digests | those that the request expected, with commas between them |
    /// | URL | without secrets, as [`Report::shown_url`](crate::Report::shown_url) |
    #[must_use]
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Self {
        self.journal = Some(path.into());
        self
    }

    /// Makes the directory and, where it is to have one, the [`journal`](Self::journal), or opens it and
    /// lets it go again. So what is wrong with either is known before there is a request, and said once;
    /// otherwise it is the error of each request.
    ///
    /// No batch does it by itself: it makes its directory for its first file, and may have none. What
    /// is right now may be wrong by the time that a batch begins.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]: the directory cannot be made, or the journal is not to be had.
    pub fn check(&self) -> Result<(), Error> {
        let made = fs::create_dir_all(&self.path).map_err(|error| {
            let doing = format!("cannot make the directory {}", self.path.display());
            Fault::with_source(ErrorKind::Io, doing, error)
        });
        let checked = made.and_then(|()| self.journal.as_deref().map_or(Ok(()), check_journal));
        checked.map_err(|fault| Error::bare(fault, None))
    }
}

impl<P: Into<PathBuf>> From<P> for Directory {
    fn from(path: P) -> Self {
        Self::new(path)
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory")
            .field("path", &self.path)
            .field("on_exist", &self.on_exist)
            .field("name_from", &self.name_from)
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}
