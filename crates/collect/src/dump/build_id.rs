//! Build ids: which build of a file a process has mapped.

use object::read::{Object, ReadCache};
use std::collections::HashMap;
use std::fmt::Write;
use std::fs::File;

/// The build ids of files, each read once.
#[derive(Debug, Default)]
pub(super) struct BuildIds(HashMap<String, String>);

impl BuildIds {
    /// The build id of the file at `path` in hexadecimal; empty if it has none or can't be read.
    pub(super) fn of(&mut self, path: &str) -> String {
        if let Some(known) = self.0.get(path) {
            return known.clone();
        }
        let build_id = read(path).unwrap_or_default();
        self.0.insert(path.to_owned(), build_id.clone());
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
    fn the_c_library_has_a_build_id() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc = maps
            .lines()
            .filter_map(|line| line.split_whitespace().last())
            .find(|path| path.contains("libc.so"));
        let build_id = BuildIds::default().of(libc.expect("tests are linked with the C library"));
        assert_eq!(build_id.len(), 40, "{build_id}");
    }
}
