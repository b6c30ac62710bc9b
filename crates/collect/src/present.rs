//! The pages of a program's rings: present before its threads write there.

use crate::proc;
use sordino_ring::map::populate;
use std::io;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Makes the pages of a region present in the program. It may have arranged that this takes for ever (userfaultfd, FUSE): then a
/// thread waits there until one of us ends.
pub(crate) fn make_present(pid: i32, (address, length): (u64, u64)) -> io::Result<u64> {
    let (done, is_done) = channel();
    let thread = std::thread::Builder::new().name("sordino-present".to_owned());
    thread.spawn(move || _ = done.send(populate(pid, address, length)))?;
    // 1.4 us for a page are 0.4 s for a GiB.
    let patience = Duration::from_secs(1 + (length >> 30));
    is_done.recv_timeout(patience).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Whether a process has something at this address.
pub(crate) fn is_mapped(pid: i32, address: u64) -> bool {
    let maps = match proc::bytes(&format!("/proc/{pid}/maps")) {
        Ok(maps) => String::from_utf8_lossy(&maps).into_owned(),
        Err(error) => return error.kind() == io::ErrorKind::PermissionDenied,
    };
    let has = |line: &str| {
        let (start, end) = line.split_whitespace().next()?.split_once('-')?;
        let [start, end] = [start, end].map(|bound| u64::from_str_radix(bound, 16).ok());
        Some((start?..end?).contains(&address))
    };
    maps.lines().any(|line| has(line) == Some(true))
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
}
