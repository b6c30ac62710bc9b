//! `sordino grant` and `sordino revoke`

use crate::Failure;
use crate::commands::guard;
use crate::failure::{NO, UNUSABLE};
use crate::locks::{holders, users};
use crate::privilege::is_root;
use crate::terminal::show;
use clap::Args;
use nix::unistd::Group;
use rustix::fs::{FlockOperation, flock};
use sordino_tracefs::{Events, Granted, SHARED, Tracefs, USUAL, mount_point};
use sordino_undo::{Journal, Step};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::ExitCode;

/// How to undo what was granted. A reboot, which undoes it, clears that, too.
const JOURNAL: &str = "/run/sordino/grant.journal";

/// Let a group trace the kernel
///
/// Makes tracing instances ahead for the group. A member who records with --kernel takes a free one, which is as new again when the
/// recording ends or is killed. Lasts until 'sordino revoke' or a reboot. Needs root; one group at a time.
///
/// Members then see what the kernel does for all users: which programs run and when, addresses of the kernel's code and data and of
/// other users' programs, and the arguments of system calls as numbers. They may record the events of these groups: sched, irq,
/// irq_vectors, timer, workqueue, exceptions, nmi, raw_syscalls, task, signal, ipi, power. They can also take memory for buffers, and
/// slow the machine down with frequent events.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sudo sordino grant tracing
  sudo sordino grant tracing --instances 8
  sudo sordino grant tracing --all-events
  sudo sordino grant --list
  sudo sordino revoke tracing")]
pub(crate) struct GrantOptions {
    /// The group's name or id
    #[arg(required_unless_present = "list")]
    group: Option<String>,
    /// How many recordings its members may make at the same time; more can be added later
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    instances: u32,
    /// All events that this kernel has, also those that disclose what others read, write and send: bytes on buses (i2c, spi), names of
    /// files, block commands, memory that is allocated (kmem)
    #[arg(long)]
    all_events: bool,
    /// List the instances that were made, and which of them are in use
    #[arg(long, conflicts_with_all = ["group", "instances", "all_events"])]
    list: bool,
}

/// Take back what 'sordino grant' gave
///
/// Removes the group's instances and gives the kernel's tracer the rights it had before. Needs root. Exit status: 1 if some instance
/// is in use, and nothing is changed then, or if something could not be given back.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  sudo sordino revoke tracing\n  sudo sordino revoke tracing --force")]
pub(crate) struct RevokeOptions {
    /// The group's name or id, as 'sordino grant' was given it
    group: String,
    /// Also while instances are in use: their recordings end early
    #[arg(long)]
    force: bool,
}

/// Makes as many instances as are asked for, and lets the group get to them.
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
    let events = if options.all_events { Events::All } else { Events::Usual };
    let to = Receiver { name, group: group.gid.as_raw(), events };
    let given = give(&tracefs, mount, &to, options.instances, &mut journal);
    if let Err(failure) = given {
        // What was there before stays.
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
         They see what the kernel does for all users, with addresses and the arguments of system calls. A new member has to log in first.\n\
         Until 'sordino revoke {name}' or a reboot.\n"
    ))?;
    if options.all_events {
        message!("sordino: warning: {ALL_EVENTS}");
    }
    Ok(ExitCode::SUCCESS)
}

/// What `--all-events` discloses.
const ALL_EVENTS: &str = "all events disclose to members, of all users and the kernel: addresses (with which attacks find their targets), bytes \
                          on buses (i2c, spi), names of files, block commands, packets' headers, memory that is allocated";

/// Undoes that.
pub(crate) fn revoke(options: &RevokeOptions) -> Result<ExitCode, Failure> {
    let (tracefs, mount, _lock) = tracer("revoke")?;
    let granted = tracefs.granted()?;
    if let Some(other) = granted.iter().find(|granted| granted.group != options.group) {
        return Err(taken_by(&other.group));
    }
    let Some(journal) = Journal::open(Path::new(JOURNAL))? else {
        return Err(Failure::new(UNUSABLE, "no group was let trace the kernel: there is nothing to revoke"));
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
        // What could not be closed was removed.
        return Ok(ExitCode::SUCCESS);
    }
    left.extend(closed);
    left.extend(still_open(&tracefs, mount, &options.group)?);
    Err(Failure::new(NO, left.join("\n")))
}

