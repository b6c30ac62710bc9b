//! The pages of a program's rings and of the structures that lead to them, made present before its threads access them.

use sordino_proc::file::of_process;
use sordino_proc::maps::MappedRange;
use sordino_ring::area::map::{MemoryPart, populate, populate_apart};
use std::io;
use std::time::Duration;

/// Regions of a process's memory; those of its rings first.
#[derive(Debug)]
pub(super) struct MemoryRegions(pub(super) Vec<MemoryPart>);

impl MemoryRegions {
    /// Returns the time limit for a program that cooperates: a GiB takes 0.1 s.
    pub(super) fn patience(&self) -> Duration {
        let bytes = self.0.iter().fold(0u64, |sum, region| sum.saturating_add(region.length));
        Duration::from_secs(1 + (bytes >> 30))
    }

    /// Makes the regions present in process `pid`. Returns a note if that failed. The process can delay it for ever
    /// (userfaultfd, FUSE).
    pub(super) fn make_present(&self, pid: i32, is_trusted: bool) -> Option<String> {
        // A second attempt: the kernel may have been short of memory for a moment.
        let missing = match self.populate(pid, is_trusted) {
            Ok(1..) => self.populate(pid, is_trusted),
            result => result,
        };
        match missing {
            Ok(0) => None,
            // The process has ended or executed another program: nothing will write there.
            _ if self.0.iter().all(|region| !is_mapped(pid, region.address)) => None,
            Ok(missing) => {
                Some(format!("{missing} pages of its rings were not present: it may fault on them"))
            }
            Err(error) => {
                Some(format!("its rings could not be made present ({error}): it faults on each page once"))
            }
        }
    }

    /// Returns the number of pages that could not be read.
    fn populate(&self, pid: i32, is_trusted: bool) -> io::Result<u64> {
        let populate = if is_trusted { populate } else { populate_apart };
        populate(pid, self.0.iter().copied())
    }
}

/// Returns true if the process has a mapping at this address.
fn is_mapped(pid: i32, address: u64) -> bool {
    match of_process(pid, "maps") {
        Ok(maps) => maps.lines().filter_map(MappedRange::parse).any(|mapped| mapped.contains(address)),
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_is_found_until_the_process_ends() {
        let here = std::process::id() as i32;
        let local = 0u8;
        assert!(is_mapped(here, (&raw const local).addr() as u64));
        assert!(!is_mapped(here, 0) && !is_mapped(i32::MAX, 0x1000));
    }

    #[test]
    fn pages_that_cannot_be_read_are_counted() {
        let here = std::process::id() as i32;
        let local = 0u8;
        let region = MemoryPart { address: (&raw const local).addr() as u64, length: 1 };
        let null = MemoryPart { address: 0, ..region };
        for is_trusted in [true, false] {
            assert!(MemoryRegions(vec![region; 3]).populate(i32::MAX, is_trusted).is_err());
            assert_eq!(MemoryRegions(vec![region; 3]).populate(here, is_trusted).unwrap(), 0);
            assert_eq!(MemoryRegions(vec![null, region, region]).populate(here, is_trusted).unwrap(), 1);
        }
    }
}
