//! Who runs this, and for whom.

use crate::Failure;
use crate::failure::UNUSABLE;
use nix::unistd::{Gid, Uid, User, geteuid};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, chownat, fchown, fstat, openat};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;

/// A user to become.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
    name: String,
}

/// Whether this process may do what only root may.
pub(crate) fn is_root() -> bool {
    geteuid().is_root()
}

/// The user whose command it is: the one that was named, else the one who called sudo; `None`: stay who we are.
pub(crate) fn target(named: Option<&str>) -> Result<Option<Target>, Failure> {
    if let Some(name) = named {
        let user = match name.parse() {
            Ok(uid) => User::from_uid(Uid::from_raw(uid)),
            Err(_) => User::from_name(name),
        };
        let user = user?.ok_or_else(|| Failure::new(UNUSABLE, format!("there is no user '{name}'")))?;
        if !is_root() && user.uid != geteuid() {
            return Err(Failure::new(UNUSABLE, format!("only root can run a command as {name}: use sudo")));
        }
        return Ok(Some(Target { uid: user.uid, gid: user.gid, name: user.name }));
    }
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    let (Some(uid), Some(gid)) = (number("SUDO_UID"), number("SUDO_GID")) else { return Ok(None) };
    if !is_root() || uid == 0 {
        return Ok(None);
    }
    let name = std::env::var("SUDO_USER").unwrap_or_default();
    Ok(Some(Target { uid: Uid::from_raw(uid), gid: Gid::from_raw(gid), name }))
}

impl Target {
    /// What to run in front of a command so that it runs as this user.
    pub(crate) fn prefix(&self) -> Vec<OsString> {
        let words = [
            "/proc/self/exe".to_owned(),
            "become".to_owned(),
            self.uid.to_string(),
            self.gid.to_string(),
            self.name.clone(),
            "--".to_owned(),
        ];
        words.map(OsString::from).to_vec()
    }

    /// Gives a directory of ours and all in it to this user, as far as that works. The user may have put other things in its place:
    /// what is not ours stays whose it is, and links lead nowhere.
    pub(crate) fn give(&self, path: &Path) {
        if let Ok(directory) = rustix::fs::open(path, DIRECTORY, Mode::empty()) {
            self.give_open(&directory);
        }
    }

    /// First what is inside: until then, the directory is ours alone to change.
    fn give_open(&self, directory: &OwnedFd) {
        let is_ours = fstat(directory).is_ok_and(|status| status.st_uid == geteuid().as_raw());
        let Ok(entries) = Dir::read_from(directory) else { return };
        if !is_ours {
            return;
        }
        let uid = Some(rustix::fs::Uid::from_raw(self.uid.as_raw()));
        let gid = Some(rustix::fs::Gid::from_raw(self.gid.as_raw()));
        let names = entries.flatten().map(|entry| entry.file_name().to_owned());
        for name in names.filter(|name| ![c".", c".."].contains(&name.as_c_str())) {
            match openat(directory, &name, DIRECTORY, Mode::empty()) {
                Ok(inside) => self.give_open(&inside),
                Err(_) => _ = chownat(directory, &name, uid, gid, AtFlags::SYMLINK_NOFOLLOW),
            }
        }
        let _ = fchown(directory, uid, gid);
    }
}

/// How to open a directory, and nothing else.
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
