//! Removing a directory of our own, through descriptors: no link is followed, and nothing of another user's is removed.

use crate::trust::vetted;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How deep directories may be nested; each level costs a descriptor.
const DEEPEST: usize = 64;

/// Removes the directory at this absolute path with all that is in it. Links above its last component are followed, as in `/tmp`.
///
/// # Errors
/// As for [`remove_directory_at`].
pub fn remove_directory(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::open(parent, flags, Mode::empty())?;
    remove_directory_at(parent.as_fd(), name)
}

/// Removes the directory called `name` in `parent` with all that is in it.
///
/// # Errors
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied), with the reason: it is no directory or belongs to another user, and is left
/// as it is. [`NotFound`](io::ErrorKind::NotFound) if it is not there. What can't be removed of it; the rest may be gone then.
pub fn remove_directory_at(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let refused = |reason: String| io::Error::new(io::ErrorKind::PermissionDenied, reason + ": left alone");
    let directory = match open(parent, name.as_bytes()) {
        Err(Errno::LOOP | Errno::NOTDIR) => return Err(refused("it is no directory".to_owned())),
        result => result?,
    };
    vetted(directory.fd()?, FileType::Directory).map_err(refused)?;
    empty(directory, DEEPEST)?;
    Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}

fn open(parent: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Dir::new(openat(parent, name, flags, Mode::empty())?)
}

/// Removes what a directory holds.
fn empty(mut directory: Dir, deepest: usize) -> io::Result<()> {
    // All names first: a directory that changes while it is listed may leave some out.
    let mut names: Vec<CString> = Vec::new();
    while let Some(entry) = directory.read() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    for name in names {
        match unlinkat(directory.fd()?, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            // What Linux says of a directory, and what POSIX has it say.
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        let deeper = deepest.checked_sub(1).ok_or_else(|| io::Error::other("it is nested too deeply"))?;
        empty(open(directory.fd()?, name.to_bytes())?, deeper)?;
        unlinkat(directory.fd()?, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_directory_goes_with_all_that_is_in_it_and_nothing_that_a_link_leads_to() {
        let place = tempfile::tempdir().unwrap();
        let (kept, gone) = (place.path().join("kept"), place.path().join("gone"));
        fs::create_dir_all(&kept).unwrap();
        fs::write(kept.join("file"), "").unwrap();
        fs::create_dir_all(gone.join("a/b")).unwrap();
        fs::write(gone.join("a/b/file"), "").unwrap();
        symlink(&kept, gone.join("a/link")).unwrap();
        remove_directory(&gone).unwrap();
        assert!(!gone.exists() && kept.join("file").exists());
        assert_eq!(remove_directory(&gone).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_is_no_directory_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let (link, file) = (place.path().join("link"), place.path().join("file"));
        fs::create_dir(place.path().join("target")).unwrap();
        symlink(place.path().join("target"), &link).unwrap();
        fs::write(&file, "").unwrap();
        for path in [&link, &file] {
            let error = remove_directory(path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(error.to_string(), "it is no directory: left alone");
            assert!(fs::symlink_metadata(path).is_ok());
        }
        assert!(remove_directory(Path::new("/")).is_err());
    }

    #[test]
    fn a_directory_that_is_nested_too_deeply_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("top");
        fs::create_dir_all((0..100).fold(top.clone(), |path, _| path.join("d"))).unwrap();
        assert!(remove_directory(&top).unwrap_err().to_string().contains("too deeply"));
    }
}
