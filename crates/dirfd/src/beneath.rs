//! Opening a name below a descriptor.

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Component, Path};
use std::sync::OnceLock;

/// The way in which names are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By openat2(2), in the kernel.
    Kernel,
    /// One component at a time: before Linux 5.6, and where a container's seccomp filter does not know the call.
    Steps,
}

impl Way {
    /// The kernel's, where it can be had.
    pub(crate) fn best() -> Self {
        static BEST: OnceLock<Way> = OnceLock::new();
        *BEST.get_or_init(|| {
            // Not with O_PATH: openat2 refuses that flag together with O_NONBLOCK.
            match openat2(rustix::fs::CWD, ".", OFlags::RDONLY | FLAGS, Mode::empty(), RESOLVE) {
                Err(Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP) => Self::Steps,
                _ => Self::Kernel,
            }
        })
    }
}

const RESOLVE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// Whatever lies there is not waited for, becomes nobody's terminal, and is passed on to no other program.
const FLAGS: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens `name`, a relative path of plain names, below `dir`.
///
/// # Errors
/// `InvalidInput` if it is no such path; `NotADirectory` or `FilesystemLoop` if a component is a link; what the kernel says.
pub(crate) fn open(
    dir: BorrowedFd<'_>,
    name: &Path,
    flags: OFlags,
    mode: Mode,
    way: Way,
) -> io::Result<OwnedFd> {
    let parts: Vec<Component<'_>> = name.components().collect();
    let is_plain = !parts.is_empty() && parts.iter().all(|part| matches!(part, Component::Normal(_)));
    if !is_plain {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{}: no plain path", name.display()),
        ));
    }
    if way == Way::Kernel {
        return again(|| openat2(dir, name, flags | FLAGS, mode, RESOLVE));
    }
    let (last, before) = parts.split_last().map_or((&parts[0], &[][..]), |split| split);
    let mut at: Option<OwnedFd> = None;
    for part in before {
        let from = at.as_ref().map_or(dir, std::os::fd::AsFd::as_fd);
        let next =
            again(|| openat(from, part.as_os_str(), OFlags::PATH | OFlags::DIRECTORY | FLAGS, Mode::empty()));
        at = Some(next?);
    }
    let from = at.as_ref().map_or(dir, std::os::fd::AsFd::as_fd);
    again(|| openat(from, last.as_os_str(), flags | FLAGS, mode))
}

/// A call that a signal interrupted, or that met a rename (openat2 says EAGAIN), is made again, but not for ever.
fn again(mut call: impl FnMut() -> rustix::io::Result<OwnedFd>) -> io::Result<OwnedFd> {
    const TRIES: usize = 32;
    let mut result = call();
    for _ in 0..TRIES {
        match result {
            Err(Errno::INTR | Errno::AGAIN) => result = call(),
            _ => break,
        }
    }
    Ok(result?)
}
