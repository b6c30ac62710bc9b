//! A file of steps, for changes that outlive the process that made them.

use crate::trust::private;
use crate::{FailedStep, UndoStep};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use sordino_proc::file;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// First words of a journal, followed by the boot id.
const HEADER: &str = "sordino-journal 1 ";
/// Greatest size of a journal in bytes.
const LONGEST: u64 = 16 << 20;
/// Mode of a journal. Its steps are carried out as root, so only its owner may read or write it.
const MODE: Mode = Mode::from_raw_mode(0o600);

/// A file of steps that undo changes after their maker has exited, one [`UndoStep`] a line.
///
/// A step is in the file *before* its change is made, so that the journal always contains the steps for all changes,
/// whenever its writer dies. The file belongs in a file system that a reboot clears, such as `/run`; a journal of
/// another boot counts as absent, because its changes ended with that boot. Callers must ensure that only one process
/// writes at a time.
///
/// The directory and the file must belong to the effective user, and nobody else may be able to write to them: anything
/// else is rejected. Both stay open, so that no path is resolved twice.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    directory: OwnedFd,
    file: File,
    /// Length of all complete lines in bytes.
    length: u64,
    steps: Vec<UndoStep>,
}

/// Reason why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// Path of the journal.
        path: PathBuf,
        /// Error that the kernel returned.
        #[source]
        source: io::Error,
    },
    /// Another user may have written the journal.
    #[error("{}: {reason}: nothing in {} was carried out; see that it is right, undo by hand what it stands for, then remove it", path.display(), journal.display())]
    Untrusted {
        /// Path of the journal or of its directory.
        path: PathBuf,
        /// Reason why the path is not trusted.
        reason: String,
        /// Path of the journal.
        journal: PathBuf,
    },
    /// A line is not a step.
    #[error("{}, line {line}: no step to undo; what it stands for is to be undone by hand, then remove the file", path.display())]
    Malformed {
        /// Path of the journal.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
    },
}

impl Journal {
    /// Creates a journal with mode 0600.
    ///
    /// # Errors
    /// Returns an error if the file exists or cannot be created, or if somebody else can write to its directory.
    pub fn create(path: &Path) -> io::Result<Self> {
        let directory = match directory_of(path) {
            Ok(Some(directory)) => directory,
            Ok(None) => return Err(io::ErrorKind::NotFound.into()),
            Err(Unreadable::Io { source, .. }) => return Err(source),
            Err(error) => return Err(io::Error::other(error)),
        };
        Self::create_in(directory, path)
    }

