//! Instances that root prepares for a group.
//!
//! A group cannot get the right to create instances: the kernel gives a new instance's files to the owner of
//! `instances/`, and only that user can write them. Existing files can be given to a group, and stay so until the
//! instance is removed.

use crate::dir::TracefsDir;
use crate::instance::{BUSY, GRANTED, InstanceLock, PAUSE, SWEEP, lock, remove, validate};
use crate::{Error, Instance, Tracefs};
use std::collections::BTreeSet;
use std::time::Instant as Moment;

/// Paths outside of instances that members of a group need, below the mount point, with the mode bits to add. The bits
/// are for all users: a group for these paths is impossible, because all files inherit the group of the uppermost
/// directory, so that it could read root's traces. Other users still read only the names of instances and events, as
/// long as no file permits them more.
pub const SHARED: [(&str, u32); 3] = [(".", 0o001), ("instances", 0o005), ("available_events", 0o004)];

/// Groups of events that members may record unless all are granted: scheduling, interrupts, and system calls. Their
/// fields contain names of programs and of executed files, addresses of the kernel's code and data (`timer`,
/// `workqueue`, `irq`, `ipi`, `csd`, `nmi`) and of programs' (`exceptions`, `signal`), and arguments of system calls as
/// numbers. They do not contain the content of files, packets, buses (`i2c`, `spi`), block commands or user memory
/// (`syscalls`), nor the kernel's allocations (`kmem`).
pub const USUAL: [&str; 13] = [
    "csd",
    "exceptions",
    "ipi",
    "irq",
    "irq_vectors",
    "nmi",
    "power",
    "raw_syscalls",
    "sched",
    "signal",
    "task",
    "timer",
    "workqueue",
];

/// Switch of all events: with write permission, every event can be recorded.
const ALL_EVENTS: &str = "events/enable";

/// Files that a group may read and write in its instances, besides those of CPUs and events. Tracers and triggers are
/// excluded, because they do more than record.
const SETTINGS: [&str; 7] = [
    "buffer_size_kb",
    "options/event-fork",
    "options/overwrite",
    "set_event_pid",
    "trace_clock",
    "tracing_cpumask",
    "tracing_on",
];
const READ: u32 = 0o040;
const WRITE: u32 = 0o060;
const LIST: u32 = 0o050;

/// Size of the buffer of an unused instance in KiB.
const LEAST_KIB: u64 = 8;

/// Events that a group may record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantedEvents {
    /// The events of the groups [`USUAL`].
    Usual,
    /// All events of the kernel.
    All,
}

impl GrantedEvents {
    fn has(self, system: &str) -> bool {
        self == Self::All || USUAL.contains(&system)
    }
}

/// An instance that root has prepared for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Name of the instance in `instances/`.
    pub name: String,
    /// Name of the group when the instance was prepared.
    pub group: String,
    /// Number of the instance in its group, from 1.
    pub number: u32,
}

impl Granted {
    /// Describes instance `number` of the group named `group`.
    pub fn new(group: &str, number: u32) -> Self {
        Self { name: format!("{GRANTED}{group}.{number}"), group: group.to_owned(), number }
    }

    fn parse(name: &str) -> Option<Self> {
        let (group, number) = name.strip_prefix(GRANTED)?.rsplit_once('.')?;
        Some(Self::new(group, number.parse().ok()?)).filter(|granted| granted.name == name)
    }
}

impl Tracefs {
    /// Returns the prepared instances of all groups.
    ///
    /// # Errors
    /// Returns an error if the instances cannot be listed.
    pub fn granted(&self) -> Result<Vec<Granted>, Error> {
        Ok(self.instances()?.iter().filter_map(|name| Granted::parse(name)).collect())
    }

