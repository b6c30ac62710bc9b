//! The calling thread's place with the scheduler.

use crate::Right;
use std::fmt;
use std::io;
use std::time::Duration;

/// A scheduling policy and what it needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_OTHER`: everybody's.
    Other,
    /// `SCHED_FIFO` with a priority from 1 to 99: runs until it blocks or a higher one is ready.
    Fifo(u8),
    /// `SCHED_RR` with a priority from 1 to 99: the same, taking turns with its equals.
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

/// Why a thread did not get its policy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadPolicy {
    /// Real-time priorities go from 1 to 99.
    #[error("priority {0} is not one of 1 to 99")]
    Priority(u8),
    /// The thread may not have it.
    #[error("no right to {0}: {remedy}; a larger RLIMIT_RTPRIO (ulimit -r) does, too", remedy = Right::Schedule.remedy())]
    Permission(Policy),
    /// The kernel has another reason.
    #[error("can't get {0}: {1}")]
    Io(Policy, io::Error),
}

/// Gives the calling thread this policy.
///
/// # Errors
/// Why not.
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
    // SAFETY: an initialised structure; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, number, &parameters) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EPERM) => Err(BadPolicy::Permission(policy)),
        _ => Err(BadPolicy::Io(policy, error)),
    }
}

/// The calling thread's policy.
///
/// # Errors
/// What the kernel says.
pub fn policy() -> io::Result<Policy> {
    // SAFETY: 0 is the calling thread.
    let number = unsafe { libc::sched_getscheduler(0) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: fills in `parameters`.
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

/// Which of a process's memory is to stay in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// What it has now and what it will map: nothing of it will fault.
    All,
    /// What it has now.
    Present,
}

/// Keeps the process's memory from being paged out, from now on. The last call counts.
///
/// # Errors
/// `ENOMEM` or `EPERM` under a limit that is too small (`ulimit -l`) and without `CAP_IPC_LOCK`.
pub fn lock_memory(lock: Lock) -> io::Result<()> {
    let flags = match lock {
        Lock::All => libc::MCL_CURRENT | libc::MCL_FUTURE,
        Lock::Present => libc::MCL_CURRENT,
    };
    // SAFETY: no preconditions.
    let result = unsafe { libc::mlockall(flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Asks for turns of this length on a CPU, for the calling thread under `SCHED_OTHER`: the shorter they are, the sooner it runs when it
/// wakes up. Its share of the CPU stays the same. From Linux 6.12 on; kernels before that ignore it. The kernel makes it 0.1 ms at
/// least and 100 ms at most.
///
/// # Errors
/// The system call's error.
pub fn set_turn(length: Duration) -> io::Result<()> {
    let mut attributes = attributes()?;
    attributes.sched_runtime = length.as_nanos() as u64;
    // SAFETY: 0 is the calling thread; the kernel reads as many bytes as `sched_getattr` said in `size`.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the calling thread's scheduling.
fn attributes() -> io::Result<libc::sched_attr> {
    // SAFETY: integers, for which zero is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: 0 is the calling thread; the kernel writes `size` bytes at most.
    match unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) } {
        0 => Ok(attributes),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has the kernel end the calling thread's sleeps when they are over, not up to 50 us later to save power.
pub fn allow_prompt_sleep() {
    // SAFETY: a prctl on the calling thread; unused arguments are zero.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_as_long_as_asked_for_within_bounds_and_leaves_the_policy_as_it_is() {
        std::thread::spawn(|| {
            let lengths = [(10, 100_000), (300, 300_000), (1_000_000, 100_000_000)];
            for (micros, kept) in lengths {
                set_turn(Duration::from_micros(micros)).unwrap();
                assert_eq!(policy().unwrap(), Policy::Other);
                // Kernels before 6.12 tell 0.
                let told = attributes().unwrap().sched_runtime;
                assert!(told == kept || told == 0, "{micros} us: {told} ns");
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
