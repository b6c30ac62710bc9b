//! The CPU time that control groups allow programs, as their traces say.

use crate::cause::{Cause, Limit};
use crate::number;
use serde::Serialize;
use sordino_event::{Nanos, Pid};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The CPU time in each period that a control group has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Quota {
    /// The path of the control group.
    pub group: Arc<str>,
    /// The time on CPUs that it may take.
    #[serde(rename = "runtime_ns", serialize_with = "number::span")]
    pub runtime: Nanos,
    /// The time after which it has all of its runtime again.
    #[serde(rename = "period_ns", serialize_with = "number::span")]
    pub period: Nanos,
}

/// The quotas of programs, as they were when these were taken up.
#[derive(Clone, Debug, Default)]
pub struct Quotas(BTreeMap<Pid, Option<Quota>>);

impl Quotas {
    /// Adds what the trace of a program says. Of programs that had the same process id, only what all say is known.
    pub fn add(&mut self, pid: Pid, quota: Option<Quota>) {
        let known = self.0.entry(pid).or_insert_with(|| quota.clone());
        if *known != quota {
            *known = None;
        }
    }

    /// Returns the quota that is used up where this is the cause.
    pub(crate) fn of(&self, cause: &Cause, pid: Option<Pid>) -> Option<Quota> {
        let is_its = matches!(cause, Cause::Throttled { limit: Limit::ControlGroup, .. });
        self.0.get(&pid?).filter(|_| is_its)?.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_of_one_number_say_differently_is_not_known() {
        let quota = |runtime| Some(Quota { group: "/a".into(), runtime: Nanos(runtime), period: Nanos(100) });
        let throttled = |limit| Cause::Throttled { limit, syscall: None };
        let of = |quotas: &Quotas, limit, pid| quotas.of(&throttled(limit), pid);
        let mut quotas = Quotas::default();
        quotas.add(Pid(1), quota(5));
        quotas.add(Pid(1), quota(5));
        quotas.add(Pid(2), quota(5));
        assert_eq!(of(&quotas, Limit::ControlGroup, Some(Pid(1))), quota(5));
        assert_eq!(of(&quotas, Limit::RealTime, Some(Pid(1))), None);
        assert_eq!(of(&quotas, Limit::ControlGroup, None), None);
        assert_eq!(quotas.of(&Cause::Own, Some(Pid(1))), None);
        quotas.add(Pid(2), None);
        quotas.add(Pid(1), quota(6));
        quotas.add(Pid(1), quota(6));
        assert_eq!([1, 2].map(|pid| of(&quotas, Limit::ControlGroup, Some(Pid(pid)))), [None, None]);
    }
}
