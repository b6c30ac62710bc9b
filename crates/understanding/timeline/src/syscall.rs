//! System calls: their names, those that are meant to wait, and the calls of `futex`.

use crate::kernel::Syscall;
use std::sync::Arc;

/// The architecture on which a trace was recorded, which defines the numbers of system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names say it")]
pub enum Arch {
    #[default]
    X86_64,
    Aarch64,
}

impl Arch {
    /// Returns the name of a system call.
    pub fn name(self, call: &Syscall<'_>) -> Arc<str> {
        match *call {
            Syscall::Name(name) => name.into(),
            Syscall::Number(number) => {
                self.known_name(call).map_or_else(|| format!("syscall {number}").into(), Arc::from)
            }
        }
    }

    /// Returns the name of a system call, if this architecture has its number.
    fn known_name<'a>(self, call: &Syscall<'a>) -> Option<&'a str> {
        let index = match *call {
            Syscall::Name(name) => return Some(name),
            Syscall::Number(number) => usize::try_from(number).ok()?,
        };
        match self {
            Self::X86_64 => syscalls::x86_64::Sysno::new(index).map(|call| call.name()),
            Self::Aarch64 => syscalls::aarch64::Sysno::new(index).map(|call| call.name()),
        }
    }

    /// Returns true if the call may change the priority of a thread, for which there is no event.
    pub fn sets_priorities(self, call: &Syscall<'_>) -> bool {
        const NAMES: [&str; 4] = ["sched_setattr", "sched_setparam", "sched_setscheduler", "setpriority"];
        self.known_name(call).is_some_and(|name| NAMES.contains(&name))
    }

    /// Returns the number of `futex`.
    fn futex(self) -> i64 {
        match self {
            Self::X86_64 => syscalls::x86_64::Sysno::futex as i64,
            Self::Aarch64 => syscalls::aarch64::Sysno::futex as i64,
        }
    }
}

/// A call of `futex`: its operation, and its word of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Futex {
    /// The operation of the call.
    pub operation: FutexOperation,
    /// The address of the word of memory, in the program.
    pub word: u64,
    /// For a waiter, the expected value of the word; for a waker, the number of threads to wake.
    pub value: Option<u64>,
}

/// The operation of a call of `futex`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutexOperation {
    /// The thread sleeps until it is woken.
    Wait,
    /// The thread wakes sleepers.
    Wake,
    /// The thread acquires a lock whose holder inherits the priority of its waiters.
    LockPi,
    /// The thread releases such a lock.
    UnlockPi,
}

impl Futex {
    /// Returns the call with its first three arguments, if it is a `futex` with one of these operations.
    pub fn of(arch: Arch, call: &Syscall<'_>, arguments: [Option<u64>; 3]) -> Option<Self> {
        /// The operation without the flags of `<linux/futex.h>`: for private memory, and for the clock of the day.
        const COMMAND: u64 = 0x7f;
        let is_futex = match *call {
            Syscall::Name(name) => name == "futex",
            Syscall::Number(number) => number == arch.futex(),
        };
        let ([Some(word), Some(operation), value], true) = (arguments, is_futex) else { return None };
        let operation = match operation & COMMAND {
            // FUTEX_WAIT, FUTEX_WAIT_BITSET
            0 | 9 => FutexOperation::Wait,
            // FUTEX_WAKE, FUTEX_WAKE_OP, FUTEX_WAKE_BITSET
            1 | 5 | 10 => FutexOperation::Wake,
            // FUTEX_LOCK_PI, FUTEX_LOCK_PI2
            6 | 13 => FutexOperation::LockPi,
            7 => FutexOperation::UnlockPi,
            _ => return None,
        };
        Some(Self { operation, word, value })
    }

    /// Returns true if this may be the wait for a lock that the other call passes to one of its waiters: the expected
    /// value is the one that glibc and Rust store in a lock with waiters.
    pub fn may_lock(&self, wake: &Self) -> bool {
        const CONTENDED: u64 = 2;
        self.value.is_none_or(|value| value == CONTENDED) && wake.value.is_none_or(|count| count == 1)
    }
}

/// Returns true if a thread makes this system call to sleep until something happens, or to read from a disk: other
/// threads, workers of the kernel among them, are expected to run then.
pub fn is_made_to_wait(syscall: &str) -> bool {
    const CALLS: &[&str] = &[
        "accept",
        "accept4",
        "clock_nanosleep",
        "epoll_pwait",
        "epoll_pwait2",
        "epoll_wait",
        "fdatasync",
        "fsync",
        "futex",
        "futex_wait",
        "futex_waitv",
        "io_getevents",
        "io_pgetevents",
        "io_uring_enter",
        "mq_timedreceive",
        "msgrcv",
        "msync",
        "nanosleep",
        "pause",
        "poll",
        "ppoll",
        "pselect6",
        "recvfrom",
        "recvmmsg",
        "recvmsg",
        "rt_sigsuspend",
        "rt_sigtimedwait",
        "sched_yield",
        "select",
        "semop",
        "semtimedop",
        "sync",
        "sync_file_range",
        "syncfs",
        "wait4",
        "waitid",
    ];
    CALLS.binary_search(&syscall).is_ok() || is_reading(syscall)
}

/// Returns true for calls that wait for a file's pages to read them.
pub fn is_reading(name: &str) -> bool {
    const READING: [&str; 9] =
        ["read", "pread64", "readv", "preadv", "preadv2", "sendfile", "splice", "execve", "execveat"];
    READING.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_calls_have_the_names_of_their_architecture() {
        let name = |arch: Arch, number| arch.name(&Syscall::Number(number)).to_string();
        assert_eq!(name(Arch::X86_64, 1), "write");
        assert_eq!(name(Arch::Aarch64, 64), "write");
        assert_eq!(name(Arch::X86_64, -1), "syscall -1");
        assert_eq!(name(Arch::X86_64, 1 << 40), "syscall 1099511627776");
        assert_eq!(&*Arch::X86_64.name(&Syscall::Name("read")), "read");
    }

    #[test]
    fn calls_made_to_wait_are_told_from_others() {
        for call in ["accept", "fsync", "futex", "msgrcv", "msync", "nanosleep", "read", "waitid"] {
            assert!(is_made_to_wait(call), "{call}");
        }
        for call in ["write", "mmap", "syscall 9"] {
            assert!(!is_made_to_wait(call), "{call}");
        }
    }
}
