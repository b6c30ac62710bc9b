//! A file that a program writes for its user: a report, a picture.

use crate::Dir;
use rustix::fs::{Access, FileType, Mode, OFlags, access, fstat, open};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

/// A file for a report. Its path is resolved once, before anything is measured.
#[derive(Debug)]
pub struct ReportFile(ReportDestination);

#[derive(Debug)]
enum ReportDestination {
    /// A regular file, made or replaced as a whole in a directory that is held open.
    Replaced { dir: Dir, name: String },
    /// A device or a pipe, such as `/dev/stdout`.
    Stream(File),
}

impl ReportFile {
    /// Opens the directory of the file, or the device or pipe at `path`.
    ///
    /// # Errors
    /// It is a directory, its directory can't be written to, or it is neither a regular file nor a device or a pipe
    /// below `/dev` or `/proc`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let sink = match path.metadata() {
            Ok(metadata) if metadata.is_dir() => Err(invalid("it is a directory; name a file in it")),
            Ok(metadata) if !metadata.is_file() => stream(path),
            _ => replaced(path),
        };
        sink.map(Self)
    }

    /// Writes the whole file or, on a full disk, nothing: the previous file stays then. The new file belongs to the
    /// user and the group `owner`, if given.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn write(&mut self, bytes: &[u8], owner: Option<(u32, u32)>) -> io::Result<()> {
        match (&mut self.0, owner) {
            (ReportDestination::Replaced { dir, name }, Some(owner)) => {
                dir.replace_durably_for(name, bytes, owner)
            }
            (ReportDestination::Replaced { dir, name }, None) => dir.replace_durably(name, bytes),
            (ReportDestination::Stream(stream), _) => stream.write_all(bytes),
        }
    }
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

fn replaced(file: &Path) -> io::Result<ReportDestination> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    access(parent, Access::WRITE_OK | Access::EXEC_OK)?;
    let name =
        file.file_name().and_then(|name| name.to_str()).ok_or_else(|| invalid("its name is no text"))?;
    Ok(ReportDestination::Replaced { dir: Dir::open(parent)?, name: name.to_owned() })
}

/// Opens a device or a pipe, below `/dev` and `/proc` only: anywhere else, another user may have put a link to it.
fn stream(file: &Path) -> io::Result<ReportDestination> {
    let found = open(file, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let is_disk = FileType::from_raw_mode(fstat(&found)?.st_mode) == FileType::BlockDevice;
    if is_disk || !(file.starts_with("/dev") || file.starts_with("/proc")) {
        return Err(invalid("it is no regular file, and no device or pipe below /dev or /proc"));
    }
    let found = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(ReportDestination::Stream(open(found, flags, Mode::empty())?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_a_device_is_not_replaced() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("report");
        for text in ["one", "two"] {
            ReportFile::open(&file).unwrap().write(text.as_bytes(), None).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        let error = ReportFile::open(Path::new("/dev/full")).unwrap().write(b"x", None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(!fs::metadata("/dev/full").unwrap().is_file());
        assert!(
            ReportFile::open(place.path()).is_err() && ReportFile::open(Path::new("/nowhere/x")).is_err()
        );
        assert!(ReportFile::open(Path::new("x")).is_ok());
    }

    #[test]
    fn a_link_to_a_device_and_a_directory_in_its_place_are_not_written_to() {
        let place = tempfile::tempdir().unwrap();
        let (link, inside) = (place.path().join("link"), place.path().join("inside"));
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        assert!(ReportFile::open(&link).is_err());
        fs::create_dir(&inside).unwrap();
        let mut held = ReportFile::open(&inside.join("report")).unwrap();
        fs::rename(&inside, place.path().join("away")).unwrap();
        fs::create_dir(&inside).unwrap();
        held.write(b"text", None).unwrap();
        assert!(!inside.join("report").exists() && place.path().join("away/report").exists());
    }
}
