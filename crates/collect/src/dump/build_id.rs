//! Build ids: which build of a file a process has mapped.

use object::read::{Object, ReadCache};
use std::collections::HashMap;
use std::fmt::Write;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

/// The build ids of the files that one dump tells of. Each is read once, and again by a later dump only if it has changed.
#[derive(Debug, Default)]
pub(super) struct BuildIds {
    known: HashMap<String, Known>,
    /// Of the dump before.
    before: HashMap<String, Known>,
}

#[derive(Debug)]
struct Known {
    version: Option<Version>,
    build_id: String,
}

/// A file at one time: its device, its inode, and when that changed.
type Version = (u64, u64, (i64, i64));

/// Of this process's last dump: the next is often no more than a chunk away.
static LAST: Mutex<Option<BuildIds>> = Mutex::new(None);

impl BuildIds {
    /// For a dump.
    pub(super) fn begin() -> Self {
        let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
        Self { known: HashMap::new(), before: last.known }
    }

    /// The dump is complete. What it does not tell of is forgotten.
    pub(super) fn end(self) {
        let last = Self { before: HashMap::new(), ..self };
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
    }

    /// The build id of the file at `path` in hexadecimal; empty if it has none or can't be read.
    pub(super) fn of(&mut self, path: &str) -> String {
        if let Some(known) = self.known.get(path) {
            return known.build_id.clone();
        }
        let version = fs::metadata(path).ok();
        let version = version.map(|file| (file.dev(), file.ino(), (file.ctime(), file.ctime_nsec())));
        let before = self.before.remove(path).filter(|before| before.version == version);
        let known = before.unwrap_or_else(|| Known { version, build_id: read(path).unwrap_or_default() });
        let build_id = known.build_id.clone();
        self.known.insert(path.to_owned(), known);
        build_id
    }
}

fn read(path: &str) -> Option<String> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    let mut text = String::new();
    for byte in file.build_id().ok()?? {
        let _ = write!(text, "{byte:02x}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_build_id_has_an_empty_one() {
        let mut build_ids = BuildIds::default();
        assert_eq!(build_ids.of("/etc/passwd"), "");
        assert_eq!(build_ids.of("/nowhere"), "");
    }

    #[test]
    fn a_file_that_has_changed_is_read_again() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("program");
        let name = path.to_str().unwrap();
        fs::write(&path, "none").unwrap();
        let mut first = BuildIds::default();
        assert_eq!(first.of(name), "");
        fs::copy("/proc/self/exe", &path).unwrap();
        let mut second = BuildIds { before: first.known, ..BuildIds::default() };
        let build_id = second.of(name);
        assert_eq!(build_id, read("/proc/self/exe").unwrap_or_default());
        // As if it had been read as something else: nobody reads it again.
        second.known.get_mut(name).unwrap().build_id = "known".to_owned();
        let mut third = BuildIds { before: second.known, ..BuildIds::default() };
        assert_eq!(third.of(name), "known");
    }

    #[test]
    fn the_c_library_has_a_build_id() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let libc = maps
            .lines()
            .filter_map(|line| line.split_whitespace().last())
            .find(|path| path.contains("libc.so"));
        let build_id = BuildIds::default().of(libc.expect("tests are linked with the C library"));
        assert_eq!(build_id.len(), 40, "{build_id}");
    }
}
