//! The directory for a check's results.

use crate::Error;
use crate::write::{html, junit};
use crate::{Limits, Report, SCHEMA};
use sordino_dirfd::{Dir, read_regular, remedy};
use std::path::Path;
use std::sync::Arc;

/// The directory to which a check's reports are written after each step.
pub struct ReportDirectory {
    dir: Arc<Dir>,
}

impl ReportDirectory {
    /// Makes the directory; an existing one must be empty and belong to this user alone.
    ///
    /// # Errors
    /// It can't be made, has files, or others could change it.
    pub fn prepare(directory: &Path) -> Result<Self, Error> {
        let bad = |what: String| Error::Unusable(format!("{}: {what}", directory.display()));
        let made = Dir::make(directory).map_err(|error| bad(format!("{error}{}", remedy(&error))))?;
        if !made.is_new && made.dir.is_empty().map_err(|error| bad(error.to_string()))? {
            made.dir.close_to_group().map_err(|error| bad(error.to_string()))?;
        }
        made.dir.close_to_group().map_err(|error| bad(error.to_string()))?;
        let distrusted = made.dir.distrust().map_err(|error| bad(error.to_string()))?;
        if let Some(reason) = distrusted {
            return Err(bad(format!("is not ours alone ({reason}): name a new directory")));
        }
        if !made.dir.is_empty().map_err(|error| bad(error.to_string()))? {
            return Err(bad("is not empty: name a new directory".to_owned()));
        }
        Ok(Self { dir: made.dir })
    }

    /// Returns the directory's path, as it was named.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the directory itself.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Writes the reports. Each file is complete at any moment: the old one stays until the new one is written.
    ///
    /// # Errors
    /// The disk is full, for example; the text has the file.
    pub fn write(&self, report: &Report, limits: &Limits) -> Result<(), Error> {
        let longest = |step: &str| limits.longest(step).map(|time| time.as_nanos() as f64);
        let json = serde_json::to_string_pretty(report)? + "\n";
        for (name, text) in
            [("report.json", json), ("report.html", html(report, longest)), ("junit.xml", junit(report))]
        {
            let bad = |error| Error::Unusable(format!("{}: {error}", self.path().join(name).display()));
            self.dir.replace_durably(name, text.as_bytes()).map_err(bad)?;
        }
        Ok(())
    }
}

/// Largest report that is read, in bytes; real ones are smaller.
const MOST: u64 = 256 << 20;

/// Reads a report from its directory or its file.
///
/// # Errors
/// The file can't be read, or has no report of this schema.
pub fn read_report(path: &Path) -> Result<Report, Error> {
    let file = if path.is_dir() { path.join("report.json") } else { path.to_owned() };
    let bad = |what: String| Error::Unusable(format!("{}: {what}", file.display()));
    let text = read_regular(&file, MOST).map_err(|error| bad(error.to_string()))?;
    let report: Report =
        serde_json::from_str(&text).map_err(|error| bad(format!("no report of sordino check: {error}")))?;
    if report.schema != SCHEMA {
        return Err(bad(format!("its schema is {}; this sordino reads {SCHEMA}", report.schema)));
    }
    Ok(report)
}
