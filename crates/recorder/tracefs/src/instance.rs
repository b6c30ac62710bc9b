//! Instances: separate trace buffers, independent of the kernel's other tracing.

use crate::dir::TracefsDir;
use crate::{Error, EventName, Tracefs};
use rustix::fs::{AtFlags, FlockOperation, Mode, flock, fstat, mkdirat, statat, unlinkat};
use rustix::io::Errno;
use std::time::{Duration, Instant as Moment};

/// Prefix of the names of instances that a process creates for itself.
pub const PREFIX: &str = "sordino-";
/// Prefix of the names of instances that a group was given, which [`sweep`](Instance::sweep) leaves alone.
pub(crate) const GRANTED: &str = "sordino.";
/// Timeout for a busy instance to become free: its files are closed a little later than the process that read them
/// exits.
pub(crate) const BUSY: Duration = Duration::from_secs(2);
/// Timeout for a lock that may only be held by a sweep.
pub(crate) const SWEEP: Duration = Duration::from_millis(100);
/// Pause between two attempts.
pub(crate) const PAUSE: Duration = Duration::from_millis(2);

/// A trace buffer with its own settings. Dropping it removes the instance; a [taken](Self::take) one is
/// [reset](Self::reset) instead.
///
/// Its directory is locked with `flock` as long as the instance lives. Another process can thus find out whether the
/// instance is in use, even after its process has died; process ids would not do, because they are reused.
#[derive(Debug)]
pub struct Instance {
    pub(crate) tracefs: Tracefs,
    /// Directory of the instance, whose descriptor holds the lock.
    pub(crate) dir: TracefsDir,
    name: String,
    /// True if the instance was prepared, and stays for the next user.
    pub(crate) stays: bool,
    removed: bool,
    /// Events that have a filter.
    pub(crate) filtered: Vec<EventName>,
}

impl Instance {
    pub(crate) fn new(tracefs: &Tracefs, dir: TracefsDir, name: String, stays: bool) -> Self {
        Self { tracefs: tracefs.clone(), dir, name, stays, removed: false, filtered: Vec::new() }
    }

