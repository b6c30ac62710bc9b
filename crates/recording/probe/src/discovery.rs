//! The discovery of recorders that did not start this program: a [directory of
//! sessions](sordino_registration::RuntimeBase) has a directory for each session, in which its recorder listens. The
//! recorder's side is `crates/recorder/intake/src/runtime.rs`.
//!
//! A directory is used only if nobody but root and the program's user can have written to it: else any user could make
//! every program wait. All of this may run in a fork's child: no lock, no allocation.

use crate::connection::Address;
use crate::system;
use crate::text::Cursor;
use sordino_registration::trust::vet_directory;
use sordino_registration::{MAX_ENTRIES, SESSIONS, Socket, SocketPath, is_session_name, searched};
use std::ffi::CStr;
use std::fmt::{Display, Write};
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Calls `register` with the address of each session with which this program has to register. The directory `named`, if
/// there is one, is searched instead of the user's own directories of sessions.
pub(crate) fn each_session(named: Option<&CStr>, mut register: impl FnMut(&Address)) {
    let user = system::effective_user();
    let trusted = |at: RawFd, name: &CStr| TrustedDirectory::open(at, name, user);
    let below = |base: &CStr| trusted(libc::AT_FDCWD, base).and_then(|base| trusted(base.fd(), SESSIONS));
    let mut search = |sessions: Option<TrustedDirectory>| {
        if let Some(sessions) = sessions {
            sessions.each_session(user, &mut register);
        }
    };
    for base in searched(user, named.is_some()) {
        let mut room = [0; 64];
        search(path(&mut room, base).and_then(below));
    }
    if let Some(path) = named {
        search(trusted(libc::AT_FDCWD, path));
    }
}

/// A directory to which nobody but root and the program's user can have written.
struct TrustedDirectory(OwnedFd);

impl TrustedDirectory {
    /// Opens `name` in the directory `at`, if it can be trusted, as the start of paths (`O_PATH`), not for reading.
    fn open(at: RawFd, name: &CStr, user: u32) -> Option<Self> {
        let directory = Self(open(at, name, libc::O_PATH)?);
        // SAFETY: a `stat` of zeros is a valid one.
        let mut stat: libc::stat = unsafe { zeroed() };
        // SAFETY: the call writes to `stat` only, which outlives it.
        let is_known = unsafe { libc::fstat(directory.fd(), &mut stat) } == 0;
        (is_known && vet_directory(stat.st_uid, stat.st_mode, user).is_ok()).then_some(directory)
    }

    fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Calls `register` with the address of each session's socket in this directory.
    fn each_session(&self, user: u32, mut register: impl FnMut(&Address)) {
        let Some(list) = open(self.fd(), c".", libc::O_RDONLY) else { return };
        let mut left = MAX_ENTRIES;
        let mut buffer = [0u8; 2048];
        while left > 0 {
            // SAFETY: the call writes at most `buffer.len()` bytes to the buffer.
            let length = unsafe {
                libc::syscall(libc::SYS_getdents64, list.as_raw_fd(), buffer.as_mut_ptr(), buffer.len())
            };
            let Some(entries @ [_, ..]) = usize::try_from(length).ok().and_then(|end| buffer.get(..end))
            else {
                return;
            };
            for name in Names(entries).filter(|name| !name.to_bytes().starts_with(b".")).take(left) {
                left -= 1;
                if is_session_name(name.to_bytes()) {
                    // The session's directory stays open while its address leads through it, so the program connects to
                    // a socket in the directory that was vetted.
                    let session = Self::open(self.fd(), name, user);
                    session.iter().filter_map(Self::address).for_each(|address| register(&address));
                }
            }
        }
    }

    /// Returns the address of the socket in this session's directory, valid as long as the directory is open.
    fn address(&self) -> Option<Address> {
        let mut room = [0; 64];
        let path = path(&mut room, SocketPath(self.fd()))?;
        Address::of(Socket::Path(path.to_bytes()))
    }
}

fn open(at: RawFd, name: &CStr, access: libc::c_int) -> Option<OwnedFd> {
    let flags = access | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: `name` is a string that ends with a zero byte.
    let fd = unsafe { libc::openat(at, name.as_ptr(), flags) };
    // SAFETY: the call has just returned the descriptor, and nothing else owns it.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Writes a path into `room`; returns `None` if it does not fit.
fn path(room: &mut [u8; 64], path: impl Display) -> Option<&CStr> {
    write!(Cursor::new(room), "{path}\0").ok()?;
    CStr::from_bytes_until_nul(room).ok()
}

/// The names in the entries that getdents64(2) has returned.
struct Names<'a>(&'a [u8]);

impl<'a> Iterator for Names<'a> {
    type Item = &'a CStr;

    fn next(&mut self) -> Option<&'a CStr> {
        // `struct linux_dirent64`: u64 inode, i64 offset, u16 length of the entry, u8 type, the name.
        let length = u16::from_ne_bytes(self.0.get(16..18)?.try_into().ok()?);
        let (entry, rest) = self.0.split_at_checked(usize::from(length))?;
        self.0 = rest;
        CStr::from_bytes_until_nul(entry.get(19..)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_registration::RuntimeBase;

    #[test]
    fn entries_are_read_as_the_kernel_writes_them_and_garbage_ends_them() {
        let entry = |name: &[u8], length: usize| {
            let mut bytes = vec![7u8; 16];
            bytes.extend((length as u16).to_ne_bytes());
            bytes.push(libc::DT_DIR);
            bytes.extend(name);
            bytes.resize(length.max(bytes.len()), 0);
            bytes
        };
        let both = [entry(b"..", 24), entry(b"first-one", 32)].concat();
        assert_eq!(Names(&both).collect::<Vec<_>>(), [c"..", c"first-one"]);
        assert_eq!(Names(&both[..both.len() - 1]).count(), 1);
        for length in [0, 18, 19, 4096] {
            assert_eq!(Names(&entry(b"", length)[..19]).count(), 0);
        }
        assert_eq!(Names(&[]).count(), 0);
    }

    #[test]
    fn paths_are_made_without_allocation_or_not_at_all() {
        let mut room = [0; 64];
        assert_eq!(path(&mut room, RuntimeBase::Temporary(u32::MAX)), Some(c"/tmp/sordino-4294967295"));
        assert_eq!(path(&mut room, RuntimeBase::LoggedIn(u32::MAX)), Some(c"/run/user/4294967295/sordino"));
        assert_eq!(path(&mut room, format_args!("{:64}", 1)), None);
        let longest = path(&mut room, SocketPath(i32::MAX)).unwrap();
        assert!(Address::of(Socket::Path(longest.to_bytes())).is_some());
    }
}
