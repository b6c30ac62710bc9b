//! Instances: trace buffers of our own, beside what others trace.

use crate::dir::Dir;
use crate::grant::GRANTED;
use crate::{Error, EventName, Tracefs};
use rustix::fs::{AtFlags, FlockOperation, Mode, flock, fstat, mkdirat, statat, unlinkat};
use rustix::io::Errno;
use std::time::{Duration, Instant as Moment};

/// What the names of the instances begin with that a process makes for itself.
pub const PREFIX: &str = "sordino-";
/// For how long a busy instance is given the chance to become free: its files are closed a little later than
/// the process that read them ends.
pub(crate) const BUSY: Duration = Duration::from_secs(2);
/// For how long a lock may be no more than a sweep's.
pub(crate) const SWEEP: Duration = Duration::from_millis(100);
/// Between two tries.
pub(crate) const PAUSE: Duration = Duration::from_millis(2);

/// A trace buffer of our own with settings of its own, removed on drop. One that was [taken](Self::take) is [reset](Self::reset) instead.
///
/// Its directory is locked with `flock` as long as the instance lives. So whoever finds an instance of ours
/// knows whether it is in use, whatever became of its process; ids of processes are used again.
#[derive(Debug)]
pub struct Instance {
    pub(crate) tracefs: Tracefs,
    /// Holds the lock.
    pub(crate) dir: Dir,
    name: String,
    /// Whether it was made ahead, and is there for the next.
    pub(crate) stays: bool,
    removed: bool,
    /// Which events have a filter.
    pub(crate) filtered: Vec<EventName>,
}

impl Instance {
    pub(crate) fn new(tracefs: &Tracefs, dir: Dir, name: String, stays: bool) -> Self {
        Self { tracefs: tracefs.clone(), dir, name, stays, removed: false, filtered: Vec::new() }
    }

    /// Creates an instance called `name`, which begins with [`PREFIX`]. It traces nothing yet.
    ///
    /// # Errors
    /// [`Error::InUse`] if there is one of that name in use; one that nobody uses is replaced.
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
                Lock::Held(dir) if created => return Ok(Self::new(tracefs, dir, name.to_owned(), false)),
                Lock::Held(dir) => remove(&instances, &dir, name)?,
                // What has no lock yet looks left behind: a sweep may hold or have removed what was created here.
                Lock::Busy | Lock::Gone if since.elapsed() < SWEEP => std::thread::sleep(PAUSE),
                Lock::Busy | Lock::Gone => return Err(Error::InUse(name.to_owned())),
            }
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Removes the instance, or resets it where it was taken; what was traced and not read is gone with it.
    ///
    /// # Errors
    /// As for [`remove_by_name`](Self::remove_by_name) and [`reset`](Self::reset).
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

    /// Removes the instance called `name`, whoever uses it; to be called for one whose process is gone. That
    /// there is none is as good.
    ///
    /// # Errors
    /// [`Error::Busy`] if after two seconds some process still has it open.
    pub fn remove_by_name(tracefs: &Tracefs, name: &str) -> Result<(), Error> {
        validate(name)?;
        let instances = tracefs.root.directory("instances")?;
        match instances.directory(name) {
            Ok(dir) => remove(&instances, &dir, name),
            Err(Error::Missing { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes every instance of ours that nobody uses, left by a process that was killed, and returns their
    /// names.
    ///
    /// # Errors
    /// If one can't be removed; the others are.
    pub fn sweep(tracefs: &Tracefs) -> Result<Vec<String>, Error> {
        let instances = tracefs.root.directory("instances")?;
        let (mut swept, mut failed) = (Vec::new(), Ok(()));
        for name in instances.entries()?.into_iter().filter(|name| name.starts_with(PREFIX)) {
            let dir = match lock(&instances, &name) {
                Ok(Lock::Held(dir)) => dir,
                Ok(Lock::Busy | Lock::Gone) => continue,
                // Another user's, who sweeps it.
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
            // A sweep finds what could not be removed, and who takes what could not be reset does that first.
            let _ = self.end();
        }
    }
}

impl Tracefs {
    /// The names of all instances, ours and others'.
    ///
    /// # Errors
    /// If they can't be listed.
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

/// What became of locking an instance.
pub(crate) enum Lock {
    /// It is ours and exists.
    Held(Dir),
    /// Another process has it.
    Busy,
    /// There is none of that name, or not the same any more.
    Gone,
}

pub(crate) fn lock(instances: &Dir, name: &str) -> Result<Lock, Error> {
    let dir = match instances.directory(name) {
        Ok(dir) => dir,
        Err(Error::Missing { .. }) => return Ok(Lock::Gone),
        Err(error) => return Err(error),
    };
    match flock(&dir.fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(Lock::Busy),
        Err(errno) => return Err(Error::io("lock", &instances.path(name), errno)),
    }
    Ok(if is_there(instances, &dir, name) { Lock::Held(dir) } else { Lock::Gone })
}

/// Whether `dir` is still what is called `name`: it may have been removed, and another made anew.
fn is_there(instances: &Dir, dir: &Dir, name: &str) -> bool {
    match (fstat(&dir.fd), statat(&instances.fd, name, AtFlags::empty())) {
        (Ok(ours), Ok(there)) => ours.st_ino == there.st_ino,
        _ => false,
    }
}

/// Removes the instance behind `dir`.
pub(crate) fn remove(instances: &Dir, dir: &Dir, name: &str) -> Result<(), Error> {
    if !is_there(instances, dir, name) {
        return Ok(());
    }
    // So that a reader that is slow to go does not have more to read; the removal itself ends what is left.
    let _ = dir.write("tracing_on", "0");
    let _ = dir.write("events/enable", "0");
    let since = Moment::now();
    loop {
        match unlinkat(&instances.fd, name, AtFlags::REMOVEDIR) {
            // The last when someone else was removing it at the same time.
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
