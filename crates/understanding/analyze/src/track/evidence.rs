//! Evidence for the thread that had a CPU when a switch is not recorded: each record of the kernel names the thread
//! that has the CPU.

use super::Tracker;
use crate::cause::{Cause, Thread};
use crate::cpu::CurrentThread;
use crate::findings::MissingSwitches;
use crate::thread::{Activity, Schedule};
use sordino_event::{Cpu, Tid, Time};
use sordino_timeline::{Evidence, System, UnrecordedSwitch};

impl Tracker {
    /// Corrects the running thread of a CPU by a record that names it.
    pub(super) fn observe(&mut self, evidence: Evidence, system: &System) {
        if let Some(switch) = self.running.observe(evidence, self.now) {
            self.correct_cpu(&switch, system);
        }
    }

    /// Applies a switch that was not recorded: it came at some time after the last event of this CPU.
    fn correct_cpu(&mut self, switch: &UnrecordedSwitch, system: &System) {
        let (now, serial) = (self.now, self.serial);
        let UnrecordedSwitch { cpu, tid, believed, seen, since, ref left } = *switch;
        // Where the idle thread leaves without a record, only that choice of the scheduler is missing. Elsewhere a
        // thread may have had the CPU and have left it.
        let was_idle = believed == Some(Tid(0));
        let processor = self.cpus.entry(cpu).or_default();
        believed.into_iter().for_each(|believed| processor.leave_silently(believed));
        if !was_idle {
            processor.explained.iter().for_each(|&index| self.threads[index].queued = None);
        }
        if tid != Tid(0) {
            left.iter().for_each(|&(other, seen)| self.has_left(tid, other, seen, system));
            self.comes_to(tid, cpu);
        }
        for index in self.cpus.entry(cpu).or_default().explained.clone() {
            self.correct(index, believed, Some(tid), (seen, since));
        }
        believed.into_iter().for_each(|believed| self.past.forget(believed, now));
        if tid != Tid(0) {
            self.past.run(tid, since);
        }
        let (thread, work) = (Thread::of(system, tid), self.works.get(&tid).cloned());
        self.past.begin_slice(cpu, seen, None);
        self.past.begin_slice(cpu, now, Some(thread.clone()));
        let softirqs = self.softirqs.remove(&tid).unwrap_or_default();
        let processor = self.cpus.entry(cpu).or_default();
        let explained = processor.explained.clone();
        let left = processor.switch(
            CurrentThread { thread, work, in_call: false, is_inferred: true, since, serial },
            softirqs,
        );
        match was_idle {
            true => self.throttle(cpu, Tid(0), seen, system),
            false => explained.iter().for_each(|&index| self.may_run(index)),
        }
        if let Some(believed) = believed.filter(|believed| *believed != Tid(0) && !left.is_empty()) {
            self.softirqs.insert(believed, left);
        }
        self.now_do(&explained, cpu, system);
    }

    /// Corrects a CPU to which this thread was assigned: the thread has left it at an unknown time.
    fn has_left(&mut self, tid: Tid, other: Cpu, seen: Time, system: &System) {
        let processor = self.cpus.entry(other).or_default();
        processor.leave_silently(tid);
        processor.running = None;
        let explained = processor.explained.clone();
        self.past.begin_slice(other, seen, None);
        for &index in &explained {
            self.correct(index, Some(tid), None, (seen, self.now));
        }
        self.now_do(&explained, other, system);
    }

    /// Moves an explained thread to the CPU that it has, if it belonged to another.
    fn comes_to(&mut self, tid: Tid, cpu: Cpu) {
        let Some(&index) = self.by_tid.get(&tid) else { return };
        if self.threads[index].cpu.is_none_or(|before| before == cpu) {
            return;
        }
        let before = match self.threads[index].schedule {
            Schedule::Blocked(_) => self.threads[index].activity.clone(),
            _ => Activity::of(Cause::Unknown, self.serial),
        };
        self.spend(index, self.now, before);
        self.place(index, cpu);
        self.set(index, Schedule::Running);
    }

    /// Sets the present activity of these threads of a CPU. Their earlier time is accounted for.
    fn now_do(&mut self, explained: &[usize], cpu: Cpu, system: &System) {
        for &index in explained {
            let thread = &self.threads[index];
            let own = Thread::of(system, thread.tid);
            let activity = thread.activity(self.cpus.get(&cpu), &own);
            (self.threads[index].activity, self.threads[index].is_settled) = (activity, false);
        }
    }

    /// Accounts for an explained thread's time up to a switch that was not recorded. Until the last record of its CPU,
    /// at `seen`, the thread had its known activity; from then until `since`, its activity is unknown.
    fn correct(
        &mut self,
        index: usize,
        believed: Option<Tid>,
        tid: Option<Tid>,
        (seen, since): (Time, Time),
    ) {
        let (now, serial) = (self.now, self.serial);
        let thread = &self.threads[index];
        let schedule = thread.schedule;
        let [is_seen, had_it] = [tid, believed].map(|other| other == Some(thread.tid));
        let sleeps = matches!(schedule, Schedule::Blocked(_));
        // No record shows the wake-up of a sleeper that has the CPU: it slept until now.
        let until = if sleeps && is_seen { now } else { since.max(thread.since) };
        let (activity, certain) = (thread.activity.clone(), seen.max(thread.since).min(until));
        let is_behind_thread = believed.is_some_and(|believed| believed != Tid(0));
        let between = match (schedule, &activity.cause) {
            // One missing switch explains that the thread is back: until then, the CPU was the other thread's.
            _ if is_seen => activity.clone(),
            (Schedule::Waiting(_), Cause::Waiting { after, syscall, .. }) if is_behind_thread => {
                Activity::of(Cause::Waiting { after: *after, behind: None, syscall: syscall.clone() }, serial)
            }
            (Schedule::Running, _) if had_it => Activity::of(Cause::Unknown, serial),
            _ => activity.clone(),
        };
        self.spend(index, certain, activity);
        self.spend(index, until, Activity { is_inferred: is_seen || !sleeps, ..between });
        let thread = &mut self.threads[index];
        if is_seen {
            (thread.schedule, thread.changed) = (Schedule::Running, (until, serial));
        } else if had_it && schedule == Schedule::Running {
            (thread.schedule, thread.changed) = (Schedule::Unknown, (until, serial));
        }
    }

    /// Returns the number of switches that were not recorded, for each CPU that lacks some.
    pub(crate) fn missing_switches(&self) -> Vec<MissingSwitches> {
        self.running.missing().map(|(cpu, count)| MissingSwitches { cpu: cpu.0, count }).collect()
    }

    /// Notes that the thread runs outside of interrupts, and corrects the known state. At the same nanosecond the
    /// kernel's events take precedence: they may have come later.
    pub(super) fn seen(&mut self, tid: Tid, cpu: Option<Cpu>, system: &System) {
        let now = self.now;
        if let Some(cpu) = cpu {
            self.cpus.entry(cpu).or_default().is_in_thread(now);
            self.observe(Evidence { cpu, tid, is_ordered: false }, system);
        }
        let Some(&index) = self.by_tid.get(&tid) else { return };
        let thread = &self.threads[index];
        let elsewhere = thread.schedule != Schedule::Running || (cpu.is_some() && thread.cpu != cpu);
        if elsewhere && (thread.schedule == Schedule::Unknown || thread.changed.0 < now) {
            cpu.into_iter().for_each(|cpu| self.place(index, cpu));
            self.set(index, Schedule::Running);
            self.refresh(index, system);
        }
    }
}
