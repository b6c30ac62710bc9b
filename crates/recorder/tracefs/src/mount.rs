//! Access to the kernel's tracer: an existing mount of tracefs, or a private one.

use crate::Error;
use crate::dir::TracefsDir;
use rustix::fs::{Mode, OFlags, fstatfs, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// Usual mount points; the second dates from before tracefs was a file system of its own.
const MOUNT_POINTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Magic number of the file system: `TRACEFS_MAGIC` in `linux/magic.h`.
const TRACEFS_MAGIC: u32 = 0x7472_6163;

/// The kernel's tracer.
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
    pub(crate) root: Arc<TracefsDir>,
}

impl Tracefs {
    /// Opens the mounted tracefs or, if there is none, a private mount, which is invisible to others and disappears
    /// with its last descriptor, so that nothing has to be cleaned up.
    ///
    /// # Errors
    /// [`Error::NoTracefs`], [`Error::Lockdown`] and [`Error::NotPermitted`] have different remedies.
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
            // In lockdown, the kernel shows an empty directory.
            Err(Error::Missing { .. }) if confidential() => Err(Error::Lockdown),
            Err(Error::Missing { .. }) => Err(Error::NoTracefs),
            Err(error) => Err(error),
        }
    }
}

/// Returns the mount point that all users can reach, if tracefs is mounted there: the parent of the older mount point
/// is accessible to root only.
pub fn mount_point() -> Option<&'static Path> {
    let path = Path::new(MOUNT_POINTS[0]);
    matches!(mounted(path), Ok(Some(_))).then_some(path)
}

/// Opens the tracefs mounted at `path`, if there is one.
fn mounted(path: &Path) -> Result<Option<TracefsDir>, Error> {
    // O_PATH, because the directory may be searchable but not readable.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(rustix::fs::CWD, path, flags, Mode::empty()) {
        Ok(fd) => {
            let kind = fstatfs(&fd).map_err(|errno| Error::io("inspect", path, errno))?.f_type;
            Ok((kind as u32 == TRACEFS_MAGIC).then(|| TracefsDir::new(fd, path)))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(Error::io("open", path, errno)),
    }
}

/// Creates a mount of tracefs that is attached nowhere.
fn private() -> Result<TracefsDir, Error> {
    let mount = || -> rustix::io::Result<OwnedFd> {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
        // The mount's descriptor can only be used to open others, not to list the directory.
        openat(&mount, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    };
    mount().map(|fd| TracefsDir::new(fd, "tracefs:")).map_err(|errno| match errno {
        Errno::NODEV => Error::NoTracefs,
        Errno::PERM if confidential() => Error::Lockdown,
        errno => Error::io("mount", Path::new("tracefs"), errno),
    })
}

fn confidential() -> bool {
    let state = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    is_confidential(&state)
}

/// Returns true if the kernel's list of lockdown modes marks the strictest one with brackets.
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
