//! The kernel's limit on real-time threads, lifted while something is measured.

use crate::Failure;
use crate::commands::guard;
use crate::failure::UNUSABLE;
use crate::privilege::is_root;
use sordino_undo::{Guardian, Step};
use std::fs;
use std::io::{Error, ErrorKind};
use std::path::Path;

/// The setting.
pub(crate) const THROTTLE: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// What became of the limit.
pub(crate) enum Throttle {
    /// There is none.
    Unlimited,
    /// It is lifted until the guardian is dropped.
    Lifted { was: String, guardian: Guardian },
    /// It stays: the setting as it is, if that can be read, and why, with what to do.
    Stays { now: Option<String>, why: String },
}

/// Lifts the limit if that may be done, and nothing is said to be `against` it.
pub(crate) fn lift(against: Option<&str>) -> Throttle {
    let now = match fs::read_to_string(THROTTLE) {
        Ok(now) => now.trim().to_owned(),
        // A kernel without the limit.
        Err(error) if error.kind() == ErrorKind::NotFound && Path::new("/proc/sys/kernel").exists() => {
            return Throttle::Unlimited;
        }
        Err(error) => return Throttle::Stays { now: None, why: remedy(&error) },
    };
    if now == "-1" {
        return Throttle::Unlimited;
    }
    let lifted = match against {
        Some(reason) => Err(reason.to_owned()),
        None if !is_root() => Err("run as root".to_owned()),
        None => guarded().map_err(|failure| failure.text().to_owned()),
    };
    match lifted {
        Ok(guardian) => Throttle::Lifted { was: now, guardian },
        Err(why) => Throttle::Stays { now: Some(now), why },
    }
}

fn guarded() -> Result<Guardian, Failure> {
    let mut guardian = guard::start()?;
    let change = guardian.add(Step::restore(THROTTLE)?)?;
    match Step::write(Path::new(THROTTLE), b"-1") {
        Ok(()) => Ok(guardian),
        Err(error) => {
            guardian.forget(change)?;
            Err(Failure::new(UNUSABLE, remedy(&error)))
        }
    }
}

fn remedy(error: &Error) -> String {
    match error.kind() {
        ErrorKind::ReadOnlyFilesystem => {
            format!("{error}: mount -o remount,rw /proc/sys, or set it to -1 outside of the container")
        }
        ErrorKind::NotFound => format!("{error}: mount -t proc proc /proc"),
        _ => error.to_string(),
    }
}
