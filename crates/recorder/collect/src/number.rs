//! The number of a program in its session.

use std::fmt;

/// The number of a program in its session, in the order of attachment, from 0. Another program of the same process has
/// another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramNumber(pub usize);

impl fmt::Display for ProgramNumber {
    /// Writes the number as people count, from 1 and with four digits: it begins the name of the program's trace.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}", self.0 + 1)
    }
}
