//! The workspace for tidy: Cargo's packages, and the files that git tracks.

use super::code::crate_folder;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace that the current directory lies in.
pub struct Tree {
    /// The directory of the workspace's `Cargo.toml`.
    pub(super) root: PathBuf,
    /// The packages, as `cargo metadata` lists them.
    pub(super) packages: Vec<Value>,
    /// Files that a commit would hold, relative to the root. Untracked recordings, builds and notes are left out.
    pub(super) files: Vec<String>,
    /// The files that git neither tracks nor ignores.
    pub(super) untracked: Vec<String>,
}

impl Tree {
    /// Reads the workspace from Cargo and git.
    ///
    /// # Errors
    /// If one of them fails, with its own message.
    pub fn here() -> Result<Self, String> {
        let metadata = metadata(&[])?;
        let root = metadata["workspace_root"].as_str().map(PathBuf::from);
        let root = root.ok_or("cargo metadata names no workspace_root")?;
        let tables = metadata_of_tables(&root)?;
        let packages = [metadata, tables]
            .into_iter()
            .flat_map(|metadata| metadata["packages"].as_array().cloned().unwrap_or_default());
        let packages = packages.collect();
        let mut files = listed(&root, &["--cached"])?;
        files.retain(|file| root.join(file).is_file());
        let untracked = listed(&root, &["--others", "--exclude-standard"])?;
        Ok(Self { root, packages, files, untracked })
    }

    /// The files with one of these endings, and their texts.
    pub(super) fn texts(&self, endings: &[&str]) -> Vec<(&str, String)> {
        let has_ending = |file: &&String| {
            let ending = Path::new(file).extension().and_then(|ending| ending.to_str());
            ending.is_some_and(|ending| endings.contains(&ending))
        };
        let files = self.files.iter().filter(has_ending);
        files.map(|file| (file.as_str(), self.read(file))).collect()
    }

    /// The text of a file; empty if there is none.
    pub(super) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.root.join(file)).unwrap_or_default()
    }

    /// The folders of the crates, relative to `crates/`.
    pub(super) fn crates(&self) -> BTreeSet<&str> {
        let below = self.files.iter().filter_map(|file| file.strip_prefix("crates/"));
        below.map(crate_folder).collect()
    }
}

/// The packages of a workspace, with these additional arguments of `cargo metadata`.
fn metadata(arguments: &[&str]) -> Result<Value, String> {
    let always = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let metadata = output(Command::new(env!("CARGO")).args(always).args(arguments))?;
    serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))
}

/// The packages of the workspace `tables`, which uses this one's.
fn metadata_of_tables(root: &Path) -> Result<Value, String> {
    let manifest = root.join("tables/Cargo.toml");
    metadata(&["--manifest-path", &manifest.to_string_lossy()])
}

/// The files that `git ls-files` lists below `root`.
fn listed(root: &Path, which: &[&str]) -> Result<Vec<String>, String> {
    // If root runs the tests, git refuses a repository of another user unless it is marked as safe.
    let safe = format!("safe.directory={}", root.display());
    let mut git = Command::new("git");
    git.arg("-C").arg(root).args(["-c", &safe, "-c", "core.quotePath=false", "ls-files", "-z"]).args(which);
    Ok(output(&mut git)?.split_terminator('\0').map(str::to_owned).collect())
}

/// The standard output of a command that has to succeed.
fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim_end()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
