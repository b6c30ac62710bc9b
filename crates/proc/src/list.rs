//! The processes that `/proc` shows, and their threads.

use rustix::fs::{Mode, OFlags, RawDir};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::{fs, io};

/// Returns all processes that `/proc` shows; none if it can't be read.
pub fn pids() -> impl Iterator<Item = i32> {
    PidWalk::begin().into_iter().flat_map(|mut walk| std::iter::from_fn(move || walk.next_few()).flatten())
}

/// A list of the processes that `/proc` shows, read a few at a time: a thousand take the kernel a millisecond.
#[derive(Debug)]
pub struct PidWalk(OwnedFd);

impl PidWalk {
    /// Begins a walk through all processes.
    ///
    /// # Errors
    /// The kernel's error, if `/proc` can't be read.
    pub fn begin() -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open("/proc", flags, Mode::empty())?))
    }

    /// Returns the next processes in ascending order, some twenty; `None` behind the last one.
    pub fn next_few(&mut self) -> Option<Vec<i32>> {
        let mut buffer = [MaybeUninit::uninit(); 512];
        let mut entries = RawDir::new(&self.0, &mut buffer);
        let mut pids = Vec::new();
        loop {
            let entry = entries.next()?.ok()?;
            // The first entries are files of the system, which have no number.
            pids.extend(entry.file_name().to_str().ok().and_then(|name| name.parse::<i32>().ok()));
            if entries.is_buffer_empty() {
                return Some(pids);
            }
        }
    }
}

/// Returns the threads of a process; none if it is gone. The list is read at once: a recorder may have few descriptors,
/// and needs others for what it reads of each thread.
pub fn tids(pid: i32) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let tids: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    tids.into_iter()
}

/// Returns the links of `/proc` to the files that a thread of a process has open.
///
/// # Errors
/// The kernel's error: `PermissionDenied` if the caller may not trace the process.
pub fn descriptors(pid: i32, tid: i32) -> io::Result<impl Iterator<Item = PathBuf>> {
    Ok(fs::read_dir(format!("/proc/{pid}/task/{tid}/fd"))?.flatten().map(|entry| entry.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_its_threads_are_listed() {
        let pid = std::process::id() as i32;
        assert!(pids().any(|other| other == pid));
        let listed = || tids(pid).any(|tid| tid == rustix::thread::gettid().as_raw_nonzero().get());
        assert!(std::thread::scope(|scope| scope.spawn(listed).join().unwrap()));
        assert!(tids(pid).any(|tid| tid == pid));
        assert_eq!(tids(i32::MAX).count(), 0);
        assert!(descriptors(pid, pid).unwrap().any(|link| link.ends_with("fd/0")));
        assert_eq!(descriptors(i32::MAX, 1).err().unwrap().kind(), io::ErrorKind::NotFound);
    }
}
