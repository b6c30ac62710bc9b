//! Scheduling of the calling thread.

use crate::Right;
use std::fmt;
use std::io;
use std::time::Duration;

/// A scheduling policy with its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_OTHER`, the default of all threads.
    Other,
    /// `SCHED_FIFO` with a priority from 1 to 99: runs until it blocks or a thread of higher priority is ready.
    Fifo(u8),
    /// `SCHED_RR` with a priority from 1 to 99: like `SCHED_FIFO`, but alternating with threads of the same priority.
    RoundRobin(u8),
    /// Another policy, by the kernel's number.
    Unknown(i32),
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other => f.write_str("SCHED_OTHER"),
            Self::Fifo(priority) => write!(f, "SCHED_FIFO {priority}"),
            Self::RoundRobin(priority) => write!(f, "SCHED_RR {priority}"),
            Self::Unknown(number) => write!(f, "policy {number}"),
        }
    }
}

/// Reason why a policy was not set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadPolicy {
    /// The priority is not from 1 to 99.
    #[error("priority {0} is not one of 1 to 99")]
    Priority(u8),
    /// The thread has no right to the policy.
    #[error("no right to {0}: {remedy}; a larger RLIMIT_RTPRIO (ulimit -r) does, too", remedy = Right::Schedule.remedy())]
    Permission(Policy),
    /// The kernel returned another error.
    #[error("can't get {0}: {1}")]
    Io(Policy, io::Error),
}

/// Sets the calling thread's policy.
///
/// # Errors
/// Returns an error if the priority is invalid, the right is missing or the kernel refuses.
pub fn set_policy(policy: Policy) -> Result<(), BadPolicy> {
    let (number, priority) = match policy {
        Policy::Other => (libc::SCHED_OTHER, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO, priority),
        Policy::RoundRobin(priority) => (libc::SCHED_RR, priority),
        Policy::Unknown(number) => (number, 0),
    };
    if number != libc::SCHED_OTHER && !(1..=99).contains(&priority) {
        return Err(BadPolicy::Priority(priority));
    }
    let parameters = libc::sched_param { sched_priority: priority.into() };
    // SAFETY: the kernel reads `parameters`, which is initialised; 0 stands for the calling thread.
    if unsafe { libc::sched_setscheduler(0, number, &parameters) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EPERM) => Err(BadPolicy::Permission(policy)),
        _ => Err(BadPolicy::Io(policy, error)),
    }
}

/// Returns the calling thread's policy.
///
/// # Errors
/// The kernel's error.
pub fn policy() -> io::Result<Policy> {
    // SAFETY: the call takes no pointers; 0 stands for the calling thread.
    let number = unsafe { libc::sched_getscheduler(0) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel writes to `parameters`, which is valid for writes; 0 stands for the calling thread.
    if unsafe { libc::sched_getparam(0, &mut parameters) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let priority = parameters.sched_priority as u8;
    Ok(match number & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_OTHER => Policy::Other,
        libc::SCHED_FIFO => Policy::Fifo(priority),
        libc::SCHED_RR => Policy::RoundRobin(priority),
        other => Policy::Unknown(other),
    })
}

/// Part of a process's memory to lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLock {
    /// All present and future mappings: none of them will fault.
    All,
    /// All present mappings only.
    Present,
}

/// Locks the process's memory, so that it is not paged out. Each call replaces the one before it.
///
/// # Errors
/// `ENOMEM` or `EPERM` if the limit is too small (`ulimit -l`) and `CAP_IPC_LOCK` is missing.
pub fn lock_memory(lock: MemoryLock) -> io::Result<()> {
    let flags = match lock {
        MemoryLock::All => libc::MCL_CURRENT | libc::MCL_FUTURE,
        MemoryLock::Present => libc::MCL_CURRENT,
    };
    // SAFETY: mlockall takes no pointers and only affects paging.
    let result = unsafe { libc::mlockall(flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Requests time slices of this length for the calling thread under `SCHED_OTHER`: the shorter they are, the sooner it
/// runs after waking. Its share of the CPU stays the same. Linux 6.12 and later honour it, with a minimum of 0.1 ms and
/// a maximum of 100 ms; kernels before that ignore it.
///
/// # Errors
/// The system call's error.
pub fn set_turn(length: Duration) -> io::Result<()> {
    let mut attributes = attributes()?;
    attributes.sched_runtime = length.as_nanos() as u64;
    // SAFETY: 0 stands for the calling thread; the kernel reads `attributes.size` bytes, which sched_getattr set to at
    // most the size of `attributes`.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the calling thread's scheduling attributes.
fn attributes() -> io::Result<libc::sched_attr> {
    // SAFETY: all fields are integers, for which zero is valid.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: 0 stands for the calling thread; the kernel writes at most `size` bytes, which `attributes` has.
    match unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) } {
        0 => Ok(attributes),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the kernel end the calling thread's sleeps on time, instead of up to 50 us later to save power.
pub fn allow_prompt_sleep() {
    // SAFETY: the prctl affects the calling thread alone and takes no pointers; unused arguments are zero.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_as_long_as_requested_within_bounds_and_leaves_the_policy_as_it_is() {
        std::thread::spawn(|| {
            let lengths = [(10, 100_000), (300, 300_000), (1_000_000, 100_000_000)];
            for (micros, kept) in lengths {
                set_turn(Duration::from_micros(micros)).unwrap();
                assert_eq!(policy().unwrap(), Policy::Other);
                // Kernels before 6.12 report 0.
                let reported = attributes().unwrap().sched_runtime;
                assert!(reported == kept || reported == 0, "{micros} us: {reported} ns");
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_policy_is_read_back_or_refused_with_the_remedy() {
        std::thread::spawn(|| {
            assert_eq!(policy().unwrap(), Policy::Other);
            match set_policy(Policy::Fifo(7)) {
                Ok(()) => assert_eq!(policy().unwrap(), Policy::Fifo(7)),
                Err(error) => assert!(error.to_string().contains("CAP_SYS_NICE")),
            }
            for priority in [0, 100] {
                assert!(matches!(set_policy(Policy::Fifo(priority)), Err(BadPolicy::Priority(_))));
            }
        })
        .join()
        .unwrap();
    }
}