    fn create_in(directory: OwnedFd, path: &Path) -> io::Result<Self> {
        let header = format!("{HEADER}{}\n", boot_id()?);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(&directory, name(path)?, flags, MODE)?);
        // Sets the permissions again, of which the umask may have removed some.
        fchmod(&file, MODE)?;
        file.write_all_at(header.as_bytes(), 0)?;
        Ok(Self { path: path.to_owned(), directory, file, length: header.len() as u64, steps: Vec::new() })
    }

    /// Opens an existing journal; `None` if there is none of this boot. An incomplete last line is ignored: its writer
    /// died before it made the change.
    ///
    /// # Errors
    /// [`Unreadable`] with the reason.
    pub fn open(path: &Path) -> Result<Option<Self>, Unreadable> {
        let failed = |source| Unreadable::Io { path: path.to_owned(), source };
        let Some(directory) = directory_of(path)? else { return Ok(None) };
        let Some(file) = file_in(&directory, path)? else { return Ok(None) };
        let mut text = String::new();
        (&file).take(LONGEST).read_to_string(&mut text).map_err(failed)?;
        let header = format!("{HEADER}{}\n", boot_id().map_err(failed)?);
        let Some(lines) = text.strip_prefix(&header) else { return Ok(None) };
        let malformed = |line| Unreadable::Malformed { path: path.to_owned(), line };
        let whole = lines.rfind('\n').map_or("", |end| &lines[..=end]);
        let steps =
            (2..).zip(whole.lines()).map(|(number, line)| line.parse().map_err(|_| malformed(number)));
        let length = (header.len() + whole.len()) as u64;
        let steps = steps.collect::<Result<_, _>>()?;
        Ok(Some(Self { path: path.to_owned(), directory, file, length, steps }))
    }

    /// Returns the journal's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the steps, the oldest first.
    pub fn steps(&self) -> &[UndoStep] {
        &self.steps
    }

    /// Appends a step. The change must not be made before this has returned.
    ///
    /// # Errors
    /// Returns an error if the step cannot be written; the change must not be made then.
    pub fn add(&mut self, step: UndoStep) -> io::Result<()> {
        let line = format!("{step}\n");
        if self.length + line.len() as u64 > LONGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        // Removes the incomplete line of an earlier writer.
        self.file.set_len(self.length)?;
        self.file.write_all_at(line.as_bytes(), self.length)?;
        self.length += line.len() as u64;
        self.steps.push(step);
        Ok(())
    }

    /// Carries out all steps, the last one first, and removes the file. Failed steps are kept in it for another
    /// attempt. If the process dies meanwhile, the file is unchanged, and steps may be carried out twice.
    ///
    /// # Errors
    /// Returns an error if the file cannot be removed or replaced.
    pub fn undo(
        self,
        mut carry_out: impl FnMut(&UndoStep) -> Result<(), String>,
    ) -> io::Result<Vec<FailedStep>> {
        let mut failures = Vec::new();
        for step in self.steps.iter().rev() {
            if let Err(reason) = carry_out(step) {
                failures.push(FailedStep { step: step.clone(), reason });
            }
        }
        if failures.is_empty() {
            unlinkat(&self.directory, name(&self.path)?, AtFlags::empty())?;
        } else {
            self.keep(&failures)?;
        }
        Ok(failures)
    }

    /// Replaces the file by one that contains only these steps.
    fn keep(&self, failures: &[FailedStep]) -> io::Result<()> {
        let partial = self.path.with_extension("partial");
        let _ = unlinkat(&self.directory, name(&partial)?, AtFlags::empty());
        let mut journal = Self::create_in(self.directory.try_clone()?, &partial)?;
        for failure in failures.iter().rev() {
            journal.add(failure.step.clone())?;
        }
        Ok(renameat(&self.directory, name(&partial)?, &self.directory, name(&self.path)?)?)
    }
}

fn name(path: &Path) -> io::Result<&OsStr> {
    path.file_name().ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn untrusted(path: &Path, reason: String, journal: &Path) -> Unreadable {
    Unreadable::Untrusted { path: path.to_owned(), reason, journal: journal.to_owned() }
}

/// Opens the directory of a journal, which nobody else may be able to write to; `None` if it does not exist.
fn directory_of(journal: &Path) -> Result<Option<OwnedFd>, Unreadable> {
    let path = journal.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP | Errno::NOTDIR) => {
            return Err(untrusted(path, "it is no directory".to_owned(), journal));
        }
        Err(error) => return Err(Unreadable::Io { path: journal.to_owned(), source: error.into() }),
    };
    private(&directory, FileType::Directory).map_err(|reason| untrusted(path, reason, journal))?;
    Ok(Some(directory))
}

/// Opens the journal's file, which nobody else may have written; `None` if it does not exist.
fn file_in(directory: &OwnedFd, path: &Path) -> Result<Option<File>, Unreadable> {
    let failed = |source: io::Error| Unreadable::Io { path: path.to_owned(), source };
    let refused = |reason: &str| untrusted(path, reason.to_owned(), path);
    let name = name(path).map_err(failed)?;
    // The type is checked before opening, because opening a device may have effects.
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile => {}
        Ok(_) => return Err(refused("it is no regular file")),
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(failed(error.into())),
    }
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(directory, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err(refused("it is no regular file")),
        Err(error) => return Err(failed(error.into())),
    };
    let found = private(file.as_fd(), FileType::RegularFile).map_err(|reason| refused(&reason))?;
    if found.st_size as u64 > LONGEST {
        return Err(refused(&format!("it has {} bytes, more than any journal", found.st_size)));
    }
    Ok(Some(file.into()))
}

