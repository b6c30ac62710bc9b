//! One undo step, and its format as a line of text.

use sordino_sched::{CpuList, ThreadIdentity};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A step that undoes one change. It is idempotent, and harmless if the change was not made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UndoStep {
    /// Writes a text to an existing file.
    Write {
        /// Absolute path of the file: a guardian's working directory is the root.
        file: PathBuf,
        /// Text to write in one system call.
        text: Vec<u8>,
    },
    /// Removes an instance of the kernel's tracer.
    RemoveInstance {
        /// Name of the instance in `instances/`.
        name: String,
    },
    /// Resets a prepared instance of the kernel's tracer to its state before it was used.
    ResetInstance {
        /// Name of the instance in `instances/`.
        name: String,
    },
    /// Restores the permissions of a file.
    Access {
        /// Absolute path of the file.
        file: PathBuf,
        /// Permission bits of owner, group and others.
        mode: u32,
    },
    /// Restores the CPU affinity of a thread.
    Affinity {
        /// The thread; if it has exited, there is nothing to do.
        thread: ThreadIdentity,
        /// CPUs that the thread may run on.
        cpus: CpuList,
    },
    /// Removes a control group.
    RemoveGroup {
        /// Directory of the group.
        directory: PathBuf,
        /// Directory of the group to which its members are moved.
        heir: PathBuf,
    },
    /// Removes a directory with all of its content.
    RemoveDirectory {
        /// Absolute path of the directory.
        directory: PathBuf,
    },
}

impl UndoStep {
    /// Creates the step that writes the file's present content back. Only for files that read as they are written;
    /// `trace_clock`, which lists every clock and brackets one, does not.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn restore(file: impl AsRef<Path>) -> io::Result<Self> {
        let file = std::path::absolute(file)?;
        let text = fs::read(&file)?;
        Ok(Self::Write { file, text })
    }

    /// Creates the step that restores the file's present permissions.
    ///
    /// # Errors
    /// Returns an error if the file's status cannot be read.
    pub fn restore_access(file: impl AsRef<Path>) -> io::Result<Self> {
        let file = std::path::absolute(file)?;
        let mode = fs::metadata(&file)?.permissions().mode() & 0o7777;
        Ok(Self::Access { file, mode })
    }

    /// Sets the permissions of `file`.
    ///
    /// # Errors
    /// Returns the kernel's error, for example if the file belongs to another user.
    pub fn give_access(file: &Path, mode: u32) -> io::Result<()> {
        fs::set_permissions(file, Permissions::from_mode(mode))
    }

    /// Writes `text` to `file`, replacing its content. Never creates a file: one that no longer exists is not the one
    /// that was changed.
    ///
    /// # Errors
    /// Returns an error if the file does not exist or does not accept the text.
    pub fn write(file: &Path, text: &[u8]) -> io::Result<()> {
        // A single write, because the kernel's files treat each as a separate value.
        let written = OpenOptions::new().write(true).truncate(true).open(file)?.write(text)?;
        if written == text.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}

/// Prints one line without a line end: the step's name and its words, separated by tabs. Other bytes than printable
/// ASCII are escaped as in a byte string.
impl fmt::Display for UndoStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { file, text } => {
                let file = file.as_os_str().as_bytes();
                write!(f, "write\t{}\t{}", file.escape_ascii(), text.escape_ascii())
            }
            Self::RemoveInstance { name } => {
                write!(f, "remove-instance\t{}", name.as_bytes().escape_ascii())
            }
            Self::ResetInstance { name } => {
                write!(f, "reset-instance\t{}", name.as_bytes().escape_ascii())
            }
            Self::Access { file, mode } => {
                write!(f, "access\t{}\t{mode:o}", file.as_os_str().as_bytes().escape_ascii())
            }
            Self::Affinity { thread, cpus } => write!(f, "affinity\t{thread}\t{cpus}"),
            Self::RemoveGroup { directory, heir } => {
                let (directory, heir) = (directory.as_os_str().as_bytes(), heir.as_os_str().as_bytes());
                write!(f, "remove-group\t{}\t{}", directory.escape_ascii(), heir.escape_ascii())
            }
            Self::RemoveDirectory { directory } => {
                write!(f, "remove-directory\t{}", directory.as_os_str().as_bytes().escape_ascii())
            }
        }
    }
}

/// The text is not a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no undo step: '{0}'")]
pub struct Malformed(pub String);

