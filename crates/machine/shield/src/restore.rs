//! Restores the values from before the shield.

use crate::place::HANDED_DOWN;
use serde::Serialize;
use sordino_undo::{FailedStep, UndoStep};
use std::path::Path;
use std::time::Duration;
use std::{fs, io, thread};

/// Result of lowering a shield.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lowered {
    /// Number of steps that were carried out.
    pub steps: usize,
    /// Steps that failed. They are kept for another attempt.
    pub failures: Vec<FailedStep>,
    /// Values that were restored but read back as others.
    pub remaining: Vec<Remaining>,
    /// Effects that no write reverts: the CPUs to which interrupts are delivered until the kernel moves them again.
    pub landed: Vec<Remaining>,
    /// Number of threads that ran on the shielded CPUs, and continue elsewhere.
    pub members: usize,
}

/// A value that differs from the one before the shield.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remaining {
    /// Place of the value.
    pub what: String,
    /// Value before the shield.
    pub before: String,
    /// Present value of the place.
    pub now: String,
}

/// Carries out one step of a shield: [`UndoStep::Write`], [`UndoStep::Affinity`] or [`UndoStep::RemoveGroup`]. A value
/// that holds already is not written: some of the kernel's files reject even their present value.
///
/// # Errors
/// The kernel's error. A place that no longer exists is no error.
pub fn restore(step: &UndoStep) -> Result<(), String> {
    let result = match step {
        UndoStep::Write { file, text } if holds(file, text) => Ok(()),
        UndoStep::Write { file, text } => UndoStep::write(file, text),
        UndoStep::Affinity { thread, cpus } => match thread.affinity() {
            Ok(now) if now == *cpus => Ok(()),
            // The thread may not run on these CPUs any more: the difference is reported, and another attempt would not
            // help.
            Ok(_) => match thread.set_affinity(cpus) {
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
                result => result,
            },
            Err(error) => Err(error),
        },
        UndoStep::RemoveGroup { directory, heir } => remove_group(directory, heir),
        other => return Err(format!("no step of a shield's: '{other}'")),
    };
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// Returns true if a file has this content: to the byte, as the choice in brackets, or as an enabled or disabled
/// controller.
fn holds(file: &Path, text: &[u8]) -> bool {
    let Ok(now) = fs::read(file) else { return false };
    let word = String::from_utf8_lossy(text);
    let now_text = String::from_utf8_lossy(&now);
    match (word.strip_prefix('+'), word.strip_prefix('-')) {
        (Some(name), _) if file.ends_with(HANDED_DOWN) => {
            now_text.split_whitespace().any(|word| word == name)
        }
        (_, Some(name)) if file.ends_with(HANDED_DOWN) => {
            !now_text.split_whitespace().any(|word| word == name)
        }
        _ => now == text || (now_text.contains('[') && now_text.contains(&format!("[{word}]"))),
    }
}

/// Removes a control group after moving its members. Repeats that, because threads fork while they are moved, and
/// exiting members take time.
fn remove_group(directory: &Path, heir: &Path) -> io::Result<()> {
    // `tasks`, which moves single threads, exists in version 1 alone.
    let members = ["tasks", "cgroup.procs"].into_iter().find(|name| directory.join(name).exists());
    let members = members.ok_or(io::ErrorKind::NotFound)?;
    for child in fs::read_dir(directory)?.flatten().filter(|entry| entry.path().is_dir()) {
        remove_group(&child.path(), heir)?;
    }
    // Removing a partition returns its CPUs only some time later. Before Linux 6.2, that also resets the affinities of
    // all threads, after they were restored. Writing `member` returns the CPUs at once.
    match UndoStep::write(&directory.join("cpuset.cpus.partition"), b"member") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    for _ in 0..200 {
        for member in fs::read_to_string(directory.join(members))?.lines() {
            match UndoStep::write(&heir.join(members), member.as_bytes()) {
                // The thread has exited.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
                result => result?,
            }
        }
        match fs::remove_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                thread::sleep(Duration::from_millis(5))
            }
            result => return result,
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// Returns the difference between a step's value and the present one, if there is any.
pub(crate) fn remaining(step: &UndoStep) -> Option<Remaining> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let (what, before, now) = match step {
        UndoStep::Write { file, text: before } => {
            if holds(file, before) {
                return None;
            }
            (file.display().to_string(), text(before), text(&fs::read(file).ok()?))
        }
        UndoStep::Affinity { thread, cpus } => {
            let now = thread.affinity().ok().filter(|now| now != cpus)?;
            (format!("affinity of thread {}", thread.tid), cpus.to_string(), now.to_string())
        }
        UndoStep::RemoveGroup { directory, .. } if directory.exists() => {
            (directory.display().to_string(), "none".to_owned(), "there".to_owned())
        }
        _ => return None,
    };
    Some(Remaining { what, before, now })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_already_is_not_written() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        for (now, text, holds_it) in [
            ("0-1\n", "0-1\n", true),
            ("0-1\n", "0-1", false),
            ("always [madvise] never\n", "madvise", true),
            ("always [madvise] never\n", "never", false),
        ] {
            fs::write(&file, now).unwrap();
            assert_eq!(holds(&file, text.as_bytes()), holds_it, "{now} {text}");
        }
        let handed_down = directory.path().join(HANDED_DOWN);
        fs::write(&handed_down, "cpu io\n").unwrap();
        let expected = [("+cpu", true), ("-cpu", false), ("+cpuset", false), ("-cpuset", true)];
        assert_eq!(expected.map(|(text, _)| (text, holds(&handed_down, text.as_bytes()))), expected);
    }

    #[test]
    fn a_missing_file_needs_nothing_and_a_refused_write_is_an_error() {
        let write = |file: &str| UndoStep::Write { file: file.into(), text: b"x".to_vec() };
        assert_eq!(restore(&write("/proc/no-such-file")), Ok(()));
        assert!(restore(&write("/proc/version")).is_err());
        let group = UndoStep::RemoveGroup {
            directory: "/sys/fs/cgroup/no-such".into(),
            heir: "/sys/fs/cgroup".into(),
        };
        assert_eq!(restore(&group), Ok(()));
    }
}
