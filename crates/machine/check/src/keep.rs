//! The keeper: a process between a check and a program that it runs, which ends the program in any case.

use crate::Error;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, kill_process, kill_process_group, pidfd_open,
    set_child_subreaper, set_parent_process_death_signal, waitpid,
};
use sordino_dirfd::Dir;
use sordino_proc::stat::Stat;
use sordino_registration::environment::{RESERVE, UNRECORDED};
use sordino_sched::{CpuList, set_affinity, shell_status};
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// A command that is ended with all processes that it started, on request or when its parent is gone.
#[derive(Clone, Debug)]
pub struct Keeper {
    /// Process whose end also ends the command.
    pub parent: i32,
    /// CPUs on which the command runs, outside of a shield.
    pub cpus: Option<CpuList>,
    /// True if the command is started again each time that it ends with status 0.
    pub repeat: bool,
    /// Time that the command may take to end after a SIGINT.
    pub patience: Duration,
    /// Directories to remove if the parent is gone.
    pub scratch: Vec<PathBuf>,
    /// The command and its arguments.
    pub command: Vec<OsString>,
}

/// Runs the command until it ends, `stop` becomes readable or the parent is gone. Returns the exit status as a shell
/// has it.
///
/// # Errors
/// If the parent has ended, or the command can't be started.
pub fn keep(keeper: &Keeper, stop: BorrowedFd<'_>) -> Result<u8, Error> {
    let parent = Pid::from_raw(keeper.parent);
    let alive = parent.and_then(|parent| pidfd_open(parent, PidfdFlags::empty()).ok());
    let Some(alive) = alive.filter(|_| getppid() == parent) else {
        return Err(Error::Unusable(ENDED.to_owned()));
    };
    // Processes that the command leaves behind become children of this one, and are found.
    set_child_subreaper(Some(getpid()))?;
    if let Some(cpus) = &keeper.cpus {
        if let Some(up) = sordino_shield::current() {
            // It fails if this process is not inside the shield.
            let _ = up.send_out(std::process::id());
        }
        set_affinity(cpus)?;
    }
    loop {
        let mut child = start(keeper)?;
        let ended = wait(&mut child, stop, &alive, keeper.patience)?;
        end_group(&child);
        end_children()?;
        match ended {
            Ended::ByItself(status) if status.success() && keeper.repeat => {}
            Ended::ByItself(status) => return Ok(shell_status(status)),
            Ended::ByUs => return Ok(0),
            Ended::Orphaned => {
                for scratch in &keeper.scratch {
                    let _ = Dir::remove(scratch);
                }
                return Ok(0);
            }
        }
    }
}

const ENDED: &str = "the check has ended";

/// Starts the command in a process group of its own, which a shell's Ctrl-C does not reach.
fn start(keeper: &Keeper) -> Result<Child, Error> {
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["keep", "--bound", "--parent", &std::process::id().to_string(), "--"])
        .args(&keeper.command);
    Ok(command.process_group(0).spawn()?)
}

/// Has the kernel end this process with its parent, and replaces it by a command. Returns only if that fails, with the
/// reason.
pub fn become_bound(parent: i32, command: &[OsString]) -> Error {
    execute(Pid::from_raw(parent), command).err().unwrap_or_else(|| Error::Unusable(ENDED.to_owned()))
}

fn execute(parent: Option<Pid>, command: &[OsString]) -> Result<Infallible, Error> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before that.
    if getppid() != parent {
        return Err(Error::Unusable(ENDED.to_owned()));
    }
    let (program, arguments) =
        command.split_first().ok_or_else(|| Error::Unusable("no command".to_owned()))?;
    let source = Command::new(program).args(arguments).exec();
    Err(Error::Start { program: program.into(), source })
}

enum Ended {
    ByItself(ExitStatus),
    /// The keeper ended it on request.
    ByUs,
    /// The check has ended.
    Orphaned,
}

/// Waits until the command has ended by itself, or ends it.
fn wait(
    child: &mut Child,
    stop: BorrowedFd<'_>,
    alive: &OwnedFd,
    patience: Duration,
) -> Result<Ended, Error> {
    let pid = Pid::from_child(child);
    let own = pidfd_open(pid, PidfdFlags::empty())?;
    let mut ready = [
        PollFd::new(&own, PollFlags::IN),
        PollFd::new(&stop, PollFlags::IN),
        PollFd::new(alive, PollFlags::IN),
    ];
    // A signal interrupts it, and is then readable.
    while matches!(poll(&mut ready, None), Err(Errno::INTR)) {}
    let mut is_orphaned = !ready[2].revents().is_empty();
    if !ready[0].revents().is_empty() {
        return Ok(Ended::ByItself(child.wait()?));
    }
    let end = Instant::now() + patience;
    if !patience.is_zero() && !is_orphaned {
        let _ = kill_process_group(pid, Signal::INT);
        while child.try_wait()?.is_none() && Instant::now() < end {
            let mut ready = [PollFd::new(&own, PollFlags::IN), PollFd::new(alive, PollFlags::IN)];
            let _ = poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 50_000_000 }));
            if !ready[1].revents().is_empty() {
                is_orphaned = true;
                break;
            }
        }
    }
    let _ = kill_process_group(pid, Signal::KILL);
    child.wait()?;
    Ok(if is_orphaned { Ended::Orphaned } else { Ended::ByUs })
}

/// Kills the remaining processes of the command's group. Its id is not reused while one remains.
fn end_group(child: &Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

/// Kills the processes that left the group until there are none: their children become ours in turn.
fn end_children() -> Result<(), Error> {
    loop {
        match waitpid(None, WaitOptions::NOHANG) {
            Err(Errno::CHILD) => return Ok(()),
            Ok(None) => {
                for child in children() {
                    let _ = kill_process(child, Signal::KILL);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(Errno::INTR) | Ok(Some(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn children() -> Vec<Pid> {
    let own = std::process::id().cast_signed();
    let is_ours = |pid: &i32| {
        let text = sordino_proc::file::of_process(*pid, "stat").unwrap_or_default();
        Stat::parse(&text).and_then(|stat| stat.parent()) == Some(own)
    };
    sordino_proc::list::pids().filter(is_ours).filter_map(Pid::from_raw).collect()
}

/// Returns the command line of a keeper, a child of this process, for a command.
pub(crate) fn command(options: &[String], line: &[String]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["keep", "--parent", &std::process::id().to_string()]).args(options).arg("--").args(line);
    // Ctrl-C goes to the check, which then ends the keeper.
    command.process_group(0).env(RESERVE, UNRECORDED);
    command
}
