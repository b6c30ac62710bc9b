//! The directories of sessions: a user's directory of sessions holds a directory for each, in which the recorder
//! [listens](crate::Listener). Every program that starts looks there.
//!
//! `sordino_registration` defines the paths and the rules of trust; the programs' side is
//! `crates/recording/probe/src/discovery.rs`. The caller that makes a session's directory also removes it.

use crate::error::Error;
use rustix::fs::{Mode, OFlags, fchmod, fstat, mkdir, rmdir};
use rustix::io::Errno;
use rustix::process::geteuid;
use sordino_dirfd::Dir;
use sordino_registration::environment::RUNTIME_DIR;
use sordino_registration::trust::{Distrust, vet_directory};
use sordino_registration::{LoginDirectory, SESSIONS, chosen, is_runtime_dir};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns this user's directory of sessions: the value of [`RUNTIME_DIR`], else `/run/sordino/sessions` for root,
/// `/run/user/UID/sordino/sessions` for a user who is logged in, `/tmp/sordino-UID/sessions` for others.
pub fn runtime_dir() -> PathBuf {
    let user = geteuid().as_raw();
    let is_users =
        |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == user);
    choose(std::env::var_os(RUNTIME_DIR), user, is_users)
}

fn choose(named: Option<OsString>, user: u32, is_users: impl Fn(&Path) -> bool) -> PathBuf {
    let is_logged_in = is_users(Path::new(&LoginDirectory(user).to_string()));
    match named {
        Some(path) if !path.is_empty() => path.into(),
        _ => Path::new(&chosen(user, is_logged_in).to_string()).join(OsStr::from_bytes(SESSIONS.to_bytes())),
    }
}

/// Returns true if a session can have this name: 1 to 48 letters, digits, `.`, `_` and `-`, neither `.` nor `-` at the
/// start.
pub fn is_session_name(name: &str) -> bool {
    sordino_registration::is_session_name(name.as_bytes())
}

/// Returns the directory of the session called `name`. Makes it and those above it if they do not exist.
///
/// # Errors
/// An error if the name is not valid, a directory can't be made, or other users could write to one of them: programs
/// would not search it.
pub fn session_dir(name: &str) -> Result<PathBuf, Error> {
    if !is_session_name(name) {
        return Err(Error::SessionName(name.to_owned()));
    }
    let sessions = runtime_dir();
    // A user who names a directory vouches for those above it. The default lies in `sordino`, which may lie in a
    // directory that others can write to.
    if let Some(above) = sessions.parent().filter(|_| !is_named()) {
        // Root's holds the shield, too, and a user who could open it could lock it.
        make(above, 0o711)?;
    }
    make(&sessions, 0o755)?;
    let directory = sessions.join(name);
    make(&directory, 0o755)?;
    Ok(directory)
}

/// Opens the directory of the session called `name`; `None` if there is none.
///
/// # Errors
/// An error if the name is not valid, or other users could write to the directory.
pub fn find_session_dir(name: &str) -> Result<Option<OwnedFd>, Error> {
    if !is_session_name(name) {
        return Err(Error::SessionName(name.to_owned()));
    }
    let path = runtime_dir().join(name);
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        _ => open(&path).map(Some),
    }
}

/// Removes the directory of a session, and those above it that are empty then.
///
/// # Errors
/// An error if a part of it can't be removed, or the directory of sessions is another user's.
pub fn remove_session_dir(name: &str) -> Result<(), Error> {
    if !is_session_name(name) {
        return Err(Error::SessionName(name.to_owned()));
    }
    let sessions = runtime_dir();
    open(&sessions)?;
    let removed = Dir::open(&sessions).and_then(|dir| dir.remove_own(name));
    removed.map_err(Error::output(&sessions.join(name)))?;
    // The directories stay if another session lies there.
    if rmdir(&sessions).is_ok() && !is_named() {
        let _ = sessions.parent().map(rmdir);
    }
    Ok(())
}

/// Returns true if the environment names the directory of sessions.
fn is_named() -> bool {
    std::env::var_os(RUNTIME_DIR).is_some_and(|path| !path.is_empty())
}

