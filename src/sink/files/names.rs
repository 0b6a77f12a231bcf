//! Which names a batch has given to whom.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter::successors;
use std::path::{self, Component, Path, PathBuf};

use parking_lot::Mutex;

use super::super::name;
use super::publish::parent_of;

/// The paths that a batch has handed out: none goes to two of its jobs, on a file system that
/// takes upper and lower case for one either.
///
/// Sixteen bytes a path, of which only a hash is kept: two that share it by chance cost the second a number in its
/// name. The lock is never held during I/O, nor with another.
pub(super) struct Names {
    /// The directory that most of them are in.
    home: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    taken: HashMap<u64, u32>,
    /// Those among them of what an earlier run has made.
    settled: HashSet<u64>,
    /// Of jobs under way whose names their responses have told, by their indices.
    told: HashMap<u64, (PathBuf, u32)>,
}

impl Names {
    pub(super) fn new(home: &Path) -> Self {
        Self {
            home: home.to_owned(),
            inner: Mutex::default(),
        }
    }

    /// The next number with which this path is free, as far as this batch goes.
    pub(super) fn hand_out(&self, path: &Path) -> u32 {
        let path = self.in_one_way(path);
        self.inner.lock().hand_out(&path)
    }

    /// The first number from there on with which nobody has got the path.
    pub(super) fn next_free(&self, path: &Path, from: u32) -> u32 {
        let path = self.in_one_way(path);
        self.inner.lock().next_free(&path, from)
    }

    /// The path with this number, unless somebody has got it.
    pub(super) fn take(&self, path: &Path, number: u32) -> bool {
        let path = self.in_one_way(path);
        self.inner.lock().take(&path, number)
    }

    /// Nobody gets this one, if it is in the directory.
    pub(super) fn spare(&self, path: &Path) {
        // What it leads to, where it is a link, as well; no more of them than the system follows.
        let next = |path: &PathBuf| Some(parent_of(path).join(path.read_link().ok()?));
        for path in successors(Some(path.to_owned()), next).take(40) {
            let key = key(&self.in_one_way(&path), 0);
            self.inner.lock().taken.entry(key).or_insert(1);
        }
    }

    /// The file there is what an earlier run has made, and to be left so. `false` if another of this
    /// batch has got the path.
    pub(super) fn settle(&self, path: &Path, own: Option<PathBuf>) -> bool {
        let key = key(&self.in_one_way(path), 0);
        let is_own = own.is_some_and(|own| self.are_one(path, &own));
        let mut inner = self.inner.lock();
        let is_free = is_own || inner.settled.contains(&key) || !inner.taken.contains_key(&key);
        if is_free {
            inner.taken.entry(key).or_insert(1);
            inner.settled.insert(key);
        }
        is_free
    }

    /// Whether two are of one file.
    pub(super) fn are_one(&self, one: &Path, other: &Path) -> bool {
        key(&self.in_one_way(one), 0) == key(&self.in_one_way(other), 0)
    }

    /// The same, but a job that comes again, in another attempt, has its own again.
    pub(super) fn for_job(&self, index: u64, path: &Path) -> u32 {
        let path = self.in_one_way(path);
        let mut inner = self.inner.lock();
        if let Some((_, number)) = inner.told.get(&index).filter(|(told, _)| *told == path) {
            return *number;
        }
        let number = inner.hand_out(&path);
        inner.told.insert(index, (path.into_owned(), number));
        number
    }

    /// One file's path can be spelled in many ways, and lead through links. Only of one that is a mere
    /// name in the directory there is nothing to look at.
    fn in_one_way<'a>(&self, path: &'a Path) -> Cow<'a, Path> {
        let is_name = |path: &Path| {
            let mut parts = path.components();
            matches!(
                (parts.next(), parts.next()),
                (Some(Component::Normal(_)), None)
            )
        };
        if path.strip_prefix(&self.home).is_ok_and(is_name) {
            return Cow::Borrowed(path);
        }
        let Some(name) = path.file_name() else {
            return Cow::Borrowed(path);
        };
        let parent = canonical(parent_of(path));
        match parent.strip_prefix(canonical(&self.home)) {
            Ok(within) => Cow::Owned(self.home.join(within).join(name)),
            Err(_) => Cow::Owned(parent.join(name)),
        }
    }

    /// The job does not come again.
    pub(super) fn forget_job(&self, index: u64) {
        self.inner.lock().told.remove(&index);
    }
}

