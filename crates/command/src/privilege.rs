//! The user of this process, and the user for whom it works.

use crate::failure::Failure;
use crate::failure::UNUSABLE;
use nix::unistd::{Gid, Group, Uid, User, geteuid, initgroups, setgid, setgroups, setuid};
use sordino_sched::is_root;
use std::ffi::{CString, OsString};
use std::io;

/// A user that a command runs as.
#[derive(Clone, Debug)]
pub struct Target {
    /// The id of the user.
    pub uid: u32,
    /// The id of the user's main group.
    pub gid: u32,
    name: String,
}

/// Returns the user that a command has to run as: the named one, or else the user who called sudo; `None` for the
/// current user.
pub fn target(named: Option<&str>) -> Result<Option<Target>, Failure> {
    if let Some(name) = named {
        let user = match name.parse() {
            Ok(uid) => User::from_uid(Uid::from_raw(uid)),
            Err(_) => User::from_name(name),
        };
        let user = user?.ok_or_else(|| Failure::new(UNUSABLE, format!("there is no user '{name}'")))?;
        if !is_root() && user.uid != geteuid() {
            return Err(Failure::new(UNUSABLE, format!("only root can run a command as {name}: use sudo")));
        }
        return Ok(Some(Target { uid: user.uid.as_raw(), gid: user.gid.as_raw(), name: user.name }));
    }
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    let (Some(uid), Some(gid)) = (number("SUDO_UID"), number("SUDO_GID")) else { return Ok(None) };
    if !is_root() || uid == 0 {
        return Ok(None);
    }
    let name = std::env::var("SUDO_USER").unwrap_or_default();
    Ok(Some(Target { uid, gid, name }))
}

/// Returns the id of the group with this name or id.
pub fn group(name: &str) -> Result<u32, Failure> {
    let group = match name.parse() {
        Ok(gid) => Group::from_gid(Gid::from_raw(gid)),
        Err(_) => Group::from_name(name),
    };
    let group = group?.ok_or_else(|| Failure::new(UNUSABLE, format!("there is no group '{name}'")))?;
    Ok(group.gid.as_raw())
}

/// Gives this process, with all its threads, the user and the group, and the other groups of the user with this name;
/// none if the name is empty.
///
/// # Errors
/// The kernel's error, or `InvalidInput` for a name with a zero byte. After an error, the process may have some of the
/// new ids.
pub fn become_user(uid: u32, gid: u32, name: &str) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    match name {
        "" => setgroups(&[gid])?,
        name => initgroups(&CString::new(name)?, gid)?,
    }
    setgid(gid)?;
    setuid(uid)?;
    Ok(())
}

impl Target {
    /// Returns the ids of the user and of its group.
    pub const fn ids(&self) -> (u32, u32) {
        (self.uid, self.gid)
    }

    /// Returns the words that run a command as this user, if they are put in front of it.
    pub fn prefix(&self) -> Vec<OsString> {
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
}
