//! The running thread of each CPU, by all evidence: switches, and the thread that each record names as its own.

use crate::{Kernel, Moment};
use sordino_event::{Cpu, Domain, Loss, Tid, Time};
use std::collections::BTreeMap;

/// The threads that have the CPUs, as far as the records show it. If a record's own thread is not the known running
/// thread, a switch was not recorded.
#[derive(Clone, Debug, Default)]
pub struct RunningThreads {
    cpus: BTreeMap<Cpu, Occupied>,
}

/// The state of a CPU.
#[derive(Clone, Copy, Debug)]
struct Occupied {
    running: Option<Tid>,
    /// The time at which the running thread got the CPU, or the first time at which it certainly had it.
    since: Time,
    /// The time of the last evidence from this CPU.
    seen: Time,
    /// The number of switches that were not recorded.
    missing: u64,
}

/// A thread has a CPU, and the switch to it was not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnrecordedSwitch {
    /// The CPU that the thread has.
    pub cpu: Cpu,
    /// The thread that has the CPU now.
    pub tid: Tid,
    /// The thread that had it by the earlier records; `None` if no record showed one.
    pub believed: Option<Tid>,
    /// The time of the last evidence from this CPU, at which the earlier thread still had it.
    pub seen: Time,
    /// The time since which `tid` certainly has the CPU. After the idle thread, that is the time of the last evidence,
    /// as only the start of `tid` is missing.
    pub since: Time,
    /// The other CPUs that `tid` had by the earlier records, each with the time of the last evidence from there.
    pub left: Vec<(Cpu, Time)>,
}

/// A thread that a record shows on its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The CPU of the record.
    pub cpu: Cpu,
    /// The thread that has the CPU.
    pub tid: Tid,
    /// True if the record is ordered relative to the switches of its CPU even at the same nanosecond.
    pub is_ordered: bool,
}

impl Evidence {
    /// Returns the evidence of an event: its own thread or, for a switch, the thread that leaves. An NMI is no
    /// evidence, as it may come between the record of a switch and the switch.
    pub fn of(moment: &Moment<'_>) -> Option<Self> {
        let is_ordered = moment.domain == Domain::Kernel;
        let tid = match moment.kernel {
            Some(Kernel::Switch { prev, .. }) => prev.tid,
            Some(Kernel::Nmi { .. }) => return None,
            // The recorder's own observations.
            Some(_) if !is_ordered => return None,
            _ => moment.event.tid?,
        };
        let cpu = moment.cpu.filter(|_| tid.0 >= 0)?;
        Some(Self { cpu, tid, is_ordered })
    }
}

impl RunningThreads {
    /// Returns the thread that has the CPU; `Tid(0)` if it is idle, `None` if the trace does not show it.
    pub fn on(&self, cpu: Cpu) -> Option<Tid> {
        self.cpus.get(&cpu)?.running
    }

    /// Returns the CPU that the thread has; for the idle thread, the first idle CPU.
    pub fn cpu_of(&self, tid: Tid) -> Option<Cpu> {
        self.cpus.iter().find(|(_, cpu)| cpu.running == Some(tid)).map(|(cpu, _)| *cpu)
    }

    /// Applies the evidence of a record at `now`. Returns the unrecorded switch, if the CPU's known thread is another
    /// one.
    ///
    /// A record without order does not contradict a switch at the same nanosecond, which may be the later of the two.
    pub fn observe(&mut self, evidence: Evidence, now: Time) -> Option<UnrecordedSwitch> {
        let Evidence { cpu, tid, is_ordered } = evidence;
        let occupied = self.cpu(cpu);
        if !is_ordered && occupied.running.is_some() && occupied.since >= now {
            return None;
        }
        let seen = std::mem::replace(&mut occupied.seen, now);
        let believed = occupied.running;
        if believed == Some(tid) {
            return None;
        }
        let since = if believed == Some(Tid(0)) { seen } else { now };
        occupied.missing += u64::from(believed.is_some());
        (occupied.running, occupied.since) = (Some(tid), since);
        let left = self.leave_others(cpu, tid);
        Some(UnrecordedSwitch { cpu, tid, believed, seen, since, left })
    }

    /// Removes a thread from the other CPUs that it had by the earlier records. The idle thread may have many.
    fn leave_others(&mut self, cpu: Cpu, tid: Tid) -> Vec<(Cpu, Time)> {
        let has_it = |(other, occupied): &(&Cpu, &mut Occupied)| {
            tid != Tid(0) && **other != cpu && occupied.running == Some(tid)
        };
        let others = self.cpus.iter_mut().filter(has_it).map(|(other, occupied)| {
            (occupied.running, occupied.missing) = (None, occupied.missing + 1);
            (*other, occupied.seen)
        });
        others.collect()
    }

