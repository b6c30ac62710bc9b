//! Exit status of a process that no longer exists.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Returns the exit status as a shell has it: the command's own, or 128 and the number of the signal that ended it.
pub fn shell_status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128 + signal as u8,
        // A process that has only stopped, for which nobody waits.
        (None, None) => 2,
    }
}

/// `struct pidfd_info` of `linux/pidfd.h` in its first version.
#[derive(Default)]
#[repr(C)]
struct Info {
    mask: u64,
    cgroup: u64,
    /// Process, thread group, parent, user and group ids.
    ids: [u32; 11],
    exit_code: i32,
}

/// `PIDFD_INFO_EXIT`: requests the exit code.
const EXIT: u64 = 1 << 3;
/// `PIDFD_GET_INFO`: the request number of `_IOWR(0xff, 11, struct pidfd_info)`.
const GET_INFO: libc::c_ulong = 3 << 30 | (size_of::<Info>() as libc::c_ulong) << 16 | 0xff << 8 | 11;

/// Returns the wait status, as in wait(2), of the process of `pidfd` once its parent has waited for it; `None` before
/// that, and before Linux 6.15.
///
/// ```
/// use std::os::fd::AsFd;
/// use rustix::process::{Pid, PidfdFlags, pidfd_open};
/// let itself = pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
/// assert_eq!(sordino_sched::exit_status(itself.as_fd()), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn exit_status(pidfd: BorrowedFd<'_>) -> Option<i32> {
    let mut info = Info { mask: EXIT, ..Info::default() };
    // SAFETY: the request number contains the size of `info`, and the kernel writes no more than that.
    let result = unsafe { libc::ioctl(pidfd.as_raw_fd(), GET_INFO as _, &raw mut info) };
    (result == 0 && info.mask & EXIT != 0).then_some(info.exit_code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use sordino_proc::machine::{kernel_release, version};
    use std::os::fd::AsFd;
    use std::process::Command;

    #[test]
    fn a_process_that_was_waited_for_still_has_its_status() {
        let mut child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        child.wait().unwrap();
        let is_new = version(&kernel_release()) >= Some((6, 15));
        let expected = is_new.then_some(3 << 8);
        assert_eq!(exit_status(pidfd.as_fd()), expected);
    }
}