impl FromStr for UndoStep {
    type Err = Malformed;
    fn from_str(line: &str) -> Result<Self, Malformed> {
        let malformed = || Malformed(line.to_owned());
        let words: Vec<_> = line.split('\t').collect();
        let path = |text| {
            let path = unescape(text).ok_or_else(malformed)?;
            Ok(PathBuf::from(OsStr::from_bytes(&path)))
        };
        let name = |text| {
            let name = unescape(text).and_then(|name| String::from_utf8(name).ok());
            name.ok_or_else(malformed)
        };
        Ok(match words[..] {
            ["write", file, text] => {
                Self::Write { file: path(file)?, text: unescape(text).ok_or_else(malformed)? }
            }
            ["affinity", thread, cpus] => Self::Affinity {
                thread: thread.parse().map_err(|_| malformed())?,
                cpus: if cpus.is_empty() {
                    CpuList::default()
                } else {
                    cpus.parse().map_err(|_| malformed())?
                },
            },
            ["remove-group", directory, heir] => {
                Self::RemoveGroup { directory: path(directory)?, heir: path(heir)? }
            }
            ["remove-instance", text] => Self::RemoveInstance { name: name(text)? },
            ["reset-instance", text] => Self::ResetInstance { name: name(text)? },
            ["access", file, mode] => Self::Access {
                file: path(file)?,
                mode: u32::from_str_radix(mode, 8).map_err(|_| malformed())?,
            },
            ["remove-directory", directory] => Self::RemoveDirectory { directory: path(directory)? },
            _ => return Err(malformed()),
        })
    }
}

/// Reverts `escape_ascii`; `None` if the text is not its output.
pub(crate) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next()? {
                b't' => b'\t',
                b'r' => b'\r',
                b'n' => b'\n',
                b'x' => 16 * hexadecimal(rest.next()?)? + hexadecimal(rest.next()?)?,
                quoted @ (b'\\' | b'\'' | b'"') => quoted,
                _ => return None,
            },
            b' '..=b'~' => byte,
            _ => return None,
        });
    }
    Some(bytes)
}

fn hexadecimal(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| digit.try_into().ok())
}

/// A step that could not be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedStep {
    /// The step that failed.
    pub step: UndoStep,
    /// Reason for the failure.
    pub reason: String,
}

impl fmt::Display for FailedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.step {
            UndoStep::Write { file, text } => {
                let text = text.trim_ascii().escape_ascii();
                write!(f, "writing '{text}' to {}: {}", file.display(), self.reason)
            }
            UndoStep::RemoveInstance { name } => {
                write!(f, "removing the tracing instance {name}: {}", self.reason)
            }
            UndoStep::ResetInstance { name } => {
                write!(f, "resetting the tracing instance {name}: {}", self.reason)
            }
            UndoStep::Access { file, mode } => {
                write!(f, "giving {} its mode {mode:o} back: {}", file.display(), self.reason)
            }
            UndoStep::Affinity { thread, cpus } => {
                write!(f, "giving CPUs {cpus} back to thread {}: {}", thread.tid, self.reason)
            }
            UndoStep::RemoveGroup { directory, .. } => {
                write!(f, "removing the control group {}: {}", directory.display(), self.reason)
            }
            UndoStep::RemoveDirectory { directory } => {
                write!(f, "removing {}: {}", directory.display(), self.reason)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_step_prints_as_it_is_parsed(
            path in proptest::collection::vec(any::<u8>(), 0..40),
            text in proptest::collection::vec(any::<u8>(), 0..40),
            name in ".*",
            mode in 0u32..0o10000,
            tid in 1i32..,
            started: u64,
            cpus in proptest::collection::vec(0u32..1000, 0..20),
        ) {
            let path = PathBuf::from(OsStr::from_bytes(&path));
            let steps = [
                UndoStep::Write { file: path.clone(), text },
                UndoStep::RemoveInstance { name: name.clone() },
                UndoStep::ResetInstance { name },
                UndoStep::Access { file: path.clone(), mode },
                UndoStep::Affinity { thread: ThreadIdentity { tid, started }, cpus: CpuList::new(cpus) },
                UndoStep::RemoveGroup { directory: path.clone(), heir: path.clone() },
                UndoStep::RemoveDirectory { directory: path },
            ];
            for step in steps {
                let line = step.to_string();
                prop_assert!(!line.contains('\n') && line.is_ascii());
                prop_assert_eq!(line.parse(), Ok(step));
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(line in "(write|remove-instance|reset-instance|access|affinity|remove-group|remove-directory)?[\\\\xnt\t0-9a-fé]*") {
            let _ = line.parse::<UndoStep>();
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "",
            "write",
            "write\t/a",
            "write\t/a\tb\tc",
            "erase\t/a",
            "remove-instance\t\\xff",
            "remove-instance\t\\q",
            "remove-instance\t\\x",
            "remove-instance\t\\",
            "remove-instance\té",
            "access\t/a",
            "access\t/a\t8",
            "access\t/a\t750\t0",
            "affinity\t1@2",
            "affinity\t1\t2",
            "affinity\t1@2\tx",
            "remove-group\t/a",
            "remove-directory\t/a\tb",
        ] {
            assert_eq!(line.parse::<UndoStep>(), Err(Malformed(line.to_owned())), "{line}");
        }
    }

    #[test]
    fn writing_back_creates_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("gone");
        assert_eq!(UndoStep::write(&file, b"x").unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(&file, "a longer text").unwrap();
        UndoStep::write(&file, b"short").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"short");
    }
}
