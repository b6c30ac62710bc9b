//! The limits of CPU time for the control groups of programs and for real-time threads, from the traces.

use crate::cause::{Cause, Limit, Thread};
use crate::number;
use serde::Serialize;
use sordino_event::{Nanos, Pid};
use sordino_timeline::Priority;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The CPU time in each period for a control group, or for all real-time threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Quota {
    /// The path of the control group; `None` for real-time threads.
    pub group: Option<Arc<str>>,
    /// The time that may be spent on CPUs in a period.
    #[serde(rename = "runtime_ns", serialize_with = "number::span")]
    pub runtime: Nanos,
    /// The length of a period, after which the whole runtime is available again.
    #[serde(rename = "period_ns", serialize_with = "number::span")]
    pub period: Nanos,
}

/// The quotas of programs when their recording began, and that of real-time threads.
#[derive(Clone, Debug, Default)]
pub struct Quotas {
    programs: BTreeMap<Pid, Option<Quota>>,
    real_time: Option<Quota>,
}

impl Quotas {
    /// Adds the quota from the trace of a program. For programs that had the same process id, it is known only if
    /// all agree.
    pub fn add(&mut self, pid: Pid, quota: Option<Quota>) {
        let known = self.programs.entry(pid).or_insert_with(|| quota.clone());
        if *known != quota {
            *known = None;
        }
    }

    /// Sets the time in each period for which real-time threads may use a CPU (`sched_rt_runtime_us`).
    pub fn set_real_time(&mut self, runtime: Nanos, period: Nanos) {
        self.real_time = Some(Quota { group: None, runtime, period });
    }

    /// Returns the quota that is used up where this is the cause of a thread's time, or may be while the thread waits.
    pub(crate) fn of(&self, cause: &Cause, pid: Option<Pid>, thread: &Thread) -> Option<Quota> {
        let is_real_time = thread.priority.is_some_and(Priority::is_real_time);
        match cause {
            Cause::Throttled { limit: Limit::ControlGroup, .. } => self.programs.get(&pid?)?.clone(),
            Cause::Throttled { limit: Limit::RealTime, .. } => self.real_time.clone(),
            Cause::Waiting { .. } if !is_real_time => self.programs.get(&pid?)?.clone(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::After;
    use sordino_event::Tid;

    #[test]
    fn what_programs_of_one_number_say_differently_is_not_known() {
        let quota =
            |runtime| Some(Quota { group: Some("/a".into()), runtime: Nanos(runtime), period: Nanos(100) });
        let throttled = |limit| Cause::Throttled { limit, syscall: None };
        let thread = |priority| Thread {
            tid: Tid(1),
            comm: None,
            priority: Some(Priority(priority)),
            is_recorder: false,
        };
        let of = |quotas: &Quotas, limit, pid| quotas.of(&throttled(limit), pid, &thread(120));
        let mut quotas = Quotas::default();
        quotas.add(Pid(1), quota(5));
        quotas.add(Pid(1), quota(5));
        quotas.add(Pid(2), quota(5));
        assert_eq!(of(&quotas, Limit::ControlGroup, Some(Pid(1))), quota(5));
        assert_eq!(of(&quotas, Limit::RealTime, Some(Pid(1))), None);
        quotas.set_real_time(Nanos(95), Nanos(100));
        let of_all = of(&quotas, Limit::RealTime, None).unwrap();
        assert_eq!((of_all.group, of_all.runtime), (None, Nanos(95)));
        assert_eq!(of(&quotas, Limit::Deadline, Some(Pid(1))), None);
        assert_eq!(of(&quotas, Limit::ControlGroup, None), None);
        assert_eq!(quotas.of(&Cause::Own, Some(Pid(1)), &thread(120)), None);
        // A thread that waits may be throttled instead; the quota does not concern real-time threads.
        let waiting = Cause::Waiting { after: After::Preemption, behind: None, syscall: None };
        assert_eq!(quotas.of(&waiting, Some(Pid(1)), &thread(120)), quota(5));
        assert_eq!(quotas.of(&waiting, Some(Pid(1)), &thread(49)), None);
        quotas.add(Pid(2), None);
        quotas.add(Pid(1), quota(6));
        quotas.add(Pid(1), quota(6));
        assert_eq!([1, 2].map(|pid| of(&quotas, Limit::ControlGroup, Some(Pid(pid)))), [None, None]);
    }
}
