//! Files are whole or not there.

mod archive;
mod copies;
mod disk;
mod journal;
mod killed;
mod on_exist;
mod parts;
mod place;
mod save;
mod segments;

use std::fs;
use std::path::PathBuf;

/// A directory that is removed with this.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fetchpool-{name}-{}", std::process::id()));
        // Left by an earlier process of the same number.
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    /// The names of what is in it, hidden ones too, in order.
    fn files(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.0) else {
            return vec![];
        };
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.join(name)).unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
