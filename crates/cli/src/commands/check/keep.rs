//! The keeper: a process between a check and a program that it runs, which ends the program in any case.

use crate::Failure;
use crate::commands::shield;
use crate::failure::{NOT_FOUND, UNUSABLE};
use crate::signals;
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, kill_process, kill_process_group, pidfd_open,
    set_child_subreaper, set_parent_process_death_signal,
};
use sordino_dirfd::Dir;
use sordino_registration::environment::{RESERVE, UNRECORDED};
use sordino_sched::{CpuList, set_affinity};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

/// Runs a command, and ends it with all processes that it started, on request or when its parent is gone.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Process whose end also ends the command
    #[arg(long)]
    parent: i32,
    /// CPUs on which the command runs, outside of a shield
    #[arg(long)]
    cpus: Option<CpuList>,
    /// Start the command again each time that it ends with status 0
    #[arg(long)]
    repeat: bool,
    /// Milliseconds that the command may take to end after a SIGINT
    #[arg(long, default_value_t = 0)]
    patience: u64,
    /// Directory to remove if the parent is gone
    #[arg(long, value_name = "DIR")]
    scratch: Vec<PathBuf>,
    /// Have the kernel end this process with its parent, and become the command
    #[arg(long)]
    bound: bool,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let parent = Pid::from_raw(options.parent);
    if options.bound {
        return become_bound(options, parent);
    }
    let stop = signals::stop()?;
    let alive = parent.and_then(|parent| pidfd_open(parent, PidfdFlags::empty()).ok());
    let Some(alive) = alive.filter(|_| getppid() == parent) else {
        return Err(Failure::new(UNUSABLE, "the check has ended"));
    };
    // Processes that the command leaves behind become children of this one, and are found.
    set_child_subreaper(Some(getpid()))?;
    if let Some(cpus) = &options.cpus {
        if let Some(up) = shield::current() {
            // It fails if this process is not inside the shield.
            let _ = up.send_out(std::process::id());
        }
        set_affinity(cpus)?;
    }
    loop {
        let mut child = start(options)?;
        let ended = wait(&mut child, &stop, &alive, options.patience)?;
        end_group(&child);
        end_children()?;
        match ended {
            Ended::ByItself(status) if status.success() && options.repeat => {}
            Ended::ByItself(status) => return Ok(as_code(status)),
            Ended::ByUs => return Ok(ExitCode::SUCCESS),
            Ended::Orphaned => {
                for scratch in &options.scratch {
                    let _ = Dir::remove(scratch);
                }
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

/// Starts the command in a process group of its own, which a shell's Ctrl-C does not reach.
fn start(options: &Options) -> Result<Child, Failure> {
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["keep", "--bound", "--parent", &std::process::id().to_string(), "--"])
        .args(&options.command);
    Ok(command.process_group(0).spawn()?)
}

fn become_bound(options: &Options, parent: Option<Pid>) -> Result<ExitCode, Failure> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before that.
    if getppid() != parent {
        return Err(Failure::new(UNUSABLE, "the check has ended"));
    }
    let (program, arguments) =
        options.command.split_first().ok_or_else(|| Failure::new(UNUSABLE, "no command"))?;
    let error = Command::new(program).args(arguments).exec();
    Err(Failure::new(NOT_FOUND, format!("can't start {}: {error}", program.display())))
}

enum Ended {
    ByItself(ExitStatus),
    /// The keeper ended it on request.
    ByUs,
    /// The check has ended.
    Orphaned,
}

/// Waits until the command has ended by itself, or ends it.
fn wait(child: &mut Child, stop: &OwnedFd, alive: &OwnedFd, patience: u64) -> Result<Ended, Failure> {
    let pid = Pid::from_child(child);
    let own = pidfd_open(pid, PidfdFlags::empty())?;
    let mut ready = [
        PollFd::new(&own, PollFlags::IN),
        PollFd::new(stop, PollFlags::IN),
        PollFd::new(alive, PollFlags::IN),
    ];
    // A signal interrupts it, and is then readable.
    while matches!(poll(&mut ready, None), Err(rustix::io::Errno::INTR)) {}
    let mut is_orphaned = !ready[2].revents().is_empty();
    if !ready[0].revents().is_empty() {
        return Ok(Ended::ByItself(child.wait()?));
    }
    let end = Instant::now() + Duration::from_millis(patience);
    if patience > 0 && !is_orphaned {
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
fn end_children() -> Result<(), Failure> {
    loop {
        match nix::sys::wait::waitpid(None, Some(nix::sys::wait::WaitPidFlag::WNOHANG)) {
            Err(nix::errno::Errno::ECHILD) => return Ok(()),
            Ok(nix::sys::wait::WaitStatus::StillAlive) => {
                for child in children() {
                    let _ = kill_process(child, Signal::KILL);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(nix::errno::Errno::EINTR) | Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn children() -> Vec<Pid> {
    let own = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_ours = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // proc(5): behind the name are the state and the parent.
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)) == Some(&own)
    };
    pids.filter(is_ours).filter_map(Pid::from_raw).collect()
}

fn as_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// Returns the command line of a keeper, a child of this process, for a command.
pub(super) fn command(options: &[String], line: &[String]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["keep", "--parent", &std::process::id().to_string()]).args(options).arg("--").args(line);
    // Ctrl-C goes to the check, which then ends the keeper.
    command.process_group(0).env(RESERVE, UNRECORDED);
    command
}
