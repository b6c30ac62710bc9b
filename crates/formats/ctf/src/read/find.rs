//! The search for traces in a directory.

use crate::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// The maximum depth below a directory at which traces are found.
const MAX_DEPTH: usize = 32;

/// Returns all CTF traces at or below `dir`: the directories that contain a file `metadata`, sorted. Links to other
/// directories are not followed.
///
/// # Errors
/// If a directory can't be listed.
pub fn find(dir: impl AsRef<Path>) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut waiting = vec![(dir.as_ref().to_owned(), 0)];
    while let Some((dir, depth)) = waiting.pop() {
        let failed = |source| Error::Io { action: "list", path: dir.clone(), source };
        for entry in fs::read_dir(&dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() && depth < MAX_DEPTH {
                waiting.push((entry.path(), depth + 1));
            } else if entry.file_name() == "metadata" && is_there(&entry.path()) {
                found.push(dir.clone());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the stream files of the trace in `dir`, sorted. They include entries that cannot be stream files, such as a
/// FIFO, so that opening the trace fails.
pub(super) fn stream_files(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Io { action: "list", path: dir.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let hidden = name.as_encoded_bytes().starts_with(b".");
        if !hidden && name != "metadata" && is_there(&entry.path()) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// Returns true if `path`, or the target of a link, exists and is no directory.
fn is_there(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| !file.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_found_wherever_they_are() {
        let root = tempfile::tempdir().unwrap();
        for trace in ["b", "a/c", "a"] {
            let dir = root.path().join(trace);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("metadata"), "").unwrap();
        }
        fs::create_dir_all(root.path().join("d/metadata")).unwrap();
        std::os::unix::fs::symlink(root.path(), root.path().join("a/loop")).unwrap();
        let found = find(root.path()).unwrap();
        assert_eq!(found, ["a", "a/c", "b"].map(|trace| root.path().join(trace)));
        assert!(find(root.path().join("nowhere")).unwrap_err().to_string().starts_with("cannot list "));
    }

    #[test]
    fn what_is_no_stream_is_ignored() {
        let root = tempfile::tempdir().unwrap();
        for file in ["metadata", ".hidden", "b", "a"] {
            fs::write(root.path().join(file), "").unwrap();
        }
        fs::create_dir(root.path().join("index")).unwrap();
        assert_eq!(stream_files(root.path()).unwrap(), ["a", "b"].map(|file| root.path().join(file)));
    }
}
