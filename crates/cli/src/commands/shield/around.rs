//! The behaviour of other commands when a shield is up: they leave its CPUs, or move to them.

use super::current;
use crate::Failure;
use crate::commands::become_user::hand_over;
use crate::failure::{NOT_FOUND, UNUSABLE};
use clap::Args;
use sordino_sched::{CpuList, Right, affinity, is_root, set_affinity};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Moves this process, a recorder, off the shielded CPUs, and reports it. Returns the words to put in front of a
/// command that is to stay where this process was started, inside the shield.
pub(crate) fn keep_off(collector: Option<u32>) -> Result<Vec<OsString>, Failure> {
    let Some(shield) = current() else { return Ok(Vec::new()) };
    let shielded = &shield.request.cpus;
    if let Some(cpu) = collector.filter(|cpu| shielded.contains(*cpu)) {
        let rest = &shield.rest;
        return Err(Failure::new(
            UNUSABLE,
            format!("--collector-cpu {cpu}: CPU {shielded} is shielded; others are {rest}"),
        ));
    }
    let own = affinity()?;
    let outside = own.without(shielded);
    let (cpus, was_inside) = if outside.is_empty() { (&shield.rest, true) } else { (&outside, false) };
    if was_inside && let Err(error) = shield.send_out(std::process::id()) {
        message!(
            "sordino: the collector stays on CPU {own}, which is shielded, together with the programs that it records: {error} ({})",
            Right::Administer.remedy()
        );
        return Ok(Vec::new());
    }
    set_affinity(cpus)?;
    message!("sordino: CPU {shielded} is shielded: the collector keeps to CPU {cpus}");
    if !was_inside {
        return Ok(Vec::new());
    }
    let mut words = vec!["/proc/self/exe".to_owned(), "join-shield".to_owned()];
    // A process that only a control group confines gets other CPUs when the shield is lowered; one that has set its
    // affinity keeps it.
    if own != *shielded || shield.group.is_none() {
        words.extend(["--cpus".to_owned(), own.to_string()]);
    }
    words.push("--".to_owned());
    Ok(words.into_iter().map(OsString::from).collect())
}

/// Moves this process to the shielded CPUs if `cpu` is one of them, and reports it.
pub(crate) fn go_to(cpu: Option<u32>) -> Result<(), Failure> {
    let Some(shield) = current() else { return Ok(()) };
    let Some(cpu) = cpu.filter(|cpu| shield.request.cpus.contains(*cpu)) else { return Ok(()) };
    if affinity()?.contains(cpu) {
        return Ok(());
    }
    shield.take_in(std::process::id()).map_err(|error| {
        Failure::new(
            UNUSABLE,
            format!(
                "CPU {cpu} is shielded, and this process can't go there: {} ({})",
                Failure::text_of(&error),
                Right::Administer.remedy()
            ),
        )
    })?;
    message!("sordino: CPU {cpu} is shielded: measuring inside the shield");
    Ok(())
}

/// Returns the default CPU of a measurement: the last shielded one that this process may use, or else the last one on
/// which it may run.
pub(crate) fn measured_cpu() -> Result<Option<u32>, Failure> {
    let allowed = affinity()?;
    let shielded = current().map(|shield| shield.request.cpus).unwrap_or_default();
    let mut shielded = shielded.as_slice().iter().filter(|cpu| is_root() || allowed.contains(**cpu));
    Ok(shielded.next_back().or(allowed.as_slice().last()).copied())
}

/// Joins the shield, then becomes a command.
#[derive(Args, Debug)]
pub(crate) struct JoinOptions {
    #[arg(long)]
    cpus: Option<CpuList>,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Joins the shield and replaces this process by the command; returns only if that fails.
pub(crate) fn join(options: &JoinOptions) -> Result<ExitCode, Failure> {
    if let Some(shield) = current() {
        shield.take_in(std::process::id())?;
    }
    if let Some(cpus) = &options.cpus {
        set_affinity(cpus)?;
    }
    let (program, arguments) =
        options.command.split_first().ok_or_else(|| Failure::new(UNUSABLE, "no command"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    // A process that changes to another user passes the session itself.
    if program != "/proc/self/exe" {
        hand_over(&mut command);
    }
    let error = command.exec();
    Err(Failure::new(NOT_FOUND, format!("can't start {}: {error}", program.display())))
}