/// Returns the id of this boot of the machine.
fn boot_id() -> io::Result<String> {
    Ok(file::text("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn step(name: &str) -> UndoStep {
        UndoStep::RemoveInstance { name: name.to_owned() }
    }

    fn journal(path: &Path) -> Journal {
        let mut journal = Journal::create(path).unwrap();
        for name in ["a", "b", "c"] {
            journal.add(step(name)).unwrap();
        }
        journal
    }

    #[test]
    fn what_was_noted_is_undone_backwards_and_the_file_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        assert!(Journal::open(&path).unwrap().is_none());
        drop(journal(&path));
        assert_eq!(Journal::create(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let mut undone = Vec::new();
        let opened = Journal::open(&path).unwrap().unwrap();
        let failures = opened.undo(|step| {
            undone.push(step.clone());
            Ok(())
        });
        assert_eq!(failures.unwrap(), []);
        assert_eq!(undone, [step("c"), step("b"), step("a")]);
        assert!(!path.exists());
    }

    #[test]
    fn what_failed_is_tried_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let fail = |failed: &UndoStep| if *failed == step("b") { Ok(()) } else { Err("not now".to_owned()) };
        assert_eq!(journal(&path).undo(fail).unwrap().len(), 2);
        let again = Journal::open(&path).unwrap().unwrap();
        assert_eq!(again.steps(), [step("a"), step("c")]);
        assert_eq!(again.undo(|_| Ok(())).unwrap(), []);
    }

    #[test]
    fn a_line_without_its_end_and_another_boots_journal_count_for_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        drop(journal(&path));
        let text = fs::read_to_string(&path).unwrap();
        for end in 1..=step("c").to_string().len() + 1 {
            fs::write(&path, &text[..text.len() - end]).unwrap();
            let mut opened = Journal::open(&path).unwrap().unwrap();
            assert_eq!(opened.steps(), [step("a"), step("b")]);
            opened.add(step("d")).unwrap();
            assert_eq!(Journal::open(&path).unwrap().unwrap().steps(), opened.steps());
        }
        fs::write(&path, text.replacen(HEADER, "sordino-journal 1 x", 1)).unwrap();
        assert!(Journal::open(&path).unwrap().is_none());
    }

    #[test]
    fn nonsense_is_an_error_that_names_the_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        drop(journal(&path));
        let text = fs::read_to_string(&path).unwrap() + "erase\t/\n";
        fs::write(&path, text).unwrap();
        let error = Journal::open(&path).unwrap_err();
        assert!(matches!(error, Unreadable::Malformed { line: 5, .. }), "{error}");
    }

    #[test]
    fn a_journal_is_its_owners_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let journal = journal(&path);
        assert_eq!(mode(&path), 0o600);
        journal.undo(|_| Err("not now".to_owned())).unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn what_others_may_have_written_is_refused_with_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("journal"), directory.path().join("other"));
        drop(journal(&path));
        let refused = |words: &[&str]| {
            let error = Journal::open(&path).unwrap_err().to_string();
            let named = path.to_string_lossy();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
            assert!(error.contains(&*named) && error.contains("remove it"), "{error}");
        };
        let give = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        give(&path, 0o620);
        refused(&["mode 620"]);
        give(&path, 0o644);
        assert_eq!(Journal::open(&path).unwrap().unwrap().steps().len(), 3);
        fs::hard_link(&path, &other).unwrap();
        refused(&["another name"]);
        fs::remove_file(&path).unwrap();
        symlink(&other, &path).unwrap();
        refused(&["no regular file"]);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        refused(&["no regular file"]);
        fs::remove_dir(&path).unwrap();
        fs::rename(&other, &path).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(LONGEST + 1).unwrap();
        refused(&["bytes"]);
        give(directory.path(), 0o777);
        refused(&["mode 777", "lets others write"]);
        assert!(Journal::create(&other).unwrap_err().to_string().contains("mode 777"));
        give(directory.path(), 0o700);
    }
}
