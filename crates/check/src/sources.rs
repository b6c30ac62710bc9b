//! The kernel's files, as far as they are there.

use std::fs;
use std::path::PathBuf;

/// Where `proc`, `sys` and `etc` are: `/`, or a tree that a test made.
#[derive(Clone, Debug)]
pub struct Sources {
    root: PathBuf,
}

impl Sources {
    /// Below this directory.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// What a file holds, without the white space around it; `None` if it can't be read, for whatever reason.
    pub fn text(&self, path: &str) -> Option<String> {
        let bytes = fs::read(self.root.join(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// The names in a directory that start so, by number where they end with one.
    pub fn names(&self, directory: &str, prefix: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(directory)).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
        names.sort_by_key(|name| {
            (name.strip_prefix(prefix).and_then(|rest| rest.parse::<u32>().ok()), name.clone())
        });
        names
    }
}
