//! The CPU time that limits allow a program, as its trace says.

use crate::cause::{Cause, Limit};
use crate::number;
use serde::Serialize;
use sordino_event::{Nanos, Pid};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The CPU time that a limit allows in each period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// The time on a CPU.
    #[serde(rename = "runtime_ns", serialize_with = "number::span")]
    pub runtime: Nanos,
    /// The period.
    #[serde(rename = "period_ns", serialize_with = "number::span")]
    pub period: Nanos,
    /// The path of the control group whose limit it is, if it is one's.
    pub group: Option<Arc<str>>,
}

/// The shares of programs, as they were when these were taken up.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    /// That of all real-time threads of a CPU.
    pub real_time: BTreeMap<Pid, Share>,
    /// Those of control groups.
    pub groups: BTreeMap<Pid, Share>,
}

impl Shares {
    /// Returns the share that is used up where this is the cause.
    pub(crate) fn of(&self, cause: &Cause, pid: Option<Pid>) -> Option<Share> {
        match cause {
            Cause::Throttled { limit: Limit::RealTime, .. } => self.real_time.get(&pid?).cloned(),
            Cause::Throttled { limit: Limit::ControlGroup, .. } => self.groups.get(&pid?).cloned(),
            _ => None,
        }
    }
}