/// Makes a directory if it does not exist. Root's sessions are for the programs of all users, a user's only for that
/// user's.
fn make(path: &Path, roots: u32) -> Result<(), Error> {
    if !is_runtime_dir(path.as_os_str().as_bytes()) {
        let reason = format!("{RUNTIME_DIR} has to be an absolute path");
        return Err(Error::RuntimeDir { path: path.to_owned(), reason });
    }
    let mode = Mode::from_raw_mode(if geteuid().is_root() { roots } else { 0o700 });
    let is_new = match mkdir(path, mode) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => {
            let reason = format!(
                "{error}: mount a writable /run, or name a directory of yours with {RUNTIME_DIR}, here and for the programs"
            );
            return Err(Error::RuntimeDir { path: path.to_owned(), reason });
        }
    };
    let directory = open(path)?;
    // The umask may have removed permissions that programs need.
    if is_new { fchmod(&directory, mode).map_err(|error| Error::output(path)(error.into())) } else { Ok(()) }
}

/// Opens a directory that programs will trust, because no other user can have written to it.
///
/// # Errors
/// An error with the remedy, if it is no directory or not to be trusted.
pub fn open(path: &Path) -> Result<OwnedFd, Error> {
    let refused = |reason: String| Error::RuntimeDir { path: path.to_owned(), reason };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
        Errno::LOOP | Errno::NOTDIR => refused("it is no directory: remove it".to_owned()),
        error => refused(error.to_string()),
    })?;
    let found = fstat(&directory).map_err(|error| refused(error.to_string()))?;
    match vet_directory(found.st_uid, found.st_mode, geteuid().as_raw()) {
        Ok(()) => Ok(directory),
        Err(distrust) => Err(refused(remedy(distrust))),
    }
}

/// Returns the reason why a directory is not trusted, and the remedy.
fn remedy(distrust: Distrust) -> String {
    let reason = match distrust {
        Distrust::Owner(owner) => format!("it belongs to user {owner}: remove it"),
        Distrust::Mode(mode) => format!("its mode {mode:o} lets others write there: chmod go-w"),
    };
    format!("{reason}, or name another with {RUNTIME_DIR}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn each_user_has_a_directory_of_sessions() {
        let logged_in = |path: &Path| path == Path::new("/run/user/1000");
        let of = |named: Option<&str>, user| choose(named.map(OsString::from), user, logged_in);
        assert_eq!(of(None, 0), Path::new("/run/sordino/sessions"));
        assert_eq!(of(None, 1000), Path::new("/run/user/1000/sordino/sessions"));
        assert_eq!(of(None, 1001), Path::new("/tmp/sordino-1001/sessions"));
        assert_eq!(of(Some(""), 0), Path::new("/run/sordino/sessions"));
        assert_eq!((of(Some("/x"), 0), of(Some("/x"), 1000)), ("/x".into(), "/x".into()));
    }

    #[test]
    fn a_directory_that_is_not_trusted_has_a_remedy() {
        let another = "or name another with SORDINO_RUNTIME_DIR";
        let [owner, mode] = [Distrust::Owner(1001), Distrust::Mode(0o1777)].map(remedy);
        assert_eq!(owner, format!("it belongs to user 1001: remove it, {another}"));
        assert_eq!(mode, format!("its mode 1777 lets others write there: chmod go-w, {another}"));
    }

    #[test]
    fn names_that_are_none_have_no_directory() {
        for name in ["", ".", "..", ".hidden", "-x", "a/b", "a b", "ä", &"n".repeat(49)] {
            assert!(matches!(session_dir(name), Err(Error::SessionName(refused)) if refused == name));
        }
    }

    #[test]
    fn directories_that_others_could_use_are_refused_with_the_reason() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        make(&at("new"), 0o755).unwrap();
        make(&at("new"), 0o755).unwrap();
        fs::set_permissions(at("new"), fs::Permissions::from_mode(0o777)).unwrap();
        symlink(scratch.path(), at("link")).unwrap();
        fs::write(at("file"), "").unwrap();
        for (name, word) in [("new", "mode 777"), ("link", "no directory"), ("file", "no directory")] {
            let error = make(&at(name), 0o755).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains(&*at(name).to_string_lossy()), "{error}");
        }
        assert!(make(Path::new("relative"), 0o755).unwrap_err().to_string().contains("absolute"));
        let missing = make(&at("missing/below"), 0o755).unwrap_err().to_string();
        assert!(missing.contains("missing/below") && missing.contains(RUNTIME_DIR.name()), "{missing}");
    }
}
