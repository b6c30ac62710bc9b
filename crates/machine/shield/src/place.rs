//! Places of kernel settings, and how they are read, written and restored.

use rustix::fs::{Access, access};
use rustix::io::Errno;
use serde::{Serialize, Serializer};
use sordino_proc::cgroup::memberships;
use sordino_sched::{CpuList, ThreadIdentity};
use sordino_undo::UndoStep;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

/// Place of one value in the kernel. Values are texts; lists of CPUs are written as `0-3,5`, whatever the kernel's
/// format.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Place {
    /// A file that reads as it is written.
    Text(PathBuf),
    /// A file that lists all values and has brackets around the present one.
    Choice(PathBuf),
    /// A file with a list of CPUs.
    List(PathBuf),
    /// A file with CPUs as a hexadecimal mask.
    Mask(PathBuf),
    /// A control group's controller for its children: `+` (enabled) or `-`.
    Controller {
        /// Directory of the control group.
        group: PathBuf,
        /// Name of the controller.
        name: &'static str,
    },
    /// Existence of a control group: `there` or `none`.
    Group {
        /// Directory of the control group.
        directory: PathBuf,
        /// Directory of the control group to which its members are moved when it is removed.
        heir: PathBuf,
    },
    /// Control group of a thread: a path below the mount point of version 1.
    Member {
        /// Id and start time of the thread.
        thread: ThreadIdentity,
        /// Mount point of the control groups.
        mount: PathBuf,
    },
    /// CPUs that a thread may run on.
    Affinity(ThreadIdentity),
}

impl Place {
    /// Reads the present value.
    ///
    /// # Errors
    /// The kernel's error; `NotFound` if the place does not exist or no longer exists.
    pub fn read(&self) -> io::Result<String> {
        Ok(match self {
            Self::Text(file) => fs::read_to_string(file)?.trim().to_owned(),
            Self::Choice(file) => chosen(&fs::read_to_string(file)?)?.to_owned(),
            Self::List(file) => list(fs::read_to_string(file)?.trim())?.to_string(),
            Self::Mask(file) => CpuList::from_mask(&fs::read_to_string(file)?).map_err(invalid)?.to_string(),
            Self::Controller { group, name } => {
                let handed_down = fs::read_to_string(group.join(HANDED_DOWN))?;
                if handed_down.split_whitespace().any(|word| word == *name) { "+" } else { "-" }.to_owned()
            }
            Self::Group { directory, .. } => if directory.is_dir() { "there" } else { "none" }.to_owned(),
            Self::Member { thread, .. } if !thread.is_alive() => return Err(io::ErrorKind::NotFound.into()),
            Self::Member { thread, .. } => group_of(thread.tid, "cpuset")?,
            Self::Affinity(thread) => thread.affinity()?.to_string(),
        })
    }

    /// Writes a value.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn write(&self, value: &str) -> io::Result<()> {
        match self {
            Self::Text(file) | Self::Choice(file) | Self::List(file) => {
                UndoStep::write(file, value.as_bytes())
            }
            Self::Mask(file) => UndoStep::write(file, list(value)?.to_mask().as_bytes()),
            Self::Controller { group, name } => {
                UndoStep::write(&group.join(HANDED_DOWN), format!("{value}{name}").as_bytes())
            }
            Self::Group { directory, .. } => fs::create_dir(directory),
            Self::Member { thread, .. } if !thread.is_alive() => Err(io::ErrorKind::NotFound.into()),
            Self::Member { thread, mount } => {
                let tasks = mount.join(value.trim_start_matches('/')).join("tasks");
                UndoStep::write(&tasks, thread.tid.to_string().as_bytes())
            }
            Self::Affinity(thread) => thread.set_affinity(&list(value)?),
        }
    }

    /// Returns the step that restores the present value, to the byte. `None` if another place's step does so: removing
    /// a control group moves its threads to the heir.
    ///
    /// # Errors
    /// Returns an error if the present value cannot be read.
    pub fn undo(&self) -> io::Result<Option<UndoStep>> {
        Ok(Some(match self {
            Self::Text(file) | Self::List(file) | Self::Mask(file) => UndoStep::restore(file)?,
            Self::Choice(file) => UndoStep::Write { file: file.clone(), text: self.read()?.into_bytes() },
            Self::Controller { group, name } => {
                let text = format!("{}{name}", self.read()?).into_bytes();
                UndoStep::Write { file: group.join(HANDED_DOWN), text }
            }
            Self::Group { directory, heir } => {
                UndoStep::RemoveGroup { directory: directory.clone(), heir: heir.clone() }
            }
            Self::Member { .. } => return Ok(None),
            Self::Affinity(thread) => match thread.affinity()? {
                // All of its CPUs are offline, and no affinity can name those now.
                cpus if cpus.is_empty() => return Ok(None),
                cpus => UndoStep::Affinity { thread: *thread, cpus },
            },
        }))
    }

    /// Returns the file or directory that must be writable; `None` for a thread.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Text(path) | Self::Choice(path) | Self::List(path) | Self::Mask(path) => Some(path),
            Self::Controller { group, .. } => Some(group),
            Self::Group { heir, .. } => Some(heir),
            Self::Member { .. } | Self::Affinity(_) => None,
        }
    }

    /// Returns true if the place is a control group and `path` is a file in it.
    pub(crate) fn has_within(&self, path: &Path) -> bool {
        matches!(self, Self::Group { directory, .. } if path.parent() == Some(directory))
    }

    /// Returns true if the place is a file on a read-only file system.
    pub(crate) fn is_read_only(&self) -> bool {
        let is_file = !matches!(self, Self::Controller { .. } | Self::Group { .. });
        is_file && self.path().is_some_and(|path| access(path, Access::WRITE_OK) == Err(Errno::ROFS))
    }

    /// Returns true if the value belongs to a thread. Threads come and go, and some cannot be moved.
    pub(crate) fn is_of_thread(&self) -> bool {
        matches!(self, Self::Member { .. } | Self::Affinity(_))
    }
}

