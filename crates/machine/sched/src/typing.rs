//! The filter that keeps a command of another user from typing into a terminal that it shares with its starter's shell.

use crate::forbid_typing;
use rustix::fs::{Dev, fstat, major, minor};
use rustix::stdio::{stderr, stdin, stdout};
use rustix::termios::isatty;
use sordino_proc::stat::Stat;
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;

/// The setting that is `0` if `TIOCSTI` needs `CAP_SYS_ADMIN`. It does not exist before Linux 6.2, where no right is
/// needed.
const LEGACY: &str = "/proc/sys/dev/tty/legacy_tiocsti";

/// Forbids this process, and programs that it executes, to insert characters into the input of a terminal that it
/// shares: its starter's shell would run them as commands. Changes nothing where no terminal could be typed into.
///
/// # Errors
/// If it can't be forbidden; the text has the remedy.
pub fn forbid_typing_where_shared() -> io::Result<()> {
    if !is_needed(&terminals(), fs::read_to_string(LEGACY).ok().as_deref()) {
        return Ok(());
    }
    forbid_typing().map_err(|error| {
        io::Error::new(
            error.kind(),
            format!(
                "the command could type into this terminal (ioctl TIOCSTI), and that cannot be filtered: {error}; \
                 record it in a session, which has no terminal ('sordino start'), or, since Linux 6.2: sysctl dev.tty.legacy_tiocsti=0"
            ),
        )
    })
}

/// Returns the terminals of this process: the controlling one, and those that are its standard files. One that can't be
/// determined counts as a terminal.
fn terminals() -> Vec<Dev> {
    let controlling = sordino_proc::file::text("/proc/self/stat").ok();
    let controlling = controlling.as_deref().map_or(Some(Dev::MAX), controlling_terminal);
    let files: [BorrowedFd<'_>; 3] = [stdin(), stdout(), stderr()];
    let open = files.into_iter().filter(|file| isatty(file)).filter_map(|file| fstat(file).ok());
    open.map(|found| found.st_rdev).chain(controlling).collect()
}

/// Returns the device of the controlling terminal from the text of `/proc/PID/stat`; `None` if there is none.
fn controlling_terminal(stat: &str) -> Option<Dev> {
    let device: i32 = Stat::parse(stat)?.number(7)?;
    (device != 0).then_some(Dev::from(device.cast_unsigned()))
}

/// Returns true if a process with these terminals could type into one. On a virtual console `TIOCLINUX` can, whatever
/// the setting.
fn is_needed(terminals: &[Dev], legacy: Option<&str>) -> bool {
    let is_console = |device: &Dev| match (major(*device), minor(*device)) {
        (4, number) => number < 64,
        other => other == (5, 1),
    };
    let is_legacy = legacy.is_none_or(|setting| setting.trim() != "0");
    terminals.iter().any(|device| is_legacy || is_console(device))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::makedev;

    #[test]
    fn the_controlling_terminal_is_behind_any_name() {
        let stat = "7 (a) 0 0 (\n1) S 1 7 7 34817 7 4194304 1";
        assert_eq!(controlling_terminal(stat), Some(makedev(136, 1)));
        assert_eq!(controlling_terminal("7 (sh) S 1 7 7 0 -1 4194304 1"), None);
        assert_eq!(controlling_terminal("nonsense"), None);
    }

    #[test]
    fn the_filter_is_needed_where_somebody_could_type() {
        let (pty, serial, virtual_console) = (makedev(136, 1), makedev(4, 64), makedev(4, 1));
        for legacy in [Some("1\n"), None] {
            assert!(is_needed(&[pty], legacy) && is_needed(&[serial], legacy));
            assert!(!is_needed(&[], legacy));
        }
        assert!(!is_needed(&[pty, serial], Some("0\n")));
        assert!(is_needed(&[pty, virtual_console], Some("0\n")) && is_needed(&[makedev(5, 1)], Some("0\n")));
    }
}