    /// Prepares an instance for the group with this id, or completes an existing one. The group may then read it,
    /// record these events, and change the settings of a recording, nothing else. Events of modules that are loaded
    /// later are excluded.
    ///
    /// # Errors
    /// [`Error::GivesAll`] if the instance exists and grants more events: a process with an open file of it would keep
    /// them. [`Error::Busy`] if it was [closed](Self::close) and a process still has it open. Other errors if it cannot
    /// be created or given to the group.
    pub fn grant(&self, granted: &Granted, group: u32, events: GrantedEvents) -> Result<(), Error> {
        validate(&granted.name)?;
        let instances = self.root.directory("instances")?;
        if let Ok(closed) = instances.directory(&granted.name)
            && closed.mode(".")? & LIST == 0
        {
            // The instance was closed because it could not be removed: a process of a former member may still read it.
            remove(&instances, &closed, &granted.name)?;
        }
        let dir = instances.make(&granted.name)?;
        if events == GrantedEvents::Usual && dir.mode(ALL_EVENTS)? & 0o020 != 0 {
            return Err(Error::GivesAll(granted.name.clone()));
        }
        for (name, bits) in self.files(&dir, events)? {
            there(dir.give(&name, group, bits))?;
        }
        // Last, so that nobody can take an incomplete instance.
        dir.give(".", group, LIST)
    }

    /// Revokes the group's access to an instance, and stops it. Files of it that a member has open stay open.
    ///
    /// # Errors
    /// Returns an error if the instance exists and cannot be closed.
    pub fn close(&self, granted: &Granted) -> Result<(), Error> {
        validate(&granted.name)?;
        let dir = match self.root.directory("instances")?.directory(&granted.name) {
            Err(Error::Missing { .. }) => return Ok(()),
            dir => dir?,
        };
        // The directory comes first: it is the way to all files.
        dir.withdraw(".")?;
        for (name, _) in self.files(&dir, GrantedEvents::All)? {
            there(dir.withdraw(&name))?;
        }
        dir.write(ALL_EVENTS, "0")?;
        dir.write("tracing_on", "0")
    }

    /// Returns the files of an instance that a group gets, with their mode bits. Some kernels or events lack some of
    /// them.
    fn files(&self, dir: &TracefsDir, events: GrantedEvents) -> Result<Vec<(String, u32)>, Error> {
        let mut files: Vec<(String, u32)> = SETTINGS.map(|name| (name.to_owned(), WRITE)).into();
        files.extend(["options", "per_cpu"].map(|name| (name.to_owned(), LIST)));
        for cpu in dir.directory("per_cpu")?.entries()? {
            let parts = [("", LIST), ("/trace_pipe_raw", READ), ("/stats", READ)];
            files.extend(parts.map(|(name, bits)| (format!("per_cpu/{cpu}{name}"), bits)));
        }
        files.extend(["header_page", "header_event"].map(|name| (format!("events/{name}"), READ)));
        if events == GrantedEvents::All {
            files.push((ALL_EVENTS.to_owned(), WRITE));
        }
        let given: Vec<_> = self.events()?.into_iter().filter(|event| events.has(&event.system)).collect();
        let systems: BTreeSet<&String> = given.iter().map(|event| &event.system).collect();
        files.extend(systems.into_iter().map(|system| (format!("events/{system}/enable"), WRITE)));
        for event in &given {
            let parts = [("enable", WRITE), ("filter", WRITE), ("format", READ)];
            files.extend(parts.map(|(name, bits)| (event.file(name), bits)));
        }
        Ok(files)
    }

    /// Returns true if a process has taken the instance. The caller must belong to the group or be root.
    ///
    /// # Errors
    /// Returns an error if the instance cannot be opened.
    pub fn is_taken(&self, granted: &Granted) -> Result<bool, Error> {
        Ok(matches!(lock(&self.root.directory("instances")?, &granted.name)?, InstanceLock::Busy))
    }
}

/// Ignores missing files: some kernels or events lack some.
fn there(given: Result<(), Error>) -> Result<(), Error> {
    match given {
        Err(Error::Missing { .. }) => Ok(()),
        given => given,
    }
}

