//! The file of `sordino npt --output`.

use crate::Failure;
use crate::failure::UNUSABLE;
use rustix::fs::{Access, access};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Where the file is to lie.
fn directory(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn failed(file: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::new(UNUSABLE, format!("can't write --output {}: {error}", file.display()))
}

/// Refuses before anything is measured what is known not to work.
pub(super) fn may_write(file: &Path) -> Result<(), Failure> {
    if file.is_dir() {
        return Err(failed(file, "it is a directory; name a file in it"));
    }
    let may = match fs::metadata(file) {
        Ok(metadata) if !metadata.is_file() => access(file, Access::WRITE_OK),
        _ => access(directory(file), Access::WRITE_OK | Access::EXEC_OK),
    };
    may.map_err(|error| failed(file, error))
}

/// Writes the whole file or, on a full disk, none: what was there before stays then. A device is written to as it is.
pub(super) fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let written = match fs::metadata(file) {
        Ok(metadata) if !metadata.is_file() => fs::write(file, text),
        _ => replace(file, text),
    };
    written.map_err(|error| failed(file, format!("{error}; the report is on standard output")))
}

fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let mut partial = tempfile::Builder::new();
    // As any new file: the umask takes from it.
    partial.prefix(".npt-").permissions(Permissions::from_mode(0o666));
    let mut partial = partial.tempfile_in(directory(file))?;
    partial.write_all(text.as_bytes())?;
    partial.as_file().sync_all()?;
    partial.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_a_device_is_not_replaced() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("report");
        for text in ["one", "two"] {
            write(&file, text).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        let failure = write(Path::new("/dev/full"), "x").unwrap_err();
        assert!(failure.text().contains("No space left"), "{}", failure.text());
        assert!(!fs::metadata("/dev/full").unwrap().is_file());
        assert!(may_write(place.path()).is_err() && may_write(Path::new("/nowhere/x")).is_err());
        assert!(may_write(&file).is_ok() && may_write(Path::new("x")).is_ok());
    }
}