/// File of a control group of version 2 with the controllers that are enabled for its children.
pub(crate) const HANDED_DOWN: &str = "cgroup.subtree_control";

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(file) | Self::Choice(file) | Self::List(file) | Self::Mask(file) => {
                write!(f, "{}", file.display())
            }
            Self::Controller { group, .. } => write!(f, "{}", group.join(HANDED_DOWN).display()),
            Self::Group { directory, .. } => write!(f, "{}", directory.display()),
            Self::Member { thread, mount } => {
                write!(f, "cpuset of thread {} in {}", thread.tid, mount.display())
            }
            Self::Affinity(thread) => write!(f, "affinity of thread {}", thread.tid),
        }
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_string().serialize(serializer)
    }
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Parses a list of CPUs that may be empty.
fn list(text: &str) -> io::Result<CpuList> {
    if text.is_empty() { Ok(CpuList::default()) } else { text.parse().map_err(invalid) }
}

/// Returns the text in brackets; the whole text if there are none.
fn chosen(text: &str) -> io::Result<&str> {
    let text = text.trim();
    match text.split_once('[') {
        None => Ok(text),
        Some((_, rest)) => {
            rest.split_once(']').map(|(chosen, _)| chosen).ok_or(io::ErrorKind::InvalidData.into())
        }
    }
}

/// Returns the path of a thread's control group in the hierarchy of a controller; an empty name stands for version 2.
pub(crate) fn group_of(tid: i32, controller: &str) -> io::Result<String> {
    let groups = sordino_proc::file::of_process(tid, "cgroup")?;
    let group = memberships(&groups).find(|group| group.has(controller));
    group.map(|group| group.path.to_owned()).ok_or(io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, text).unwrap();
        (directory, file)
    }

    #[test]
    fn each_kind_of_file_is_read_in_one_form_written_in_its_own_and_given_back_to_the_byte() {
        for (kind, before, read, write, after) in [
            (Place::Text as fn(PathBuf) -> Place, "950000\n", "950000", "-1", "-1"),
            (Place::List, "0-1\n", "0-1", "0", "0"),
            (Place::List, "\n", "", "0", "0"),
            (Place::Mask, "00000000,00000003\n", "0-1", "1,33", "2,00000002"),
        ] {
            let (_directory, path) = file(before);
            let place = kind(path.clone());
            assert_eq!(place.read().unwrap(), read);
            let undo = place.undo().unwrap().unwrap();
            place.write(write).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), after);
            assert_eq!(undo, UndoStep::Write { file: path, text: before.into() });
        }
    }

    #[test]
    fn what_is_chosen_stands_in_brackets() {
        let (_directory, path) = file("always [madvise] never\n");
        let place = Place::Choice(path.clone());
        assert_eq!(place.read().unwrap(), "madvise");
        assert_eq!(place.undo().unwrap(), Some(UndoStep::Write { file: path, text: b"madvise".to_vec() }));
        assert_eq!(chosen("performance\n").unwrap(), "performance");
        assert!(chosen("[").is_err());
    }

    #[test]
    fn what_is_no_list_or_mask_is_an_error() {
        let (_directory, path) = file("(null)\n");
        for place in [Place::List(path.clone()), Place::Mask(path)] {
            assert_eq!(place.read().unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let gone = Place::Text("/proc/no-such-file".into());
        assert_eq!(gone.read().unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(gone.undo().unwrap_err().kind(), io::ErrorKind::NotFound);
        let ended = Place::Affinity(ThreadIdentity { tid: i32::MAX, started: 0 });
        assert_eq!(ended.read().unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(ended.write("0").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
