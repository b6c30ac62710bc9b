//! Instances that root makes ahead for a group.
//!
//! A group can't be given the right to make its own: the kernel gives a new instance's files to the owner of `instances/` and lets
//! only that user write them. Files that are there already can be given away, and stay so until the instance is removed.

use crate::dir::Dir;
use crate::instance::{BUSY, Lock, PAUSE, SWEEP, lock, remove, validate};
use crate::{Error, Instance, Tracefs};
use std::collections::BTreeSet;
use std::time::Instant as Moment;

/// What their names begin with; no [`sweep`](Instance::sweep) takes them for left behind.
pub(crate) const GRANTED: &str = "sordino.";

/// What a group needs of the tracer outside of its instances: below the mount point, with these bits of the mode. They are everybody's:
/// all files take over the group of the uppermost directory, so that this group would read what root traces. Others still read
/// nothing but the names of instances and events, as long as no file is theirs to read.
pub const SHARED: [(&str, u32); 3] = [(".", 0o001), ("instances", 0o005), ("available_events", 0o004)];

/// The groups of events that members may record unless they are given all: who runs where, what interrupts, and system calls. Their
/// fields hold names of programs and of executed files, addresses of the kernel's code and data (`timer`, `workqueue`, `irq`, `ipi`,
/// `csd`, `nmi`) and of programs' (`exceptions`, `signal`), and system calls' arguments as numbers; not the content of files, packets,
/// buses (`i2c`, `spi`), block commands or user memory (`syscalls`), nor the kernel's allocations (`kmem`).
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

/// The switch of all events at once. Whoever may write it may record every event.
const ALL_EVENTS: &str = "events/enable";

/// What a group may read and write in its instances, each CPU's and each event's files aside. Neither tracers nor triggers, which
/// do more than record.
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

/// What a buffer that nobody uses is left with.
const LEAST_KIB: u64 = 8;

/// The events that a group may record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Events {
    /// Those of the groups [`USUAL`].
    Usual,
    /// All that the kernel has.
    All,
}

impl Events {
    fn has(self, system: &str) -> bool {
        self == Self::All || USUAL.contains(&system)
    }
}

/// An instance that was made ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Its name in `instances/`.
    pub name: String,
    /// The group's, as it was called then.
    pub group: String,
    /// From 1.
    pub number: u32,
}

impl Granted {
    /// Instance `number` of the group called `group`.
    pub fn new(group: &str, number: u32) -> Self {
        Self { name: format!("{GRANTED}{group}.{number}"), group: group.to_owned(), number }
    }

    fn parse(name: &str) -> Option<Self> {
        let (group, number) = name.strip_prefix(GRANTED)?.rsplit_once('.')?;
        Some(Self::new(group, number.parse().ok()?)).filter(|granted| granted.name == name)
    }
}

impl Tracefs {
    /// The instances that were made ahead, of whatever group.
    ///
    /// # Errors
    /// If they can't be listed.
    pub fn granted(&self) -> Result<Vec<Granted>, Error> {
        Ok(self.instances()?.iter().filter_map(|name| Granted::parse(name)).collect())
    }

    /// Makes an instance for the group with this id, or gives it what it lacks of one that is there. The group may then read it, record
    /// these events and set what a recording sets, nothing else. What modules bring with them later is closed to it.
    ///
    /// # Errors
    /// [`Error::GivesAll`] if the instance is there and gives more events: whoever has a file of it open would keep them.
    /// [`Error::Busy`] if it was [closed](Self::close) and some process still has it open. If it can't be made or given away.
    pub fn grant(&self, granted: &Granted, group: u32, events: Events) -> Result<(), Error> {
        validate(&granted.name)?;
        let instances = self.root.directory("instances")?;
        if let Ok(closed) = instances.directory(&granted.name)
            && closed.mode(".")? & LIST == 0
        {
            // Closed since it could not be removed: a process that was a member's may still read it.
            remove(&instances, &closed, &granted.name)?;
        }
        let dir = instances.make(&granted.name)?;
        if events == Events::Usual && dir.mode(ALL_EVENTS)? & 0o020 != 0 {
            return Err(Error::GivesAll(granted.name.clone()));
        }
        for (name, bits) in self.files(&dir, events)? {
            there(dir.give(&name, group, bits))?;
        }
        // Last: nobody takes one that is only half given.
        dir.give(".", group, LIST)
    }

    /// Closes an instance to its group and stops it. A file of it that a member has open stays so.
    ///
    /// # Errors
    /// If it is there and can't be closed.
    pub fn close(&self, granted: &Granted) -> Result<(), Error> {
        validate(&granted.name)?;
        let dir = match self.root.directory("instances")?.directory(&granted.name) {
            Err(Error::Missing { .. }) => return Ok(()),
            dir => dir?,
        };
        // First the way in.
        dir.withdraw(".")?;
        for (name, _) in self.files(&dir, Events::All)? {
            there(dir.withdraw(&name))?;
        }
        dir.write(ALL_EVENTS, "0")?;
        dir.write("tracing_on", "0")
    }