    /// Creates an instance called `name`, which must begin with [`PREFIX`]. It traces nothing yet.
    ///
    /// # Errors
    /// [`Error::InUse`] if an instance of that name is in use; an unused one is replaced.
    pub fn create(tracefs: &Tracefs, name: &str) -> Result<Self, Error> {
        if !name.starts_with(PREFIX) {
            return Err(Error::Name(name.to_owned()));
        }
        validate(name)?;
        let instances = tracefs.root.directory("instances")?;
        let since = Moment::now();
        loop {
            let created = match mkdirat(&instances.fd, name, Mode::from_raw_mode(0o750)) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(errno) => return Err(Error::io("create", &instances.path(name), errno)),
            };
            match lock(&instances, name)? {
                InstanceLock::Held(dir) if created => {
                    return Ok(Self::new(tracefs, dir, name.to_owned(), false));
                }
                InstanceLock::Held(dir) => remove(&instances, &dir, name)?,
                // A new instance without a lock looks abandoned: a sweep may hold the lock, or have removed the
                // instance.
                InstanceLock::Busy | InstanceLock::Gone if since.elapsed() < SWEEP => {
                    std::thread::sleep(PAUSE)
                }
                InstanceLock::Busy | InstanceLock::Gone => return Err(Error::InUse(name.to_owned())),
            }
        }
    }

    /// Returns the instance's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Removes the instance, or resets it if it was taken. Unread records are lost.
    ///
    /// # Errors
    /// Returns the errors of [`remove_by_name`](Self::remove_by_name) and [`reset`](Self::reset).
    pub fn remove(mut self) -> Result<(), Error> {
        self.removed = true;
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        if self.stays {
            return self.reset();
        }
        remove(&self.tracefs.root.directory("instances")?, &self.dir, &self.name)
    }

    /// Removes the instance called `name`, even if it is in use; to be called after its process has died. Succeeds if
    /// there is none.
    ///
    /// # Errors
    /// [`Error::Busy`] if a process still has it open after two seconds.
    pub fn remove_by_name(tracefs: &Tracefs, name: &str) -> Result<(), Error> {
        validate(name)?;
        let instances = tracefs.root.directory("instances")?;
        match instances.directory(name) {
            Ok(dir) => remove(&instances, &dir, name),
            Err(Error::Missing { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes all unused instances of sordino, which killed processes have left, and returns their names.
    ///
    /// # Errors
    /// Returns an error if an instance cannot be removed; the others are removed.
    pub fn sweep(tracefs: &Tracefs) -> Result<Vec<String>, Error> {
        let instances = tracefs.root.directory("instances")?;
        let (mut swept, mut failed) = (Vec::new(), Ok(()));
        for name in instances.entries()?.into_iter().filter(|name| name.starts_with(PREFIX)) {
            let dir = match lock(&instances, &name) {
                Ok(InstanceLock::Held(dir)) => dir,
                Ok(InstanceLock::Busy | InstanceLock::Gone) => continue,
                // The instance belongs to another user, who has to sweep it.
                Err(Error::NotPermitted { .. }) => continue,
                Err(error) => return Err(error),
            };
            match remove(&instances, &dir, &name) {
                Ok(()) => swept.push(name),
                Err(error) => failed = Err(error),
            }
        }
        failed.map(|()| swept)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if !self.removed {
            // If this fails, a sweep removes the instance, or the next process that takes it resets it.
            let _ = self.end();
        }
    }
}

impl Tracefs {
    /// Returns the names of all instances, of sordino and others.
    ///
    /// # Errors
    /// Returns an error if the instances cannot be listed.
    pub fn instances(&self) -> Result<Vec<String>, Error> {
        self.root.directory("instances")?.entries()
    }
}

pub(crate) fn validate(name: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match name.strip_prefix(PREFIX).or_else(|| name.strip_prefix(GRANTED)) {
        Some(rest) if !rest.is_empty() && name.len() <= 255 && rest.chars().all(plain) => Ok(()),
        _ => Err(Error::Name(name.to_owned())),
    }
}

/// Result of locking an instance.
pub(crate) enum InstanceLock {
    /// The lock is held, and the instance exists.
    Held(TracefsDir),
    /// Another process holds the lock.
    Busy,
    /// There is no instance of that name, or it was replaced meanwhile.
    Gone,
}

pub(crate) fn lock(instances: &TracefsDir, name: &str) -> Result<InstanceLock, Error> {
    let dir = match instances.directory(name) {
        Ok(dir) => dir,
        Err(Error::Missing { .. }) => return Ok(InstanceLock::Gone),
        Err(error) => return Err(error),
    };
    match flock(&dir.fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(InstanceLock::Busy),
        Err(errno) => return Err(Error::io("lock", &instances.path(name), errno)),
    }
    Ok(if is_there(instances, &dir, name) { InstanceLock::Held(dir) } else { InstanceLock::Gone })
}

/// Returns true if `dir` is still the directory called `name`: it may have been removed and recreated.
fn is_there(instances: &TracefsDir, dir: &TracefsDir, name: &str) -> bool {
    match (fstat(&dir.fd), statat(&instances.fd, name, AtFlags::empty())) {
        (Ok(ours), Ok(there)) => ours.st_ino == there.st_ino,
        _ => false,
    }
}

/// Removes the instance of the directory `dir`.
pub(crate) fn remove(instances: &TracefsDir, dir: &TracefsDir, name: &str) -> Result<(), Error> {
    if !is_there(instances, dir, name) {
        return Ok(());
    }
    // This keeps a slow reader from getting more records; removing the instance stops everything else.
    let _ = dir.write("tracing_on", "0");
    let _ = dir.write("events/enable", "0");
    let since = Moment::now();
    loop {
        match unlinkat(&instances.fd, name, AtFlags::REMOVEDIR) {
            // NODEV: another process was removing the instance at the same time.
            Ok(()) | Err(Errno::NOENT | Errno::NODEV) => return Ok(()),
            Err(Errno::BUSY) if since.elapsed() < BUSY => std::thread::sleep(PAUSE),
            Err(Errno::BUSY) => return Err(Error::Busy(name.to_owned())),
            Err(errno) => return Err(Error::io("remove", &instances.path(name), errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_are_names() {
        for name in ["sordino-1", "sordino-npt.2_b"] {
            assert!(validate(name).is_ok(), "{name}");
        }
        let long = PREFIX.to_owned() + &"x".repeat(255);
        for name in ["", "sordino-", "other", "sordino-a/b", "sordino-..\n", "../sordino-a", &long] {
            assert!(matches!(validate(name), Err(Error::Name(_))), "{name}");
        }
    }
}
