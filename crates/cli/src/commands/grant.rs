//! The commands `sordino grant` and `sordino revoke`.

use crate::Failure;
use crate::failure::{NO, UNUSABLE};
use crate::terminal::show;
use clap::Args;
use nix::unistd::Group;
use rustix::fs::{FlockOperation, flock};
use sordino_inspect::locks::{holders, users};
use sordino_sched::is_root;
use sordino_tracefs::{Granted, GrantedEvents, SHARED, Tracefs, USUAL, mount_point};
use sordino_undo::{Journal, UndoStep};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::ExitCode;

/// The journal of the steps that undo a grant. A reboot undoes the grant, and removes this file, too.
const JOURNAL: &str = "/run/sordino/grant.journal";

/// Allow a group to trace the kernel
///
/// Makes instances of the kernel's tracer for the group. A member who records with --kernel gets a free one, which is
/// reset when the recording ends or is killed. Lasts until 'sordino revoke' or a reboot. Needs root; one group at a
/// time.
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
    /// Name or id of the group
    #[arg(required_unless_present = "list")]
    group: Option<String>,
    /// Number of recordings that members may make at the same time, 1 to 64; a later 'sordino grant' can raise it
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    instances: u32,
    /// Allow all events of this kernel, also those that disclose other users' data: bytes on buses (i2c, spi), file
    /// names, block commands, memory allocations (kmem)
    #[arg(long)]
    all_events: bool,
    /// List the instances that were made, and whether each is in use
    #[arg(long, conflicts_with_all = ["group", "instances", "all_events"])]
    list: bool,
}

/// Revoke the permission that 'sordino grant' gave
///
/// Removes the group's instances and restores the permissions of the kernel's tracer. Needs root. Exit status: 1 if an
/// instance is in use, and then nothing is changed, or if something could not be restored.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  sudo sordino revoke tracing\n  sudo sordino revoke tracing --force")]
pub(crate) struct RevokeOptions {
    /// Name or id of the group, as it was given to 'sordino grant'
    group: String,
    /// Revoke even if instances are in use; their recordings end early
    #[arg(long)]
    force: bool,
}

/// Makes instances of the tracer up to the requested number, and gives them to the group.
pub(crate) fn grant(options: &GrantOptions) -> Result<ExitCode, Failure> {
    let Some(name) = &options.group else { return list() };
    let (tracefs, mount, _lock) = tracer("grant")?;
    let group = name.parse().map_or_else(|_| Group::from_name(name), |id| Group::from_gid(id_of(id)))?;
    let group = group.ok_or_else(|| Failure::new(UNUSABLE, format!("there is no group '{name}'")))?;
    if let Some(other) = tracefs.granted()?.iter().find(|granted| granted.group != *name) {
        return Err(taken_by(&other.group));
    }
    let before = Journal::open(Path::new(JOURNAL))?;
    let is_first = before.is_none();
    let mut journal = before.map_or_else(begin, Ok)?;
    let events = if options.all_events { GrantedEvents::All } else { GrantedEvents::Usual };
    let to = Receiver { name, group: group.gid.as_raw(), events };
    let given = give(&tracefs, mount, &to, options.instances, &mut journal);
    if let Err(failure) = given {
        // An earlier grant stays.
        let left = if is_first { undo(journal)? } else { Vec::new() };
        let also: String = left.iter().map(|left| format!("\nnot undone: {left}")).collect();
        return Err(Failure::new(UNUSABLE, failure.text().to_owned() + &also));
    }
    let count = tracefs.granted()?.len();
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
    let (tracefs, mount, _lock) = tracer("revoke")?;
    let granted = tracefs.granted()?;
    if let Some(other) = granted.iter().find(|granted| granted.group != options.group) {
        return Err(taken_by(&other.group));
    }
    let Some(journal) = Journal::open(Path::new(JOURNAL))? else {
        return Err(Failure::new(UNUSABLE, "no group may trace the kernel: there is nothing to revoke"));
    };
    let mut taken = Vec::new();
    for granted in &granted {
        if !options.force && tracefs.is_taken(granted)? {
            taken.push(granted.name.as_str());
        }
    }
    if !taken.is_empty() {
        return Err(Failure::new(NO, in_use(mount, &taken, &options.group)));
    }
    let closed: Vec<String> = match options.force {
        true => granted
            .iter()
            .filter_map(|granted| tracefs.close(granted).err())
            .map(|error| Failure::text_of(&error))
            .collect(),
        false => Vec::new(),
    };
    let mut left = undo(journal)?;
    if left.is_empty() {
        // Instances that could not be closed were removed.
        return Ok(ExitCode::SUCCESS);
    }
    left.extend(closed);
    left.extend(still_open(&tracefs, mount, &options.group)?);
    Err(Failure::new(NO, left.join("\n")))
}

