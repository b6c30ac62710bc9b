//! The files that one process has mapped executable, for names of its functions.

use super::process::{self, CodeMapping};
use super::walk::build_id_of;
use std::fmt;
use std::sync::Mutex;

/// The maximum number of files in a trace's environment. Programs have some dozens.
const FILES_MAX: usize = 256;

/// A file that a process has mapped executable, as a trace's environment has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutableMapping {
    /// The first address, and the one after the last.
    pub addresses: (u64, u64),
    /// The offset of the mapped part in the file, in bytes.
    pub offset: u64,
    /// The file's build id in hexadecimal; empty if it has none or it could not be read.
    pub build_id: String,
    /// The path of the file.
    pub path: String,
}

/// Prints `55e4a000-55e4b000 1000 1f2e3d /usr/bin/motor`: numbers are hexadecimal, `-` stands for no build id.
impl fmt::Display for ExecutableMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end) = self.addresses;
        let build_id = if self.build_id.is_empty() { "-" } else { &self.build_id };
        write!(f, "{start:x}-{end:x} {:x} {build_id} {}", self.offset, self.path)
    }
}

/// Returns the files that a process has mapped executable, of many the first. Its memory and its files may keep the
/// caller waiting, as a hostile process wishes.
pub fn mapped_files(pid: i32) -> Vec<ExecutableMapping> {
    let filesystems = Mutex::default();
    let (mappings, _) = process::mappings(pid);
    let file = |CodeMapping { mapped, offset, .. }: CodeMapping| ExecutableMapping {
        addresses: mapped.range,
        offset,
        build_id: build_id_of(&mapped, &filesystems).map(|(build_id, _)| build_id).unwrap_or_default(),
        path: mapped.path,
    };
    mappings.into_iter().take(FILES_MAX).map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_among_the_files_that_it_has_mapped() {
        let files = mapped_files(std::process::id().cast_signed());
        let program = std::env::current_exe().unwrap();
        let here = this_program_is_among_the_files_that_it_has_mapped as fn() as usize as u64;
        let file = files.iter().find(|file| (file.addresses.0..file.addresses.1).contains(&here)).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.starts_with(&format!("{:x}-", file.addresses.0))).unwrap();
        assert_eq!(line.split(' ').nth(2), Some(&*format!("{:08x}", file.offset)));
        assert_eq!(file.path, program.to_str().unwrap());
        assert!(file.build_id.len() >= 16, "{file}");
        let (start, end) = file.addresses;
        assert_eq!(
            file.to_string(),
            format!("{start:x}-{end:x} {:x} {} {}", file.offset, file.build_id, file.path)
        );
    }
}
