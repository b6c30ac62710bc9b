//! CPU affinity of the calling thread and of other threads.

use crate::CpuList;
use sordino_proc::stat::{START, Stat};
use std::fmt;
use std::io;
use std::str::FromStr;

/// Words of the affinity mask that is passed to the kernel: 65,536 CPUs.
const WORDS: usize = 1024;
const _: () = assert!(WORDS * 64 == 1 << 16);

/// Thread id that stands for the calling thread.
const SELF: i32 = 0;

/// Restricts the calling thread to these CPUs.
///
/// # Errors
/// `EINVAL` if none of them is online or permitted by the thread's cpuset.
pub fn set_affinity(cpus: &CpuList) -> io::Result<()> {
    set_affinity_of(SELF, cpus)
}

/// Returns the CPUs that the calling thread may run on.
///
/// # Errors
/// The kernel's error.
pub fn affinity() -> io::Result<CpuList> {
    affinity_of(SELF)
}

fn set_affinity_of(tid: i32, cpus: &CpuList) -> io::Result<()> {
    let mut set = [0u64; WORDS];
    for &cpu in cpus.as_slice() {
        if let Some(word) = set.get_mut(cpu as usize / 64) {
            *word |= 1 << (cpu % 64);
        }
    }
    // SAFETY: the kernel reads `size_of_val(&set)` bytes, which `set` has.
    let result = unsafe { libc::sched_setaffinity(tid, size_of_val(&set), set.as_ptr().cast()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn affinity_of(tid: i32) -> io::Result<CpuList> {
    let mut set = [0u64; WORDS];
    // SAFETY: the kernel writes at most `size_of_val(&set)` bytes, which `set` has.
    let result = unsafe { libc::sched_getaffinity(tid, size_of_val(&set), set.as_mut_ptr().cast()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let cpus = (0..).zip(set).flat_map(|(word, bits)| {
        (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| 64 * word + bit)
    });
    Ok(CpuList::new(cpus))
}

/// A thread of any process, distinguished from a later one with the same id.
///
/// ```
/// use sordino_sched::{ThreadIdentity, affinity};
/// let thread = ThreadIdentity::find(std::process::id() as i32)?;
/// assert_eq!(thread.affinity()?, affinity()?);
/// assert_eq!(thread.to_string().parse(), Ok(thread));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadIdentity {
    /// Id of the thread.
    pub tid: i32,
    /// Start time in clock ticks since boot: field 22 of `/proc/TID/stat`.
    pub started: u64,
}

impl ThreadIdentity {
    /// Finds the thread that has this id now.
    ///
    /// # Errors
    /// `NotFound` if there is none, or if it is exiting.
    pub fn find(tid: i32) -> io::Result<Self> {
        let text = sordino_proc::file::of_process(tid, "stat")?;
        let stat = Stat::parse(&text).ok_or(io::ErrorKind::InvalidData)?;
        if stat.is_ending() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Self { tid, started: stat.number(START).ok_or(io::ErrorKind::InvalidData)? })
    }

    /// Returns true if the thread has not exited.
    pub fn is_alive(&self) -> bool {
        Self::find(self.tid).is_ok_and(|found| found == *self)
    }

    /// Returns the CPUs that the thread may run on.
    ///
    /// # Errors
    /// `NotFound` if the thread has exited.
    pub fn affinity(&self) -> io::Result<CpuList> {
        self.alive()?;
        affinity_of(self.tid).map_err(gone)
    }

    /// Restricts the thread to these CPUs. If the thread exits in the few microseconds between check and system call,
    /// and its id is reused, the new thread is restricted instead.
    ///
    /// # Errors
    /// `NotFound` if the thread has exited; `EINVAL` if its cpuset permits none of the CPUs, or if the kernel has bound
    /// it to a CPU.
    pub fn set_affinity(&self, cpus: &CpuList) -> io::Result<()> {
        self.alive()?;
        set_affinity_of(self.tid, cpus).map_err(gone)
    }

    fn alive(&self) -> io::Result<()> {
        if self.is_alive() { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }
}

/// Converts `ESRCH`, the error for a thread that has exited, to `NotFound`.
fn gone(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(libc::ESRCH) { io::ErrorKind::NotFound.into() } else { error }
}

/// Prints the thread's id and start time: `TID@START`.
impl fmt::Display for ThreadIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.tid, self.started)
    }
}

/// The text is not a [`ThreadIdentity`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}': expected TID@START, for example 4711@1234")]
pub struct BadThread(String);

impl FromStr for ThreadIdentity {
    type Err = BadThread;
    fn from_str(text: &str) -> Result<Self, BadThread> {
        let bad = || BadThread(text.to_owned());
        let (tid, started) = text.split_once('@').ok_or_else(bad)?;
        let tid = tid.parse().ok().filter(|tid| *tid > 0).ok_or_else(bad)?;
        Ok(Self { tid, started: started.parse().map_err(|_| bad())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_thread_runs_on_its_cpus() {
        let last = *affinity().unwrap().as_slice().last().unwrap();
        std::thread::spawn(move || {
            let only = CpuList::new([last]);
            set_affinity(&only).unwrap();
            assert_eq!(affinity().unwrap(), only);
            assert!(set_affinity(&CpuList::new([60_000])).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn another_process_runs_on_its_cpus_until_it_ends() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let thread = ThreadIdentity::find(child.id() as i32).unwrap();
        let only = CpuList::new([*affinity().unwrap().as_slice().last().unwrap()]);
        thread.set_affinity(&only).unwrap();
        assert_eq!(thread.affinity().unwrap(), only);
        let later = ThreadIdentity { started: thread.started + 1, ..thread };
        assert_eq!(later.set_affinity(&only).unwrap_err().kind(), io::ErrorKind::NotFound);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!thread.is_alive());
        assert_eq!(thread.affinity().unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_thread_is_found_whatever_bytes_its_name_has() {
        std::thread::spawn(|| {
            std::fs::write("/proc/thread-self/comm", b"\xff) Z\xfe").unwrap();
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            assert_eq!(ThreadIdentity::find(tid).unwrap().affinity().unwrap(), affinity().unwrap());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_is_no_thread_is_refused() {
        for text in ["", "1", "@", "1@", "@1", "0@1", "-1@1", "1@-1", "1@2@3"] {
            assert_eq!(text.parse::<ThreadIdentity>(), Err(BadThread(text.to_owned())), "{text}");
        }
    }
}
