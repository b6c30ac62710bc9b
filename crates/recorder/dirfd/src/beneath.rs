//! Opens a name below a directory's descriptor.

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Component, Path};
use std::sync::OnceLock;

/// Method by which names are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// openat2(2): the kernel resolves the whole path.
    Kernel,
    /// openat(2) for each component: before Linux 5.6, and in containers whose seccomp filter rejects openat2(2).
    Steps,
}

impl Way {
    /// Returns [`Kernel`](Self::Kernel) if openat2(2) works, checked once.
    pub(crate) fn best() -> Self {
        static BEST: OnceLock<Way> = OnceLock::new();
        *BEST.get_or_init(|| {
            // O_PATH would not do here: openat2 rejects it together with O_NONBLOCK.
            match openat2(rustix::fs::CWD, ".", OFlags::RDONLY | FLAGS, Mode::empty(), RESOLVE) {
                Err(Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP) => Self::Steps,
                _ => Self::Kernel,
            }
        })
    }
}

const RESOLVE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// Opening never blocks on a FIFO, never acquires a controlling terminal, and the descriptor is closed on exec.
const FLAGS: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens `name`, a relative path of plain names, below `dir`.
///
/// # Errors
/// `InvalidInput` if `name` is no such path; `NotADirectory` or `FilesystemLoop` if a component is a link; otherwise
/// the kernel's error.
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

/// Repeats a call that a signal interrupted or that raced with a rename (openat2 returns EAGAIN), at most 32 times.
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
