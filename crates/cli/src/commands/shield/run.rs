//! The command `sordino shield run`.

use crate::Failure;
use crate::failure::{NOT_FOUND, UNUSABLE};
use crate::privilege::{Target, target};
use clap::{Args, ValueEnum};
use sordino_sched::{CpuList, Policy, set_affinity, set_policy};
use sordino_shield::current;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sudo sordino shield run -- ./my-program
  sudo sordino shield run --cpus 3 --prio 80 -- ./my-program
  sudo sordino shield run -- sordino record --kernel sched,irq -- ./my-program")]
pub(super) struct Options {
    /// Run on these of the shielded CPUs, such as 3 [default: all of them; the kernel does not balance threads between
    /// them]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// Real-time priority, 1 to 99 [default: none, an ordinary thread]
    #[arg(short, long, value_name = "PRIO", value_parser = clap::value_parser!(u8).range(1..=99))]
    prio: Option<u8>,
    /// Scheduling policy for --prio
    #[arg(long, value_enum, default_value_t = Real::Fifo, requires = "prio")]
    policy: Real,
    /// Run COMMAND as this user, by name or id [default: the user who called sudo, or the current one]
    #[arg(long = "as", value_name = "USER")]
    as_user: Option<String>,
    /// Command to run, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// A real-time scheduling policy.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Real {
    /// SCHED_FIFO: runs until it blocks or a thread of higher priority is ready
    Fifo,
    /// SCHED_RR: takes turns with threads of the same priority
    Rr,
}

/// Replaces this process by the command; returns only if that fails.
pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let bad = |text: String| Failure::new(UNUSABLE, text);
    let shield = current().ok_or_else(|| {
        bad("no shield is up: raise one first, with 'sordino shield up --cpus LIST'".to_owned())
    })?;
    let shielded = &shield.request.cpus;
    let cpus = options.cpus.as_ref().unwrap_or(shielded);
    let outside = cpus.without(shielded);
    if !outside.is_empty() {
        return Err(bad(format!("--cpus {cpus}: CPU {outside} is not shielded; shielded are {shielded}")));
    }
    let owner = target(options.as_user.as_deref())?;
    let (program, arguments) = options.command.split_first().ok_or_else(|| bad("no command".to_owned()))?;
    if let Err(error) = sordino_sched::find_program(program.as_ref()) {
        return Err(Failure::new(NOT_FOUND, format!("{}: {error}", program.display())));
    }
    shield.take_in(std::process::id())?;
    // A command that a control group confines gets other CPUs when the shield is lowered, unless `--cpus` has set some.
    if options.cpus.is_some() || shield.group.is_none() {
        set_affinity(cpus)?;
    }
    if let Some(priority) = options.prio {
        set_policy(match options.policy {
            Real::Fifo => Policy::Fifo(priority),
            Real::Rr => Policy::RoundRobin(priority),
        })?;
    }
    let mut words = owner.as_ref().map(Target::prefix).unwrap_or_default();
    words.push(program.clone());
    words.extend_from_slice(arguments);
    let error = Command::new(&words[0]).args(&words[1..]).exec();
    Err(Failure::new(NOT_FOUND, format!("can't start {}: {error}", program.display())))
}