/// Which instances are in use, and by whom.
fn in_use(mount: &Path, taken: &[&str], group: &str) -> String {
    let mut text = format!("{} in use", taken.join(", "));
    for name in taken {
        let directory = File::open(mount.join("instances").join(name));
        for holder in directory.iter().flat_map(holders) {
            text += &format!("; {holder} has {name}");
        }
    }
    text + &format!(
        "; nothing was changed: end the recordings first, or go on all the same with: sudo sordino revoke {group} --force"
    )
}

/// Closes the instances that could not be removed, and says who has them open.
fn still_open(tracefs: &Tracefs, mount: &Path, group: &str) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for granted in tracefs.granted()? {
        tracefs.close(&granted)?;
        for user in users(&mount.join("instances").join(&granted.name)) {
            lines.push(format!(
                "{user} has {} open, which is closed to everybody else: when it has ended, sudo sordino revoke {group}",
                granted.name
            ));
        }
    }
    Ok(lines)
}

/// Which instances there are.
fn list() -> Result<ExitCode, Failure> {
    let tracefs = Tracefs::open()?;
    let mut text = String::new();
    for granted in tracefs.granted()? {
        let state = if tracefs.is_taken(&granted)? { "in use" } else { "free" };
        text += &format!("{}  {state}\n", granted.name);
    }
    let none = "no group was let trace the kernel; 'sudo sordino grant GROUP' does\n";
    show(if text.is_empty() { none } else { &text })?;
    Ok(ExitCode::SUCCESS)
}

/// The tracer, where users find it, and the right to change who may use it, as long as the last lives.
fn tracer(command: &str) -> Result<(Tracefs, &'static Path, File), Failure> {
    if !is_root() {
        return Err(Failure::new(UNUSABLE, format!("only root can do that: sudo sordino {command} GROUP")));
    }
    let mount = mount_point().ok_or_else(|| {
        let text = "tracefs is not where users look for it; mount -t tracefs nodev /sys/kernel/tracing";
        Failure::new(UNUSABLE, text)
    })?;
    // Who may walk through it can not open it.
    let lock = File::open(mount)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        let who: String = holders(&lock).iter().map(|holder| format!(" ({holder})")).collect();
        let text = format!("another 'sordino grant' or 'sordino revoke' is at work{who}: try again later");
        Failure::new(UNUSABLE, text)
    })?;
    Ok((Tracefs::open()?, mount, lock))
}

fn id_of(id: u32) -> nix::unistd::Gid {
    nix::unistd::Gid::from_raw(id)
}

fn taken_by(group: &str) -> Failure {
    let text = format!(
        "the group that may trace the kernel is {group}, and there is one at a time: sudo sordino revoke {group}"
    );
    Failure::new(UNUSABLE, text)
}

/// An empty journal, in a directory that nobody else can open.
fn begin() -> Result<Journal, Failure> {
    let path = Path::new(JOURNAL);
    if let Some(directory) = path.parent()
        && DirBuilder::new().mode(0o711).create(directory).is_ok()
    {
        // Whatever the umask took away: programs walk through it to sessions.
        fs::set_permissions(directory, Permissions::from_mode(0o711))?;
    }
    match fs::remove_file(path) {
        // Another boot's.
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    Ok(Journal::create(path)?)
}

/// The group to which instances are given.
struct Receiver<'a> {
    name: &'a str,
    group: u32,
    events: Events,
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
            journal.add(Step::restore_access(&file)?)?;
            Step::give_access(&file, mode | bits)?;
        }
    }
    for granted in (1..=instances).map(|number| Granted::new(to.name, number)) {
        let step = Step::RemoveInstance { name: granted.name.clone() };
        if !journal.steps().contains(&step) {
            journal.add(step)?;
        }
        tracefs.grant(&granted, to.group, to.events)?;
    }
    Ok(())
}

/// Undoes all; what could not be undone, and stays in the journal.
fn undo(journal: Journal) -> Result<Vec<String>, Failure> {
    let failures = journal.undo(guard::carry_out)?;
    if let Some(directory) = Path::new(JOURNAL).parent() {
        // It goes if it is empty.
        let _ = fs::remove_dir(directory);
    }
    Ok(failures.iter().map(ToString::to_string).collect())
}
