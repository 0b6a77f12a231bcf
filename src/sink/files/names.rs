//! Which names a batch has given to whom.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{self, Path, PathBuf};

use parking_lot::Mutex;

use super::super::name;
use super::publish::parent_of;

/// The paths that a batch has handed out: none goes to two of its jobs, on a file system that
/// takes upper and lower case for one either.
///
/// Sixteen bytes a path, of which only a hash is kept: two that share it by chance cost the second a number in its
/// name. The lock is never held during I/O, nor with another.
#[derive(Default)]
pub(super) struct Names(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    taken: HashMap<u64, u32>,
    /// Of jobs under way whose names their responses have told, by their indices.
    told: HashMap<u64, (PathBuf, u32)>,
}

impl Names {
    /// The next number with which this path is free, as far as this batch goes.
    pub(super) fn hand_out(&self, path: &Path) -> u32 {
        self.0.lock().hand_out(path)
    }

    /// Nobody gets this one, if it is in the directory.
    pub(super) fn spare(&self, path: &Path, directory: &Path) {
        let known = |path: &Path| match path.canonicalize() {
            Ok(path) => path,
            // Not there yet.
            Err(_) => path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        };
        let parent = known(parent_of(path));
        let within = parent.strip_prefix(known(directory)).ok();
        if let Some((within, name)) = within.zip(path.file_name()) {
            self.hand_out(&directory.join(within).join(name));
        }
    }

    /// The same, but a job that comes again, in another attempt, has its own again.
    pub(super) fn for_job(&self, index: u64, path: &Path) -> u32 {
        let mut inner = self.0.lock();
        if let Some((_, number)) = inner.told.get(&index).filter(|(told, _)| told == path) {
            return *number;
        }
        let number = inner.hand_out(path);
        inner.told.insert(index, (path.to_owned(), number));
        number
    }

    /// The job does not come again.
    pub(super) fn forget_job(&self, index: u64) {
        self.0.lock().told.remove(&index);
    }
}

impl Inner {
    fn hand_out(&mut self, path: &Path) -> u32 {
        let taken = &mut self.taken;
        let mut number = taken.get(&key(path, 0)).copied().unwrap_or(0);
        while number > 0 && taken.contains_key(&key(path, number)) {
            number += 1;
        }
        // Of the path itself: the next to try. Of one with a number: that it is taken.
        taken.entry(key(path, number)).or_insert(1);
        if number > 0 {
            taken.insert(key(path, 0), number + 1);
        }
        number
    }
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
    fn no_path_goes_to_two() {
        let names = Names::default();
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
    }
}
