//! A file that a command writes for its user.

use crate::Failure;
use crate::failure::UNUSABLE;
use crate::privilege::target;
use rustix::fs::{Access, FileType, Mode, OFlags, access, fstat, open};
use sordino_dirfd::{Dir, remedy};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// A file for a report. Its path is resolved once, before anything is measured.
pub(crate) struct Output {
    option: &'static str,
    file: PathBuf,
    sink: Sink,
}

enum Sink {
    /// A regular file, made or replaced as a whole in a directory that is held open.
    Replaced { dir: Dir, name: String },
    /// A device or a pipe, such as `/dev/stdout`.
    Stream(File),
}

impl Output {
    /// Opens the file that `option` names, if it does. Refuses one that can't be written.
    pub(crate) fn of(option: &'static str, file: Option<&PathBuf>) -> Result<Option<Self>, Failure> {
        let Some(file) = file else { return Ok(None) };
        let sink = match file.metadata() {
            Ok(metadata) if metadata.is_dir() => {
                return Err(failed(option, file, "it is a directory; name a file in it"));
            }
            Ok(metadata) if !metadata.is_file() => stream(file),
            _ => replaced(file),
        };
        let sink = sink.map_err(|error| failed(option, file, format!("{error}{}", remedy(&error))))?;
        Ok(Some(Self { option, file: file.clone(), sink }))
    }

    /// Writes the whole file or, on a full disk, nothing: the previous file stays then.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.try_to_write(text).map_err(|error| failed(self.option, &self.file, error))
    }

    /// Writes the whole file as [`write`](Self::write) does; the text is on standard output already.
    pub(crate) fn write_copy(&mut self, text: &str) -> Result<(), Failure> {
        let written = self.try_to_write(text);
        let remark =
            |error| failed(self.option, &self.file, format!("{error}; the report is on standard output"));
        written.map_err(remark)
    }

    fn try_to_write(&mut self, text: &str) -> io::Result<()> {
        match &mut self.sink {
            Sink::Replaced { dir, name } => {
                match target(None).map_err(|failure| io::Error::other(failure.text().to_owned()))? {
                    // The file belongs to the user who called sudo.
                    Some(reader) => {
                        let owner = (reader.uid.as_raw(), reader.gid.as_raw());
                        dir.replace_durably_for(name, text.as_bytes(), owner)
                    }
                    None => dir.replace_durably(name, text.as_bytes()),
                }
            }
            Sink::Stream(stream) => stream.write_all(text.as_bytes()),
        }
    }
}

fn failed(option: &str, file: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::new(UNUSABLE, format!("can't write {option} {}: {error}", file.display()))
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

fn replaced(file: &Path) -> io::Result<Sink> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    access(parent, Access::WRITE_OK | Access::EXEC_OK)?;
    let name =
        file.file_name().and_then(|name| name.to_str()).ok_or_else(|| invalid("its name is no text"))?;
    Ok(Sink::Replaced { dir: Dir::open(parent)?, name: name.to_owned() })
}

/// Opens a device or a pipe, below `/dev` and `/proc` only: anywhere else, another user may have put a link to it.
fn stream(file: &Path) -> io::Result<Sink> {
    let found = open(file, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let is_disk = FileType::from_raw_mode(fstat(&found)?.st_mode) == FileType::BlockDevice;
    if is_disk || !(file.starts_with("/dev") || file.starts_with("/proc")) {
        return Err(invalid("it is no regular file, and no device or pipe below /dev or /proc"));
    }
    let found = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(Sink::Stream(open(found, flags, Mode::empty())?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn output(file: &Path) -> Result<Output, Failure> {
        Output::of("--output", Some(&file.to_owned())).map(Option::unwrap)
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_a_device_is_not_replaced() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("report");
        for text in ["one", "two"] {
            output(&file).unwrap().write(text).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
        let failure = output(Path::new("/dev/full")).unwrap().write("x").unwrap_err();
        assert!(failure.text().contains("No space left"), "{}", failure.text());
        assert!(!fs::metadata("/dev/full").unwrap().is_file());
        assert!(output(place.path()).is_err() && output(Path::new("/nowhere/x")).is_err());
        assert!(output(Path::new("x")).is_ok());
    }

    #[test]
    fn a_link_to_a_device_and_a_directory_in_its_place_are_not_written_to() {
        let place = tempfile::tempdir().unwrap();
        let (link, inside) = (place.path().join("link"), place.path().join("inside"));
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        assert!(output(&link).is_err());
        fs::create_dir(&inside).unwrap();
        let mut held = output(&inside.join("report")).unwrap();
        fs::rename(&inside, place.path().join("away")).unwrap();
        fs::create_dir(&inside).unwrap();
        held.write("text").unwrap();
        assert!(!inside.join("report").exists() && place.path().join("away/report").exists());
    }
}
