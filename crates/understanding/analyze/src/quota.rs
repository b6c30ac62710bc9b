//! The limits of CPU time for the control groups of programs and for real-time threads, from the traces.

use crate::cause::{Cause, Limit, Thread};
use serde::Serialize;
use sordino_event::{Nanos, Pid};
use sordino_intervals::number;
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

/// The quotas of a program's control groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupQuotas {
    /// The quota of its ordinary threads, if it is known.
    pub ordinary: Option<Quota>,
    /// The same for its real-time threads; `None` where the machine's limit is theirs.
    pub real_time: Option<Option<Quota>>,
}

/// The quotas of programs when their recording began, and that of the machine's real-time threads.
#[derive(Clone, Debug, Default)]
pub struct Quotas {
    programs: BTreeMap<Pid, GroupQuotas>,
    real_time: Option<Quota>,
}

impl Quotas {
    /// Adds the quotas from the trace of a program. For programs that had the same process id, they are known only if
    /// all agree.
    pub fn add(&mut self, pid: Pid, quotas: GroupQuotas) {
        let known = self.programs.entry(pid).or_insert_with(|| quotas.clone());
        if *known != quotas {
            *known = GroupQuotas { ordinary: None, real_time: Some(None) };
        }
    }

    /// Sets the time in each period for which real-time threads may use a CPU (`sched_rt_runtime_us`).
    pub fn set_real_time(&mut self, runtime: Nanos, period: Nanos) {
        self.real_time = Some(Quota { group: None, runtime, period });
    }

    /// Returns the quota that is used up during this cause of a thread's time, or that may be used up while the thread
    /// waits.
    pub(crate) fn of(&self, cause: &Cause, pid: Option<Pid>, thread: &Thread) -> Option<Quota> {
        let is_real_time = thread.priority.is_some_and(Priority::is_real_time);
        let program = pid.and_then(|pid| self.programs.get(&pid));
        match cause {
            Cause::Throttled { limit: Limit::ControlGroup, .. } => program?.ordinary.clone(),
            Cause::Throttled { limit: Limit::RealTime, .. } => program
                .and_then(|program| program.real_time.clone())
                .unwrap_or_else(|| self.real_time.clone()),
            Cause::Waiting { .. } if !is_real_time => program?.ordinary.clone(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::After;
    use sordino_event::Tid;

    fn quota(runtime: i64) -> Option<Quota> {
        Some(Quota { group: Some("/a".into()), runtime: Nanos(runtime), period: Nanos(100) })
    }

    /// Returns the quota by which this cause kept a thread of this priority from its CPU.
    fn of(quotas: &Quotas, cause: &Cause, pid: Option<i32>, priority: i32) -> Option<Quota> {
        let thread =
            Thread { tid: Tid(1), comm: None, priority: Some(Priority(priority)), is_recorder: false };
        quotas.of(cause, pid.map(Pid), &thread)
    }

    const fn throttled(limit: Limit) -> Cause {
        Cause::Throttled { limit, syscall: None }
    }

    #[test]
    fn what_programs_of_one_number_say_differently_is_not_known() {
        let of = |quotas: &Quotas, limit, pid| of(quotas, &throttled(limit), pid, 120);
        let mut quotas = Quotas::default();
        let mut add = |pid, runtime: Option<i64>| {
            quotas.add(Pid(pid), GroupQuotas { ordinary: runtime.and_then(quota), real_time: None });
        };
        let some = [(1, 5), (1, 5), (2, 5), (2, 6), (2, 6), (3, 5)];
        some.into_iter().for_each(|(pid, runtime)| add(pid, Some(runtime)));
        add(3, None);
        let known = [1, 2, 3].map(|pid| of(&quotas, Limit::ControlGroup, Some(pid)));
        assert_eq!(known, [quota(5), None, None]);
        assert_eq!(of(&quotas, Limit::Deadline, Some(1)), None);
        assert_eq!(of(&quotas, Limit::ControlGroup, None), None);
        // The programs of the second number may have had a group each.
        quotas.set_real_time(Nanos(95), Nanos(100));
        assert_eq!(of(&quotas, Limit::RealTime, Some(2)), None);
    }

    #[test]
    fn a_thread_that_waits_may_be_throttled_unless_the_quota_is_for_others() {
        let mut quotas = Quotas::default();
        quotas.add(Pid(1), GroupQuotas { ordinary: quota(5), real_time: None });
        let waiting = Cause::Waiting { after: After::Preemption, behind: None, syscall: None };
        assert_eq!(of(&quotas, &waiting, Some(1), 120), quota(5));
        assert_eq!(of(&quotas, &waiting, Some(1), 49), None);
        assert_eq!(of(&quotas, &Cause::Own, Some(1), 120), None);
    }

    #[test]
    fn real_time_threads_have_the_quota_of_their_group_or_else_the_machines() {
        let mut quotas = Quotas::default();
        quotas.add(Pid(1), GroupQuotas::default());
        quotas.add(Pid(2), GroupQuotas { ordinary: None, real_time: Some(quota(5)) });
        quotas.add(Pid(3), GroupQuotas { ordinary: None, real_time: Some(None) });
        let all = |quotas: &Quotas| {
            [None, Some(1), Some(2), Some(3)].map(|pid| of(quotas, &throttled(Limit::RealTime), pid, 49))
        };
        assert_eq!(all(&quotas), [None, None, quota(5), None]);
        quotas.set_real_time(Nanos(95), Nanos(100));
        let machines = Some(Quota { group: None, runtime: Nanos(95), period: Nanos(100) });
        assert_eq!(all(&quotas), [machines.clone(), machines, quota(5), None]);
    }
}