impl Instance {
    /// Takes a free prepared instance of one of this process's groups; `None` if no group has any. No other process
    /// gets the instance as long as the result lives. It has its previous settings: [`reset`](Self::reset) it first.
    ///
    /// # Errors
    /// [`Error::AllTaken`] if all of them are in use.
    pub fn take(tracefs: &Tracefs) -> Result<Option<Self>, Error> {
        let instances = tracefs.root.directory("instances")?;
        let since = Moment::now();
        loop {
            let mut taken = 0;
            for Granted { name, .. } in tracefs.granted()? {
                match lock(&instances, &name) {
                    Ok(InstanceLock::Held(dir)) => return Ok(Some(Self::new(tracefs, dir, name, true))),
                    Ok(InstanceLock::Busy) => taken += 1,
                    Ok(InstanceLock::Gone) => {}
                    // The instance belongs to another group.
                    Err(Error::NotPermitted { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            match taken {
                0 => return Ok(None),
                // The lock may have been held only to check whether the instance is in use.
                _ if since.elapsed() < SWEEP => std::thread::sleep(PAUSE),
                _ => return Err(Error::AllTaken(taken)),
            }
        }
    }

    /// Resets the instance: no events, the settings of a new one, an empty buffer of the smallest size.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects a setting.
    pub fn reset(&mut self) -> Result<(), Error> {
        self.set_tracing(false)?;
        self.disable_all()?;
        self.filtered.clear();
        for file in self.tracefs.events()?.iter().map(|event| event.file("filter")) {
            match self.dir.read(&file) {
                // Removing a filter waits for all CPUs each time, even if there is none.
                Ok(filter) if filter.trim() == "none" => {}
                Ok(_) => self.dir.write(&file, "0")?,
                // The event's module was loaded after the grant or unloaded since, or the event has no filter.
                Err(Error::NotPermitted { .. } | Error::Missing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.set_threads(&[], false)?;
        self.set_cpus(&self.cpus()?)?;
        self.set_overwrite(true)?;
        // This also empties the buffer and clears its counts.
        self.set_clock("local")?;
        self.set_buffer_kib(LEAST_KIB).map(drop)
    }

    /// Disables all events, or all that this process may disable: nobody in its group can have enabled another.
    pub(crate) fn disable_all(&self) -> Result<(), Error> {
        match self.dir.write(ALL_EVENTS, "0") {
            Err(Error::NotPermitted { .. }) if self.stays => {}
            result => return result,
        }
        let events = self.tracefs.events()?;
        for system in events.iter().map(|event| &event.system).collect::<BTreeSet<_>>() {
            match self.dir.write(&format!("events/{system}/enable"), "0") {
                Ok(()) | Err(Error::NotPermitted { .. } | Error::Missing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Resets the prepared instance called `name` after the process that took it has died. If another process has taken
    /// it since, or if it was removed, there is nothing to do.
    ///
    /// # Errors
    /// Returns the errors of [`reset`](Self::reset).
    pub fn reset_by_name(tracefs: &Tracefs, name: &str) -> Result<(), Error> {
        validate(name)?;
        let instances = tracefs.root.directory("instances")?;
        let since = Moment::now();
        loop {
            match lock(&instances, name)? {
                InstanceLock::Held(dir) => return Self::new(tracefs, dir, name.to_owned(), true).remove(),
                InstanceLock::Busy if since.elapsed() < BUSY => std::thread::sleep(PAUSE),
                InstanceLock::Busy | InstanceLock::Gone => return Ok(()),
            }
        }
    }
}

impl TracefsDir {
    /// Opens the directory `name`, which is created if it does not exist.
    fn make(&self, name: &str) -> Result<Self, Error> {
        use rustix::fs::{Mode, mkdirat};
        match mkdirat(&self.fd, name, Mode::from_raw_mode(0o750)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => self.directory(name),
            Err(errno) => Err(Error::io("create", &self.path(name), errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_group_and_number() {
        for (group, number) in [("tracing", 1), ("a.b-c_d", 12), ("4711", 3)] {
            let granted = Granted::new(group, number);
            assert!(validate(&granted.name).is_ok(), "{granted:?}");
            assert_eq!(Granted::parse(&granted.name), Some(granted));
        }
        for name in ["sordino-4711", "sordino.tracing", "sordino.tracing.x", "sordino.tracing.01", "other"] {
            assert_eq!(Granted::parse(name), None, "{name}");
        }
    }
}
