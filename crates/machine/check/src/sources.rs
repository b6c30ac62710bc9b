//! Access to the kernel's files, some of which may be missing.

use sordino_proc::machine::CpuInfo;
use std::fs;
use std::path::PathBuf;

/// Directory that contains `proc`, `sys` and `etc`: `/`, or a test's tree.
#[derive(Clone, Debug)]
pub struct Sources {
    root: PathBuf,
}

impl Sources {
    /// Uses the files below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns a file's content without surrounding white space; `None` if it cannot be read for any reason.
    pub fn text(&self, path: &str) -> Option<String> {
        let bytes = fs::read(self.root.join(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Returns the CPUs' entries in `/proc/cpuinfo`; none if it cannot be read.
    pub fn cpuinfo(&self) -> CpuInfo {
        CpuInfo::from_text(self.text("proc/cpuinfo").unwrap_or_default())
    }

    /// Returns the names in a directory that start with `prefix`, ordered by their trailing number if they have one.
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
