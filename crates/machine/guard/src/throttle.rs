//! The kernel's limit on real-time threads, lifted during measurements.

use crate::{Error, start};
use sordino_event::text::with_causes;
use sordino_sched::is_root;
use sordino_undo::{Guardian, UndoStep};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The file of the kernel's limit.
pub const THROTTLE: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// The state of the limit after [`lift`].
pub enum Throttle {
    /// The kernel has no limit, or it is disabled.
    Unlimited,
    /// The limit is lifted until the guardian is dropped.
    Lifted {
        /// The limit before, as the kernel prints it.
        was: String,
        /// The guardian that sets the limit again.
        guardian: Guardian,
    },
    /// The limit stays as it is.
    Stays {
        /// The present value; `None` if it can't be read.
        now: Option<String>,
        /// The reason, with a remedy.
        why: String,
    },
}

/// Lifts the limit if this process may, unless there is a reason `against` it.
pub fn lift(against: Option<&str>) -> Throttle {
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
        None => guarded().map_err(|error| with_causes(&error)),
    };
    match lifted {
        Ok(guardian) => Throttle::Lifted { was: now, guardian },
        Err(why) => Throttle::Stays { now: Some(now), why },
    }
}

/// Lifts the limit until the returned guardian is dropped; `None` if it stays, which is reported, or if there is none.
pub fn lift_and_report(remark: &dyn Fn(&str)) -> Option<Guardian> {
    let (now, why) = match lift(None) {
        Throttle::Unlimited => return None,
        Throttle::Lifted { guardian, .. } => return Some(guardian),
        Throttle::Stays { now, why } => (now, why),
    };
    let (now, are) = match now {
        Some(now) => (format!("is {now}"), "are"),
        None => ("can't be read".to_owned(), "may be"),
    };
    remark(&format!("{THROTTLE} {now}: gaps of up to 50 ms in each second {are} caused by it ({why})"));
    None
}

fn guarded() -> Result<Guardian, Error> {
    let mut guardian = start()?;
    let change = guardian.add(UndoStep::restore(THROTTLE)?)?;
    match UndoStep::write(Path::new(THROTTLE), b"-1") {
        Ok(()) => Ok(guardian),
        Err(error) => {
            guardian.forget(change)?;
            Err(Error::Unusable(remedy(&error)))
        }
    }
}

fn remedy(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ReadOnlyFilesystem => {
            format!("{error}: mount -o remount,rw /proc/sys, or set it to -1 outside of the container")
        }
        ErrorKind::NotFound => format!("{error}: mount -t proc proc /proc"),
        _ => error.to_string(),
    }
}
