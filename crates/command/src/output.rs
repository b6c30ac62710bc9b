//! A file that a command writes for its user.

use crate::failure::Failure;
use crate::failure::UNUSABLE;
use crate::privilege::target;
use sordino_dirfd::{ReportFile, remedy};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// A file that an option names.
pub struct OutputFile {
    option: &'static str,
    path: PathBuf,
    file: ReportFile,
}

impl OutputFile {
    /// Opens the file that `option` names, if any. Rejects a file that can't be written.
    pub fn of(option: &'static str, path: Option<&PathBuf>) -> Result<Option<Self>, Failure> {
        let Some(path) = path else { return Ok(None) };
        let file = ReportFile::open(path)
            .map_err(|error| failed(option, path, format!("{error}{}", remedy(&error))))?;
        Ok(Some(Self { option, path: path.clone(), file }))
    }

    /// Writes the whole file or, on a full disk, nothing: the previous file stays then. It belongs to the user who
    /// called sudo.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let owner = target(None)?.map(|reader| reader.ids());
        self.file.write(bytes, owner).map_err(|error| failed(self.option, &self.path, error))
    }

    /// Writes the whole file as [`write`](Self::write) does; the text is on standard output already.
    pub fn write_copy(&mut self, text: &str) -> Result<(), Failure> {
        self.write(text.as_bytes()).map_err(|failure| {
            Failure::new(UNUSABLE, format!("{}; the report is on standard output", failure.text()))
        })
    }
}

fn failed(option: &str, file: &Path, error: impl Display) -> Failure {
    Failure::new(UNUSABLE, format!("can't write {option} {}: {error}", file.display()))
}
