//! The environment variables by which recorders and users configure programs.
//!
//! A program that runs with more rights than its caller (`AT_SECURE`) ignores all of them.

use std::ffi::{CStr, OsStr};
use std::fmt;

/// The name of an environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable(&'static CStr);

/// The [recorder](crate::RecorderAddress) that started the program.
pub const SESSION: Variable = Variable(c"SORDINO_SESSION");

/// The recorder of a command that another command starts (a prefix, such as one that changes the user). The program
/// that executes the command at last sets [`SESSION`] to this variable's value, so the prefix itself is not recorded.
pub const SESSION_OF_COMMAND: Variable = Variable(c"SORDINO_SESSION_OF_COMMAND");

/// The directory of sessions, for recorders and programs alike: for tests and containers.
pub const RUNTIME_DIR: Variable = Variable(c"SORDINO_RUNTIME_DIR");

/// The address space that the program reserves for its area, in bytes. With [`UNRECORDED`], the program has no area.
pub const RESERVE: Variable = Variable(c"SORDINO_RESERVE");

/// The rings that the program's threads use. With [`SHARED_RING`], they use the shared ring only.
pub const RING: Variable = Variable(c"SORDINO_RING");

/// The program's permission to make its threads wait for room in a ring. It is given by [`ALLOWED`].
pub const ALLOW_BLOCKING: Variable = Variable(c"SORDINO_ALLOW_BLOCKING");

/// The value of [`RESERVE`] for a program that can't be recorded.
pub const UNRECORDED: &str = "0";
/// The value of [`RING`] for the shared ring.
pub const SHARED_RING: &str = "shared";
/// The value of [`ALLOW_BLOCKING`] that gives permission.
pub const ALLOWED: &str = "1";

/// All variables that a program reads.
pub const READ_BY_PROGRAMS: [Variable; 5] = [SESSION, RUNTIME_DIR, RESERVE, RING, ALLOW_BLOCKING];

impl Variable {
    /// Returns the name for the C library.
    pub const fn c_name(self) -> &'static CStr {
        self.0
    }

    /// Returns the name as text.
    pub const fn name(self) -> &'static str {
        match self.0.to_str() {
            Ok(name) => name,
            // The constants above are ASCII, so this is never reached.
            Err(_) => "",
        }
    }
}

impl AsRef<OsStr> for Variable {
    fn as_ref(&self) -> &OsStr {
        self.name().as_ref()
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
