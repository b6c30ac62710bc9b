//! The exit status of traced programs.

use crate::options::ProgramEnd;
use sordino_collect::program::Traced;
use sordino_proc::file::of_process;
use sordino_proc::stat::Stat;
use std::fmt;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// The exit status of a process, if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(Option<ExitStatus>);

/// Returns the exit status of a program that has ended. It is in `/proc` while its parent has not waited for it;
/// afterwards, Linux 6.15 or later returns it for a pidfd.
pub(crate) fn exit_of(program: &Traced) -> Exit {
    let pid = program.trace.pid;
    let of_zombie = || zombie(&of_process(pid, "stat").ok()?);
    let reaped = || sordino_sched::exit_status(program.pidfd.as_fd());
    // The parent may wait for it between the first two reads.
    Exit(of_zombie().or_else(reaped).or_else(of_zombie).map(ExitStatus::from_raw))
}

/// Returns the exit status of a zombie, the last field of its `stat`: proc(5).
fn zombie(stat: &str) -> Option<i32> {
    let stat = Stat::parse(stat)?;
    stat.is_zombie().then(|| stat.number(52))?
}

impl Exit {
    /// Returns true if the program ended in this way, as far as that is known.
    pub(crate) fn is(self, end: ProgramEnd) -> bool {
        /// Signals whose default action is to dump core: signal(7).
        const CORE: [i32; 10] = [3, 4, 5, 6, 7, 8, 11, 24, 25, 31];
        let signal = self.0.and_then(|status| status.signal());
        match end {
            ProgramEnd::Any => true,
            ProgramEnd::Failure => self.0.is_some_and(|status| !status.success()),
            ProgramEnd::Crash => signal.is_some_and(|signal| CORE.contains(&signal)),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.map(|status| (status.code(), status.signal())) {
            Some((Some(code), _)) => write!(f, "exited with status {code}"),
            Some((_, Some(signal))) => write!(f, "was ended by signal {signal}"),
            _ => f.write_str("ended"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zombie_has_its_status() {
        let line = |state: &str, status: i32| {
            let fields = (4..52).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
            format!("12 (a) b) {state} {fields} {status}\n")
        };
        assert_eq!(zombie(&line("Z", 256)), Some(256));
        assert_eq!(zombie(&line("S", 256)), None);
        assert_eq!(zombie("nonsense"), None);
    }

    #[test]
    fn ends_are_distinguished() {
        let exit = |status| Exit(Some(ExitStatus::from_raw(status)));
        assert!(exit(11).is(ProgramEnd::Crash) && exit(11).is(ProgramEnd::Failure));
        assert!(!exit(15).is(ProgramEnd::Crash) && exit(15).is(ProgramEnd::Failure));
        assert!(!exit(0).is(ProgramEnd::Failure) && exit(0).is(ProgramEnd::Any));
        assert!(Exit(None).is(ProgramEnd::Any) && !Exit(None).is(ProgramEnd::Failure));
        assert_eq!(exit(3 << 8).to_string(), "exited with status 3");
        assert_eq!(exit(6).to_string(), "was ended by signal 6");
    }
}
