//! The user of this process, and the user for whom it works.

use crate::failure::Failure;
use crate::failure::UNUSABLE;
use nix::unistd::{Gid, Uid, User, geteuid};
use sordino_sched::is_root;
use std::ffi::OsString;

/// A user as whom a command runs.
#[derive(Clone, Debug)]
pub struct Target {
    /// The user's id.
    pub uid: Uid,
    /// The id of the user's main group.
    pub gid: Gid,
    name: String,
}

/// Returns the user as whom to run a command: the named one, or else the user who called sudo; `None` for the current
/// user.
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
    /// Returns the words to put in front of a command that is to run as this user.
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
