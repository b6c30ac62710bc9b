//! The kernel's files below a directory, some of which may be missing.

use crate::file;
use crate::machine::CpuInfo;
use std::fs;
use std::path::PathBuf;

/// Directory that contains `proc`, `sys` and `etc`: `/`, or a test's tree.
///
/// ```
/// use sordino_proc::SystemFiles;
/// let files = SystemFiles::new("/");
/// assert_eq!(files.text("proc/sys/kernel/ostype").as_deref(), Some("Linux"));
/// assert_eq!(files.at_most(3).text("proc/sys/kernel/ostype").as_deref(), Some("Lin"));
/// ```
#[derive(Clone, Debug)]
pub struct SystemFiles {
    root: PathBuf,
    /// Maximum number of bytes that are read of a file.
    limit: u64,
}

impl SystemFiles {
    /// Uses the files below `root`, which are read whole.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), limit: u64::MAX }
    }

    /// Reads at most the first `limit` bytes of a file.
    #[must_use]
    pub fn at_most(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    /// Returns a file's content without surrounding white space; `None` if it cannot be read for any reason.
    pub fn text(&self, path: &str) -> Option<String> {
        let bytes = file::bytes_at_most(self.root.join(path), self.limit).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Returns the CPUs' entries in `/proc/cpuinfo`; none if it cannot be read.
    pub fn cpuinfo(&self) -> CpuInfo {
        CpuInfo::from_text(self.text("proc/cpuinfo").unwrap_or_default())
    }

    /// Returns the numbers of a directory's entries whose names are `prefix` and a number, in ascending order.
    pub fn numbered(&self, directory: &str, prefix: &str) -> Vec<u32> {
        let entries = fs::read_dir(self.root.join(directory)).into_iter().flatten().flatten();
        let number = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok();
        let mut numbers: Vec<u32> = entries.filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }
}
