//! The directories of sessions.
//!
//! A session is a directory with a socket in it, [`SOCKET`]. It lies in a directory of sessions:
//!
//! | directory | sessions |
//! |---|---|
//! | `/run/sordino/sessions` | root's, for the programs of every user |
//! | `/run/user/UID/sordino/sessions` | those of a user who was logged in when the recorder started |
//! | `/tmp/sordino-UID/sessions` | those of other users |
//! | the value of `SORDINO_RUNTIME_DIR` | instead of the user's own two, and of root's for root's recorders |
//!
//! A recorder [chooses](chosen) one. A program [searches](searched) root's and both of its user's: `/run/user/UID`
//! exists only while the user is logged in, which may differ between the start of a recorder and that of a program.

use std::ffi::CStr;
use std::fmt;

/// The name of a recorder's socket in its session's directory.
pub const SOCKET: &str = "programs";

/// The name of the directory of sessions below a [`RuntimeBase`].
pub const SESSIONS: &CStr = c"sessions";

/// The longest name of a session, in bytes.
pub const MAX_SESSION_NAME: usize = 48;

/// The directory that holds a directory of [`SESSIONS`]. Its text is the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeBase {
    /// The base of root, for the programs of every user.
    Root,
    /// The base of a user who is logged in, by the user's id.
    LoggedIn(u32),
    /// The base of any user, by the user's id.
    Temporary(u32),
}

impl fmt::Display for RuntimeBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("/run/sordino"),
            Self::LoggedIn(user) => write!(f, "{}/sordino", LoginDirectory(*user)),
            Self::Temporary(user) => write!(f, "/tmp/sordino-{user}"),
        }
    }
}

/// The path of the directory that a user, by id, has while logged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginDirectory(
    /// The id of the user.
    pub u32,
);

impl fmt::Display for LoginDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/run/user/{}", self.0)
    }
}

/// Returns the base in which a recorder of `user` makes its session's directory, if `SORDINO_RUNTIME_DIR` names no
/// other directory. `is_logged_in` is true if the [`LoginDirectory`] exists and belongs to the user.
pub const fn chosen(user: u32, is_logged_in: bool) -> RuntimeBase {
    match (user, is_logged_in) {
        (0, _) => RuntimeBase::Root,
        (_, true) => RuntimeBase::LoggedIn(user),
        (_, false) => RuntimeBase::Temporary(user),
    }
}

/// Returns the bases in which a program of `user` searches for sessions, in this order. With `SORDINO_RUNTIME_DIR`
/// (`is_named`) it searches root's, and then the named directory.
pub fn searched(user: u32, is_named: bool) -> impl Iterator<Item = RuntimeBase> {
    let own = if user == 0 || is_named {
        [None; 2]
    } else {
        [Some(RuntimeBase::LoggedIn(user)), Some(RuntimeBase::Temporary(user))]
    };
    std::iter::once(RuntimeBase::Root).chain(own.into_iter().flatten())
}

/// Returns true if a value of `SORDINO_RUNTIME_DIR` names a directory of sessions: an absolute path. Programs ignore
/// others; recorders ignore an empty one and refuse to run with a relative one.
pub fn is_runtime_dir(value: &[u8]) -> bool {
    value.starts_with(b"/")
}

/// Returns true if a session can have this name: 1 to [`MAX_SESSION_NAME`] ASCII letters, digits, `.`, `_` and `-`,
/// neither `.` nor `-` at the start.
pub fn is_session_name(name: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    name.len() <= MAX_SESSION_NAME
        && name.first().is_some_and(|first| !b".-".contains(first))
        && name.iter().all(is_plain)
}

/// The path of the socket in a session's directory that this process has open. It leads to the directory that was
/// vetted, and fits into an address even if the directory's own path does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketPath(
    /// The number of the directory's descriptor.
    pub i32,
);

impl fmt::Display for SocketPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/proc/self/fd/{}/{SOCKET}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MAX_ADDRESS, Socket};

    #[test]
    fn a_program_searches_where_its_user_s_recorders_and_root_s_are() {
        for user in [0, 1, 1000, u32::MAX] {
            let searched: Vec<RuntimeBase> = searched(user, false).collect();
            for is_logged_in in [false, true] {
                assert!(searched.contains(&chosen(user, is_logged_in)), "{user}");
                assert!(searched.contains(&chosen(0, is_logged_in)), "{user}");
            }
            assert_eq!(searched.len(), if user == 0 { 1 } else { 3 });
        }
    }

    #[test]
    fn a_named_directory_takes_the_place_of_the_user_s_own() {
        for user in [0, 1000] {
            assert_eq!(searched(user, true).collect::<Vec<_>>(), [RuntimeBase::Root]);
        }
        assert!(is_runtime_dir(b"/") && is_runtime_dir(b"/tmp/x"));
        assert!(!is_runtime_dir(b"") && !is_runtime_dir(b"tmp") && !is_runtime_dir(b"./x"));
    }

    #[test]
    fn each_user_has_directories_of_its_own() {
        let paths = |user| searched(user, false).map(|base| base.to_string()).collect::<Vec<_>>();
        assert_eq!(paths(0), ["/run/sordino"]);
        assert_eq!(paths(1000), ["/run/sordino", "/run/user/1000/sordino", "/tmp/sordino-1000"]);
    }

    #[test]
    fn names_of_sessions_are_plain_and_short() {
        for name in ["a", "motor_2.test-x", &"n".repeat(MAX_SESSION_NAME)] {
            assert!(is_session_name(name.as_bytes()), "{name}");
        }
        for name in ["", ".", "..", ".hidden", "-x", "a/b", "a b", "ä", &"n".repeat(MAX_SESSION_NAME + 1)] {
            assert!(!is_session_name(name.as_bytes()), "{name}");
        }
        assert!(!is_session_name(b"a\0") && !is_session_name(b"\xff"));
    }

    #[test]
    fn the_path_by_a_descriptor_fits_into_an_address() {
        let path = SocketPath(i32::MAX).to_string();
        assert_eq!(path, "/proc/self/fd/2147483647/programs");
        assert!(path.len() <= MAX_ADDRESS && Socket::parse(path.as_bytes()).is_some());
    }
}
