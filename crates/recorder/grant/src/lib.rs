//! The right of a group to trace the kernel: instances of the tracer that belong to it.
//!
//! A [`Grants`] holds the lock that permits only one process to change who may use the tracer. The steps that undo a
//! grant are in a journal, which a reboot removes with the grant.
#![forbid(unsafe_code)]

mod error;

pub use error::Error;

use rustix::fs::{FlockOperation, flock};
use sordino_event::text::with_causes;
use sordino_guard::carry_out;
use sordino_inspect::locks::{holders, users};
use sordino_sched::is_root;
use sordino_tracefs::{Granted, GrantedEvents, SHARED, Tracefs, mount_point};
use sordino_undo::{Journal, UndoStep};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// The journal of the steps that undo a grant. A reboot undoes the grant, and removes this file, too.
const JOURNAL: &str = "/run/sordino/grant.journal";

/// The tracer's instances that groups have, and the right to change them.
pub struct Grants {
    tracefs: Tracefs,
    mount: &'static Path,
    /// The lock that permits only one process to change who may use the tracer.
    _lock: File,
}

/// The group to which instances are given, and its events.
#[derive(Clone, Copy, Debug)]
pub struct Grantee<'a> {
    /// The group as it was named.
    pub name: &'a str,
    /// The id of the group.
    pub group: u32,
    /// The events that its members may record.
    pub events: GrantedEvents,
}

impl Grants {
    /// Opens the tracer to change who may use it. `command` is the one that the user is to repeat as root.
    ///
    /// # Errors
    /// This process is not root's, the tracer is missing, or another process changes it.
    pub fn open(command: &str) -> Result<Self, Error> {
        if !is_root() {
            return Err(Error::Unusable(format!("only root can do that: sudo sordino {command} GROUP")));
        }
        let mount = mount_point().ok_or_else(|| {
            let text =
                "tracefs is not mounted at /sys/kernel/tracing: mount -t tracefs nodev /sys/kernel/tracing";
            Error::Unusable(text.to_owned())
        })?;
        // A user who may search the directory can't open it, and so can't lock it.
        let lock = File::open(mount)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            let who: String = holders(&lock).iter().map(|holder| format!(" ({holder})")).collect();
            let text =
                format!("another 'sordino grant' or 'sordino revoke' is running{who}: try again later");
            Error::Unusable(text)
        })?;
        Ok(Self { tracefs: Tracefs::open()?, mount, _lock: lock })
    }

    /// Makes instances of the tracer up to the requested number, and gives them to the group. Returns how many it has.
    ///
    /// # Errors
    /// Another group has instances, or the kernel refuses; an earlier grant then stays.
    pub fn give(&self, to: &Grantee<'_>, instances: u32) -> Result<usize, Error> {
        let (tracefs, name) = (&self.tracefs, to.name);
        if let Some(other) = tracefs.granted()?.iter().find(|granted| granted.group != *name) {
            return Err(taken_by(&other.group));
        }
        let before = Journal::open(Path::new(JOURNAL))?;
        let is_first = before.is_none();
        let mut journal = before.map_or_else(begin, Ok)?;
        if let Err(error) = give(tracefs, self.mount, to, instances, &mut journal) {
            // An earlier grant stays.
            let left = if is_first { undo(journal)? } else { Vec::new() };
            let also: String = left.iter().map(|left| format!("\nnot undone: {left}")).collect();
            return Err(Error::Unusable(with_causes(&error) + &also));
        }
        Ok(tracefs.granted()?.len())
    }

    /// Removes the instances and restores the tracer's permissions.
    ///
    /// # Errors
    /// [`Error::Refused`] if an instance is in use and `force` is false, and then nothing is changed, or if something
    /// could not be restored.
    pub fn revoke(&self, group: &str, force: bool) -> Result<(), Error> {
        let (tracefs, mount) = (&self.tracefs, self.mount);
        let granted = tracefs.granted()?;
        if let Some(other) = granted.iter().find(|granted| granted.group != group) {
            return Err(taken_by(&other.group));
        }
        let Some(journal) = Journal::open(Path::new(JOURNAL))? else {
            let text = "no group may trace the kernel: there is nothing to revoke";
            return Err(Error::Unusable(text.to_owned()));
        };
        let mut taken = Vec::new();
        for granted in &granted {
            if !force && tracefs.is_taken(granted)? {
                taken.push(granted.name.as_str());
            }
        }
        if !taken.is_empty() {
            return Err(Error::Refused(in_use(mount, &taken, group)));
        }
        let closed: Vec<String> = match force {
            true => granted
                .iter()
                .filter_map(|granted| tracefs.close(granted).err())
                .map(|error| with_causes(&error))
                .collect(),
            false => Vec::new(),
        };
        let mut left = undo(journal)?;
        if left.is_empty() {
            // Instances that could not be closed were removed.
            return Ok(());
        }
        left.extend(closed);
        left.extend(still_open(tracefs, mount, group)?);
        Err(Error::Refused(left.join("\n")))
    }
}

/// Returns the instances that groups have, each with true if it is in use.
///
/// # Errors
/// The tracer can't be read.
pub fn instances() -> Result<Vec<(String, bool)>, Error> {
    let tracefs = Tracefs::open()?;
    let granted = tracefs.granted()?.into_iter();
    granted.map(|granted| Ok((granted.name.clone(), tracefs.is_taken(&granted)?))).collect()
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
fn still_open(tracefs: &Tracefs, mount: &Path, group: &str) -> Result<Vec<String>, Error> {
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

fn taken_by(group: &str) -> Error {
    let text = format!(
        "only one group at a time may trace the kernel, and it is {group}: sudo sordino revoke {group}"
    );
    Error::Unusable(text)
}

/// Creates an empty journal, in a directory that nobody else can open.
fn begin() -> Result<Journal, Error> {
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

fn give(
    tracefs: &Tracefs,
    mount: &Path,
    to: &Grantee<'_>,
    instances: u32,
    journal: &mut Journal,
) -> Result<(), Error> {
    if fs::metadata(mount.join("trace"))?.mode() & 0o007 != 0 {
        let text = "this kernel leaves the tracer's files open to all users and closes only the directory above them: it takes \
                    Linux 5.16 or later to let a group in";
        return Err(Error::Unusable(text.to_owned()));
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
fn undo(journal: Journal) -> Result<Vec<String>, Error> {
    let failures = journal.undo(carry_out)?;
    if let Some(directory) = Path::new(JOURNAL).parent() {
        // The directory is removed if it is empty.
        let _ = fs::remove_dir(directory);
    }
    Ok(failures.iter().map(ToString::to_string).collect())
}
