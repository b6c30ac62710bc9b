//! The directory of a check's results.

use crate::Failure;
use crate::failure::UNUSABLE;
use sordino_check::write::{html, junit};
use sordino_check::{Limits, Report, SCHEMA};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where a check's reports are written, again and again as they grow.
pub(super) struct Output {
    directory: PathBuf,
}

impl Output {
    /// Makes the directory, if it is not there and empty.
    pub(super) fn prepare(directory: &Path) -> Result<Self, Failure> {
        let bad = |what: String| Failure::new(UNUSABLE, format!("{}: {what}", directory.display()));
        fs::create_dir_all(directory).map_err(|error| bad(error.to_string()))?;
        let mut entries = fs::read_dir(directory).map_err(|error| bad(error.to_string()))?;
        if entries.next().is_some() {
            return Err(bad("is not empty: name a new directory".to_owned()));
        }
        Ok(Self { directory: directory.to_owned() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.directory
    }

    /// Each file is whole at any moment: the old one stays until the new one is written.
    pub(super) fn write(&self, report: &Report, limits: &Limits) -> Result<(), Failure> {
        let longest = |step: &str| limits.longest(step).map(|time| time.as_nanos() as f64);
        let json = serde_json::to_string_pretty(report)? + "\n";
        for (name, text) in
            [("report.json", json), ("report.html", html(report, longest)), ("junit.xml", junit(report))]
        {
            let (new, file) = (self.directory.join(format!(".{name}.new")), self.directory.join(name));
            let written = write_through(&new, &text).and_then(|()| fs::rename(&new, &file));
            if let Err(error) = written {
                let _ = fs::remove_file(&new);
                return Err(Failure::new(UNUSABLE, format!("{}: {error}", file.display())));
            }
        }
        Ok(())
    }
}

/// On the disk before it gets its name, so that a power cut leaves the one or the other.
fn write_through(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// A report, from its directory or its file.
pub(crate) fn read(path: &Path) -> Result<Report, Failure> {
    let file = if path.is_dir() { path.join("report.json") } else { path.to_owned() };
    let bad = |what: String| Failure::new(UNUSABLE, format!("{}: {what}", file.display()));
    let text = fs::read_to_string(&file).map_err(|error| bad(error.to_string()))?;
    let report: Report =
        serde_json::from_str(&text).map_err(|error| bad(format!("no report of sordino check: {error}")))?;
    if report.schema != SCHEMA {
        return Err(bad(format!("its schema is {}; this sordino reads {SCHEMA}", report.schema)));
    }
    Ok(report)
}
