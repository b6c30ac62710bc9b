//! Settings of the machine that a measurement changes, restored even if it is killed.

use crate::Bench;
use sordino_undo::{Guardian, UndoStep};
use std::path::Path;
use std::process::Command;

/// A file whose text is replaced for a while.
#[derive(Debug)]
pub(crate) struct FileOverride {
    file: &'static str,
    guardian: Guardian,
}

impl FileOverride {
    /// Writes `text` to `file`.
    pub(crate) fn hold(bench: &Bench, file: &'static str, text: &str) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{file}: {error} (needs root)");
        let step = UndoStep::restore(file).map_err(|error| failed(&error))?;
        let mut command = Command::new(&bench.programs.sordino);
        let mut guardian = Guardian::start(command.arg("undo-guard")).map_err(|error| failed(&error))?;
        guardian.add(step).map_err(|error| failed(&error))?;
        UndoStep::write(Path::new(file), text.as_bytes()).map_err(|error| failed(&error))?;
        Ok(Self { file, guardian })
    }

    /// Restores the former text. Dropping the knob restores it, too, but reports no failure.
    pub(crate) fn restore(self) -> Result<(), String> {
        let failures = self.guardian.undo().map_err(|error| format!("{}: {error}", self.file))?;
        failures.first().map_or(Ok(()), |failure| Err(failure.to_string()))
    }
}