/// Returns the error that these instances are in use, with the processes that use them.
fn in_use(mount: &Path, taken: &[&str], group: &str) -> String {
    let mut text = format!("{} in use", taken.join(", "));
    for name in taken {
        let directory = File::open(mount.join("instances").join(name));
        for holder in directory.iter().flat_map(holders) {
            text += &format!("; {holder} has {name}");
        }
    }
    text + &format!(
        "; nothing was changed: end the recordings first, or revoke nevertheless: sudo sordino revoke {group} --force"
    )
}

/// Closes the instances that could not be removed to everybody, and names the processes that have them open.
fn still_open(tracefs: &Tracefs, mount: &Path, group: &str) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for granted in tracefs.granted()? {
        tracefs.close(&granted)?;
        for user in users(&mount.join("instances").join(&granted.name)) {
            lines.push(format!(
                "{user} has {} open, which is closed to everybody else: when it has ended, run: sudo sordino revoke {group}",
                granted.name
            ));
        }
    }
    Ok(lines)
}

/// Lists the instances, each free or in use.
fn list() -> Result<ExitCode, Failure> {
    let tracefs = Tracefs::open()?;
    let mut text = String::new();
    for granted in tracefs.granted()? {
        let state = if tracefs.is_taken(&granted)? { "in use" } else { "free" };
        text += &format!("{}  {state}\n", granted.name);
    }
    let none = "no group may trace the kernel; 'sudo sordino grant GROUP' allows one\n";
    show(if text.is_empty() { none } else { &text })?;
    Ok(ExitCode::SUCCESS)
}

/// Opens the tracer. Returns it, its mount point, and the lock that permits only one process to change who may use it.
fn tracer(command: &str) -> Result<(Tracefs, &'static Path, File), Failure> {
    if !is_root() {
        return Err(Failure::new(UNUSABLE, format!("only root can do that: sudo sordino {command} GROUP")));
    }
    let mount = mount_point().ok_or_else(|| {
        let text =
            "tracefs is not mounted at /sys/kernel/tracing: mount -t tracefs nodev /sys/kernel/tracing";
        Failure::new(UNUSABLE, text)
    })?;
    // A user who may search the directory can't open it, and so can't lock it.
    let lock = File::open(mount)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        let who: String = holders(&lock).iter().map(|holder| format!(" ({holder})")).collect();
        let text = format!("another 'sordino grant' or 'sordino revoke' is running{who}: try again later");
        Failure::new(UNUSABLE, text)
    })?;
    Ok((Tracefs::open()?, mount, lock))
}

fn id_of(id: u32) -> nix::unistd::Gid {
    nix::unistd::Gid::from_raw(id)
}

fn taken_by(group: &str) -> Failure {
    let text = format!(
        "only one group at a time may trace the kernel, and it is {group}: sudo sordino revoke {group}"
    );
    Failure::new(UNUSABLE, text)
}

/// Creates an empty journal, in a directory that nobody else can open.
fn begin() -> Result<Journal, Failure> {
    let path = Path::new(JOURNAL);
    if let Some(directory) = path.parent()
        && DirBuilder::new().mode(0o711).create(directory).is_ok()
    {
        // The umask may have removed bits: programs walk through this directory to find sessions.
        fs::set_permissions(directory, Permissions::from_mode(0o711))?;
    }
    match fs::remove_file(path) {
        // A journal of an earlier boot is removed.
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    Ok(Journal::create(path)?)
}

/// The group to which instances are given, and its events.
struct Receiver<'a> {
    name: &'a str,
    group: u32,
    events: GrantedEvents,
}

fn give(
    tracefs: &Tracefs,
    mount: &Path,
    to: &Receiver<'_>,
    instances: u32,
    journal: &mut Journal,
) -> Result<(), Failure> {
    if fs::metadata(mount.join("trace"))?.mode() & 0o007 != 0 {
        let text = "this kernel leaves the tracer's files open to all users and closes only the directory above them: it takes \
                    Linux 5.16 or later to let a group in";
        return Err(Failure::new(UNUSABLE, text));
    }
    for (file, bits) in SHARED {
        let file = mount.join(file);
        let mode = fs::metadata(&file)?.mode() & 0o7777;
        if mode & bits != bits {
            journal.add(UndoStep::restore_access(&file)?)?;
            UndoStep::give_access(&file, mode | bits)?;
        }
    }
    for granted in (1..=instances).map(|number| Granted::new(to.name, number)) {
        let step = UndoStep::RemoveInstance { name: granted.name.clone() };
        if !journal.steps().contains(&step) {
            journal.add(step)?;
        }
        tracefs.grant(&granted, to.group, to.events)?;
    }
    Ok(())
}

/// Undoes all steps. Returns the errors of those that failed, which stay in the journal.
fn undo(journal: Journal) -> Result<Vec<String>, Failure> {
    let failures = journal.undo(sordino_guard::carry_out)?;
    if let Some(directory) = Path::new(JOURNAL).parent() {
        // The directory is removed if it is empty.
        let _ = fs::remove_dir(directory);
    }
    Ok(failures.iter().map(ToString::to_string).collect())
}
