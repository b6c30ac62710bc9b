//! Steps that outlive whoever made the changes: a file of them.

use crate::{Failure, Step};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What a journal begins with, before the boot's id.
const HEADER: &str = "sordino-journal 1 ";

/// What undoes changes that stay when their maker is gone, one [`Step`] a line.
///
/// A step is in the file *before* its change is made, so that whoever opens the journal after a death at any moment can undo all
/// that was done. The file is to be in a file system that a reboot clears, as `/run`; another boot's journal counts as none, for
/// its changes went with that boot. One process at a time: who may write is for the caller to settle.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    /// Of what is whole in it, in bytes.
    length: u64,
    steps: Vec<Step>,
}

/// Why a journal can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// The file can't be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// The journal.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It says what no journal says.
    #[error("{}, line {line}: no step to undo; what it stands for is to be undone by hand, then remove the file", path.display())]
    Malformed {
        /// The journal.
        path: PathBuf,
        /// Where, from 1.
        line: usize,
    },
}

impl Journal {
    /// Begins a journal where none is.
    ///
    /// # Errors
    /// If the file is there already or can't be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        let header = format!("{HEADER}{}\n", boot_id()?);
        OpenOptions::new().write(true).create_new(true).open(path)?.write_all_at(header.as_bytes(), 0)?;
        Ok(Self { path: path.to_owned(), length: header.len() as u64, steps: Vec::new() })
    }

    /// The journal that is there; `None` if there is none of this boot. The end of a line that was being written when its writer
    /// died is left out: no change was made for it.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub fn open(path: &Path) -> Result<Option<Self>, Unreadable> {
        let failed = |source| Unreadable::Io { path: path.to_owned(), source };
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            result => result.map_err(failed)?,
        };
        let header = format!("{HEADER}{}\n", boot_id().map_err(failed)?);
        let Some(lines) = text.strip_prefix(&header) else { return Ok(None) };
        let malformed = |line| Unreadable::Malformed { path: path.to_owned(), line };
        let whole = lines.rfind('\n').map_or("", |end| &lines[..=end]);
        let steps =
            (2..).zip(whole.lines()).map(|(number, line)| line.parse().map_err(|_| malformed(number)));
        let length = (header.len() + whole.len()) as u64;
        Ok(Some(Self { path: path.to_owned(), length, steps: steps.collect::<Result<_, _>>()? }))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds, the oldest step first.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Notes a step. The change itself may be made when this has returned, not earlier.
    ///
    /// # Errors
    /// If it can't be written; then don't make the change.
    pub fn add(&mut self, step: Step) -> io::Result<()> {
        let line = format!("{step}\n");
        let file = OpenOptions::new().write(true).open(&self.path)?;
        // What another writer left unfinished.
        file.set_len(self.length)?;
        file.write_all_at(line.as_bytes(), self.length)?;
        self.length += line.len() as u64;
        self.steps.push(step);
        Ok(())
    }

    /// Undoes everything, the last step first, and removes the file. What failed stays in it, to be tried again. A death meanwhile
    /// leaves the file as it is: steps may be carried out twice.
    ///
    /// # Errors
    /// If the file can't be removed or replaced.
    pub fn undo(self, mut carry_out: impl FnMut(&Step) -> Result<(), String>) -> io::Result<Vec<Failure>> {
        let mut failures = Vec::new();
        for step in self.steps.iter().rev() {
            if let Err(reason) = carry_out(step) {
                failures.push(Failure { step: step.clone(), reason });
            }
        }
        if failures.is_empty() {
            fs::remove_file(&self.path)?;
        } else {
            self.keep(&failures)?;
        }
        Ok(failures)
    }

    /// Replaces the file by one with these steps alone.
    fn keep(&self, failures: &[Failure]) -> io::Result<()> {
        let partial = self.path.with_extension("partial");
        let _ = fs::remove_file(&partial);
        let mut journal = Self::create(&partial)?;
        for failure in failures.iter().rev() {
            journal.add(failure.step.clone())?;
        }
        fs::rename(&partial, &self.path)
    }
}

/// Names this boot of the machine.
fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str) -> Step {
        Step::RemoveInstance { name: name.to_owned() }
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
        let fail = |failed: &Step| if *failed == step("b") { Ok(()) } else { Err("not now".to_owned()) };
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
}