    /// What is given of an instance, and with which bits of the mode. Some kernels or events lack some.
    fn files(&self, dir: &Dir, events: Events) -> Result<Vec<(String, u32)>, Error> {
        let mut files: Vec<(String, u32)> = SETTINGS.map(|name| (name.to_owned(), WRITE)).into();
        files.extend(["options", "per_cpu"].map(|name| (name.to_owned(), LIST)));
        for cpu in dir.directory("per_cpu")?.entries()? {
            let parts = [("", LIST), ("/trace_pipe_raw", READ), ("/stats", READ)];
            files.extend(parts.map(|(name, bits)| (format!("per_cpu/{cpu}{name}"), bits)));
        }
        files.extend(["header_page", "header_event"].map(|name| (format!("events/{name}"), READ)));
        if events == Events::All {
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

    /// Whether somebody has taken it. Who asks may belong to the group, or be root.
    ///
    /// # Errors
    /// If it can't be looked at.
    pub fn is_taken(&self, granted: &Granted) -> Result<bool, Error> {
        Ok(matches!(lock(&self.root.directory("instances")?, &granted.name)?, Lock::Busy))
    }
}

/// A file that some kernels or events do not have needs not be given.
fn there(given: Result<(), Error>) -> Result<(), Error> {
    match given {
        Err(Error::Missing { .. }) => Ok(()),
        given => given,
    }
}

impl Instance {
    /// Takes a free one of the instances that were made ahead for a group that this process is in; `None` if there is none for it.
    /// Nobody else gets it as long as the result lives. It is as it was left: [`reset`](Self::reset) it first.
    ///
    /// # Errors
    /// [`Error::AllTaken`].
    pub fn take(tracefs: &Tracefs) -> Result<Option<Self>, Error> {
        let instances = tracefs.root.directory("instances")?;
        let since = Moment::now();
        loop {
            let mut taken = 0;
            for Granted { name, .. } in tracefs.granted()? {
                match lock(&instances, &name) {
                    Ok(Lock::Held(dir)) => return Ok(Some(Self::new(tracefs, dir, name, true))),
                    Ok(Lock::Busy) => taken += 1,
                    Ok(Lock::Gone) => {}
                    // Another group's.
                    Err(Error::NotPermitted { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            match taken {
                0 => return Ok(None),
                // Someone may only have looked whether it is taken.
                _ if since.elapsed() < SWEEP => std::thread::sleep(PAUSE),
                _ => return Err(Error::AllTaken(taken)),
            }
        }
    }

    /// Makes the instance trace nothing, with the settings of a new one, an empty buffer and as little memory as there can be.
    ///
    /// # Errors
    /// If the kernel refuses one of the settings.
    pub fn reset(&mut self) -> Result<(), Error> {
        self.set_tracing(false)?;
        self.disable_all()?;
        self.filtered.clear();
        for file in self.tracefs.events()?.iter().map(|event| event.file("filter")) {
            match self.dir.read(&file) {
                // To take away what is not there would wait for all CPUs each time.
                Ok(filter) if filter.trim() == "none" => {}
                Ok(_) => self.dir.write(&file, "0")?,
                // A module's that was loaded since it was given, or that is gone, or an event that has none.
                Err(Error::NotPermitted { .. } | Error::Missing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.set_threads(&[], false)?;
        self.set_cpus(&self.cpus()?)?;
        self.set_overwrite(true)?;
        // Also empties the buffer and clears its counts.
        self.set_clock("local")?;
        self.set_buffer_kib(LEAST_KIB).map(drop)
    }

    /// Disables all events, or all that this process may disable: of the others, nobody in its group can have enabled one.
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

    /// Resets the instance called `name`, which was made ahead, for one who took it and is gone. That somebody else has taken it since,
    /// or that it was removed, is as good.
    ///
    /// # Errors
    /// As for [`reset`](Self::reset).
    pub fn reset_by_name(tracefs: &Tracefs, name: &str) -> Result<(), Error> {
        validate(name)?;
        let instances = tracefs.root.directory("instances")?;
        let since = Moment::now();
        loop {
            match lock(&instances, name)? {
                Lock::Held(dir) => return Self::new(tracefs, dir, name.to_owned(), true).remove(),
                Lock::Busy if since.elapsed() < BUSY => std::thread::sleep(PAUSE),
                Lock::Busy | Lock::Gone => return Ok(()),
            }
        }
    }
}

impl Dir {
    /// Makes the directory called `name`, if there is none.
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
    fn a_name_says_group_and_number() {
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