impl Inner {
    fn next_free(&self, path: &Path, from: u32) -> u32 {
        let next = self.taken.get(&key(path, 0)).copied().unwrap_or(0);
        let mut number = next.max(from);
        while number > 0 && self.taken.contains_key(&key(path, number)) {
            number += 1;
        }
        number
    }

    fn take(&mut self, path: &Path, number: u32) -> bool {
        // Of the path itself: the next to try. Of one with a number: that it is taken.
        match self.taken.entry(key(path, number)) {
            Entry::Vacant(free) => free.insert(1),
            Entry::Occupied(_) => return false,
        };
        if let Some(next) = self.taken.get_mut(&key(path, 0)) {
            *next += u32::from(*next == number);
        }
        true
    }

    fn hand_out(&mut self, path: &Path) -> u32 {
        let number = self.next_free(path, 0);
        self.take(path, number);
        if number > 0 {
            self.taken.insert(key(path, 0), number + 1);
        }
        number
    }
}

/// As far as it is there, as the system has it.
fn canonical(path: &Path) -> PathBuf {
    let path = path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = path.ancestors().find_map(|there| {
        let mut found = there.canonicalize().ok()?;
        // What is not there yet is no link.
        for part in path.strip_prefix(there).ok()?.components() {
            match part {
                Component::ParentDir => drop(found.pop()),
                part => found.push(part),
            }
        }
        Some(found)
    });
    found.unwrap_or(path)
}

fn key(path: &Path, number: u32) -> u64 {
    let mut hasher = DefaultHasher::new();
    for component in numbered(path, number).components() {
        name::folded(&component.as_os_str().to_string_lossy()).hash(&mut hasher);
    }
    hasher.finish()
}

/// `a/b.txt`, `a/b (1).txt`, `a/b (2).txt` …
pub(super) fn numbered(path: &Path, number: u32) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(name::numbered(&name, number.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_settled_if_nobody_has_it() {
        let names = Names::new(Path::new("d"));
        let path = |name: &str| Path::new("d").join(name);
        assert_eq!(names.for_job(7, &path("b")), 0);
        // Another is about to write there; or it is the one of this very job.
        assert!(!names.settle(&path("B"), None));
        assert!(names.settle(&path("b"), Some(path("b"))));
        // Two may have come to the same.
        assert!(names.settle(&path("a"), None) && names.settle(&path("a"), None));
        assert_eq!(names.for_job(8, &path("a")), 1);
    }

    #[test]
    fn no_path_goes_to_two() {
        let names = Names::new(Path::new("d"));
        let out = |path: &str| {
            let path = Path::new(path);
            let number = names.hand_out(path);
            numbered(path, number).to_str().unwrap().to_owned()
        };
        assert_eq!(out("d/a.txt"), "d/a.txt");
        assert_eq!(out("d/A.txt"), "d/A (1).txt");
        assert_eq!(out("e/a.txt"), "e/a.txt");
        assert_eq!(out("d/a (2).txt"), "d/a (2).txt");
        assert_eq!(out("d/a.txt"), "d/a (3).txt");
        assert_eq!(out("d/a (2).txt"), "d/a (2) (1).txt");
        assert_eq!(out("d/a.txt"), "d/a (4).txt");
        let path = Path::new("d/a.txt");
        assert_eq!(names.next_free(path, 1), 5);
        // Who takes one leaves those before it to others.
        assert!(names.take(path, 6) && !names.take(path, 6) && !names.take(path, 2));
        assert_eq!((names.next_free(path, 1), names.next_free(path, 6)), (5, 7));
        assert_eq!(
            (out("d/a.txt"), out("d/A.TXT")),
            ("d/a (5).txt".to_owned(), "d/A (7).TXT".to_owned())
        );
    }
}
