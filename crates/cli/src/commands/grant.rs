//! The commands `sordino grant` and `sordino revoke`.

use crate::Failure;
use crate::failure::NO;
use crate::privilege;
use crate::terminal::show;
use clap::Args;
use sordino_grant::{Error, Grantee, Grants, instances};
use sordino_tracefs::{GrantedEvents, USUAL};
use std::process::ExitCode;

/// Allow a group to trace the kernel
///
/// Makes instances of the kernel's tracer (ftrace), each with buffers and settings of its own, for the group. A member
/// who records with --kernel gets a free instance, which is reset when the recording ends or is killed. The permission
/// lasts until 'sordino revoke' or a reboot. Needs root; one group at a time.
///
/// Members then see the activity of all users in the kernel: which programs run and when, addresses of the kernel's
/// code and data and of other users' programs, and the arguments of system calls as numbers. They may record the events
/// of these groups: sched, irq, irq_vectors, timer, workqueue, exceptions, nmi, raw_syscalls, task, signal, ipi, power.
/// They can also allocate memory for buffers, and slow the machine down with frequent events.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sudo sordino grant tracing
  sudo sordino grant tracing --instances 8
  sudo sordino grant tracing --all-events
  sudo sordino grant --list
  sudo sordino revoke tracing")]
pub(crate) struct GrantOptions {
    /// Name or id of the group of users, such as tracing
    #[arg(required_unless_present = "list")]
    group: Option<String>,
    /// Number of recordings that members may make at the same time, 1 to 64; a later 'sordino grant' can raise it
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    instances: u32,
    /// Allow all events of this kernel, also those that disclose other users' data: bytes on buses (i2c, spi), file
    /// names, block commands, memory allocations (kmem)
    #[arg(long)]
    all_events: bool,
    /// List the instances of the kernel's tracer that were made, and whether each is in use
    #[arg(long, conflicts_with_all = ["group", "instances", "all_events"])]
    list: bool,
}

/// Revoke the permission that 'sordino grant' gave
///
/// Removes the instances of the kernel's tracer that the group may use, and restores the tracer's permissions. Needs
/// root. Exit status: 1 if an instance is in use, and then nothing is changed, or if something could not be restored.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  sudo sordino revoke tracing\n  sudo sordino revoke tracing --force")]
pub(crate) struct RevokeOptions {
    /// Name or id of the group, as it was given to 'sordino grant'
    group: String,
    /// Revoke even if members are recording; their recordings end early
    #[arg(long)]
    force: bool,
}

/// Makes instances of the tracer up to the requested number, and gives them to the group.
pub(crate) fn grant(options: &GrantOptions) -> Result<ExitCode, Failure> {
    let Some(name) = &options.group else { return list() };
    let grants = Grants::open("grant")?;
    let events = if options.all_events { GrantedEvents::All } else { GrantedEvents::Usual };
    let to = Grantee { name, group: privilege::group(name)?, events };
    let count = grants.give(&to, options.instances)?;
    let usual = USUAL.join(", ");
    let which = if options.all_events { "all its events" } else { &usual };
    show(&format!(
        "Members of {name} may record the kernel now, {count} at a time: sordino record --kernel sched\n\
         Events: {which}\n\
         They see the activity of all users in the kernel, with addresses and the arguments of system calls. A new member must log in first.\n\
         Valid until 'sordino revoke {name}' or a reboot.\n"
    ))?;
    if options.all_events {
        message!("sordino: warning: {ALL_EVENTS}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The warning about the data that `--all-events` discloses.
const ALL_EVENTS: &str = "all events disclose to members, of all users and the kernel: addresses (with which attacks find their targets), bytes \
                          on buses (i2c, spi), names of files, block commands, packets' headers, memory that is allocated";

/// Removes the instances and restores the tracer's permissions.
pub(crate) fn revoke(options: &RevokeOptions) -> Result<ExitCode, Failure> {
    match Grants::open("revoke")?.revoke(&options.group, options.force) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(Error::Refused(text)) => Err(Failure::new(NO, text)),
        Err(error) => Err(error.into()),
    }
}

/// Lists the instances, each free or in use.
fn list() -> Result<ExitCode, Failure> {
    let line = |(name, is_taken): &(String, bool)| {
        format!("{name}  {}\n", if *is_taken { "in use" } else { "free" })
    };
    let text: String = instances()?.iter().map(line).collect();
    let none = "no group may trace the kernel; 'sudo sordino grant GROUP' allows one\n";
    show(if text.is_empty() { none } else { &text })?;
    Ok(ExitCode::SUCCESS)
}
