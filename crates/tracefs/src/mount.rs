//! Where the kernel's tracer is reached.

use crate::Error;
use crate::dir::Dir;
use rustix::fs::{Mode, OFlags, fstatfs, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// Where it usually is; the second since before it had a file system of its own.
const MOUNT_POINTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// `TRACEFS_MAGIC` of the kernel.
const TRACEFS_MAGIC: u32 = 0x7472_6163;

/// The kernel's tracer as a whole.
///
/// ```no_run
/// let tracefs = sordino_tracefs::Tracefs::open()?;
/// for event in tracefs.events()? {
///     println!("{event}");
/// }
/// # Ok::<(), sordino_tracefs::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tracefs {
    pub(crate) root: Arc<Dir>,
}

impl Tracefs {
    /// Opens the mounted tracefs, or, where there is none, one of its own that nobody else sees and that goes
    /// with the last descriptor: nothing is left to clean up.
    ///
    /// # Errors
    /// [`Error::NoTracefs`], [`Error::Lockdown`] and [`Error::NotPermitted`] tell apart what is to be done.
    pub fn open() -> Result<Self, Error> {
        let mut root = None;
        for path in MOUNT_POINTS {
            root = mounted(Path::new(path))?;
            if root.is_some() {
                break;
            }
        }
        let root = root.map_or_else(private, Ok)?;
        match root.directory("instances") {
            Ok(_) => Ok(Self { root: Arc::new(root) }),
            // The kernel shows an empty directory then.
            Err(Error::Missing { .. }) if confidential() => Err(Error::Lockdown),
            Err(Error::Missing { .. }) => Err(Error::NoTracefs),
            Err(error) => Err(error),
        }
    }
}

/// Where all users find tracefs, if it is mounted there: what lies above the older place is root's alone.
pub fn mount_point() -> Option<&'static Path> {
    let path = Path::new(MOUNT_POINTS[0]);
    matches!(mounted(path), Ok(Some(_))).then_some(path)
}

/// The tracefs mounted at `path`, if there is one.
fn mounted(path: &Path) -> Result<Option<Dir>, Error> {
    // Who may walk through it may not be allowed to list it.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(rustix::fs::CWD, path, flags, Mode::empty()) {
        Ok(fd) => {
            let kind = fstatfs(&fd).map_err(|errno| Error::io("inspect", path, errno))?.f_type;
            Ok((kind as u32 == TRACEFS_MAGIC).then(|| Dir::new(fd, path)))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(Error::io("open", path, errno)),
    }
}

/// A mount that is attached nowhere.
fn private() -> Result<Dir, Error> {
    let mount = || -> rustix::io::Result<OwnedFd> {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
        // The mount itself can only be walked through, not listed.
        openat(&mount, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    };
    mount().map(|fd| Dir::new(fd, "tracefs:")).map_err(|errno| match errno {
        Errno::NODEV => Error::NoTracefs,
        Errno::PERM if confidential() => Error::Lockdown,
        errno => Error::io("mount", Path::new("tracefs"), errno),
    })
}

fn confidential() -> bool {
    let state = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    is_confidential(&state)
}

/// Whether the kernel's list of lockdown modes has the strictest in brackets, which mark the one in force.
fn is_confidential(modes: &str) -> bool {
    modes.split_whitespace().any(|mode| mode == "[confidentiality]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_mode_in_force_counts() {
        assert!(is_confidential("none integrity [confidentiality]\n"));
        assert!(!is_confidential("none [integrity] confidentiality\n"));
        assert!(!is_confidential(""));
    }

    #[test]
    fn a_directory_that_is_no_tracefs_is_not_taken_for_one() {
        assert!(mounted(Path::new("/proc")).unwrap().is_none());
        assert!(mounted(Path::new("/nonexistent")).unwrap().is_none());
    }
}