    /// Applies a recorded switch.
    pub fn switch(&mut self, cpu: Cpu, next: Tid, now: Time) {
        let occupied = self.cpu(cpu);
        (occupied.running, occupied.since) = (Some(next), now);
    }

    /// Forgets the threads of the CPUs whose kernel records are missing.
    pub fn lose(&mut self, loss: &Loss) {
        let is_lost = |cpu: Cpu| loss.pid.is_none() && loss.cpu.is_none_or(|lost| lost == cpu);
        let lost = self.cpus.iter_mut().filter(|(cpu, _)| is_lost(**cpu));
        lost.for_each(|(_, occupied)| occupied.running = None);
    }

    /// Returns the number of switches that were not recorded, for each CPU that lacks some.
    pub fn missing(&self) -> impl Iterator<Item = (Cpu, u64)> {
        let all = self.cpus.iter().map(|(cpu, occupied)| (*cpu, occupied.missing));
        all.filter(|(_, missing)| *missing > 0)
    }

    fn cpu(&mut self, cpu: Cpu) -> &mut Occupied {
        let new = || Occupied { running: None, since: Time::MIN, seen: Time::MIN, missing: 0 };
        self.cpus.entry(cpu).or_insert_with(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_event::LossCause;

    fn evidence(cpu: u32, tid: i32) -> Evidence {
        Evidence { cpu: Cpu(cpu), tid: Tid(tid), is_ordered: true }
    }

    #[test]
    fn a_record_of_another_thread_shows_a_switch_that_is_missing() {
        let mut threads = RunningThreads::default();
        threads.switch(Cpu(0), Tid(1), Time(10));
        assert_eq!(threads.observe(evidence(0, 1), Time(15)), None);
        let found = threads.observe(evidence(0, 2), Time(20));
        let (cpu, tid) = (Cpu(0), Tid(2));
        let (believed, seen, since) = (Some(Tid(1)), Time(15), Time(20));
        assert_eq!(found, Some(UnrecordedSwitch { cpu, tid, believed, seen, since, left: Vec::new() }));
        assert_eq!((threads.on(cpu), threads.missing().collect()), (Some(tid), vec![(cpu, 1)]));
    }

    #[test]
    fn a_thread_has_one_cpu_and_the_idle_thread_any_number() {
        let mut threads = RunningThreads::default();
        threads.switch(Cpu(0), Tid(1), Time(10));
        threads.switch(Cpu(1), Tid(0), Time(11));
        assert_eq!(threads.observe(evidence(0, 1), Time(12)), None);
        let found = threads.observe(evidence(1, 1), Time(20)).expect("another thread");
        assert_eq!((found.since, found.left), (Time::MIN, vec![(Cpu(0), Time(12))]));
        assert_eq!((threads.on(Cpu(0)), threads.cpu_of(Tid(1))), (None, Some(Cpu(1))));
        assert_eq!(threads.missing().collect::<Vec<_>>(), [(Cpu(0), 1), (Cpu(1), 1)]);
        threads.switch(Cpu(0), Tid(0), Time(21));
        assert_eq!(threads.observe(evidence(1, 0), Time(22)).expect("idle").left, []);
    }

    #[test]
    fn a_switch_at_the_same_nanosecond_is_believed_before_a_programs_record() {
        let mut threads = RunningThreads::default();
        threads.switch(Cpu(0), Tid(1), Time(10));
        let unordered = Evidence { is_ordered: false, ..evidence(0, 2) };
        assert_eq!(threads.observe(unordered, Time(10)), None);
        assert!(threads.observe(unordered, Time(11)).is_some());
    }

    #[test]
    fn nothing_is_believed_or_counted_as_missing_after_a_loss_of_the_kernels_records() {
        let mut threads = RunningThreads::default();
        threads.switch(Cpu(0), Tid(1), Time(10));
        let loss = |cpu, pid| Loss {
            from: Time(11),
            to: Time(12),
            cpu: Some(Cpu(cpu)),
            pid,
            count: None,
            cause: LossCause::RingFull,
            place: None,
        };
        threads.lose(&loss(0, Some(sordino_event::Pid(1))));
        threads.lose(&loss(1, None));
        assert_eq!(threads.on(Cpu(0)), Some(Tid(1)));
        threads.lose(&loss(0, None));
        assert_eq!(threads.on(Cpu(0)), None);
        assert!(threads.observe(evidence(0, 2), Time(20)).is_some());
        assert_eq!(threads.missing().count(), 0);
    }
}
