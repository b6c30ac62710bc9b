//! The kernel's limit on real-time threads, lifted during measurements.

use crate::Failure;
use crate::commands::guard;
use crate::failure::UNUSABLE;
use crate::privilege::is_root;
use sordino_undo::{Guardian, UndoStep};
use std::fs;
use std::io::{Error, ErrorKind};
use std::path::Path;

/// The file of the kernel's limit.
pub(crate) const THROTTLE: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// The state of the limit after [`lift`].
pub(crate) enum Throttle {
    /// The kernel has no limit, or it is disabled.
    Unlimited,
    /// The limit is lifted until the guardian is dropped.
    Lifted { was: String, guardian: Guardian },
    /// The limit stays: its present value, if that can be read, and the reason, with a remedy.
    Stays { now: Option<String>, why: String },
}

/// Lifts the limit if this process may, unless there is a reason `against` it.
pub(crate) fn lift(against: Option<&str>) -> Throttle {
    let now = match fs::read_to_string(THROTTLE) {
        Ok(now) => now.trim().to_owned(),
        // This kernel has no limit.
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
    let change = guardian.add(UndoStep::restore(THROTTLE)?)?;
    match UndoStep::write(Path::new(THROTTLE), b"-1") {
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
