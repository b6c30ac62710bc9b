//! Entries of threads into the kernel and exits from it: system calls, signals, page faults, pieces of work.

use super::Tracker;
use crate::cause::{Cause, Thread};
use crate::files::File;
use crate::thread::{Activity, CurrentCall, Fault, Schedule, SignalHandling};
use sordino_event::{Cpu, Tid};
use sordino_timeline::kernel::{FaultReason, Syscall, signal_name};
use sordino_timeline::{Evidence, Futex, FutexOperation, Moment, System, is_reading};
use std::sync::Arc;

/// The maximum depth of nested signal handlers; a trace with more has lost their ends.
const HANDLERS_MAX: usize = 16;

impl Tracker {
    pub(super) fn work(&mut self, cpu: Cpu, tid: Option<Tid>, called: Option<Arc<str>>) {
        let Some(tid) = tid else { return };
        if let Some(run) = &mut self.cpus.entry(cpu).or_default().running
            && run.thread.tid == tid
        {
            run.work.clone_from(&called);
        }
        match called {
            Some(called) => self.works.insert(tid, called),
            None => self.works.remove(&tid),
        };
    }

    pub(super) fn syscall(
        &mut self,
        cpu: Cpu,
        moment: &Moment<'_>,
        call: Option<(Syscall<'_>, [Option<u64>; 3])>,
    ) {
        let Some(tid) = moment.tid else { return };
        self.seen(tid, Some(cpu), moment.system);
        if call.is_some_and(|(call, _)| self.arch.sets_priorities(&call)) {
            self.reorder();
        }
        if let Some(run) = &mut self.cpus.entry(cpu).or_default().running
            && run.thread.tid == tid
        {
            run.in_call = call.is_some();
        }
        let futex = call.and_then(|(call, arguments)| Futex::of(self.arch, &call, arguments));
        match futex {
            Some(futex) => self.futexes.insert(tid, futex),
            None => self.futexes.remove(&tid),
        };
        let Some(&index) = self.by_tid.get(&tid) else { return };
        let wakes_recorder = futex.is_some_and(|futex| {
            futex.operation == FutexOperation::Wake && moment.system.is_wake_up(tid, futex.word)
        });
        let call = call.map(|(call, _)| {
            let name = self.arch.name(&call);
            CurrentCall { name, since: self.now, serial: self.serial, wakes_recorder }
        });
        let thread = &mut self.threads[index];
        if call.as_ref().is_some_and(|call| &*call.name == "rt_sigreturn") {
            thread.handlers.pop();
        }
        (thread.syscall, thread.fault, thread.file, thread.asked) = (call, None, None, None);
    }

    /// Processes the delivery of a signal to a thread. Where system calls are not recorded, no event shows the end of
    /// its handler.
    pub(super) fn signal(&mut self, moment: &Moment<'_>, signal: i64, is_handled: bool) {
        let Some(tid) = moment.tid else { return };
        let sender = self.signals.deliver(tid, moment.system.pid(tid), signal);
        let Some(&index) = self.by_tid.get(&tid) else { return };
        self.left_call(index);
        // The fault is over: often it is the reason for the signal.
        (self.threads[index].fault, self.threads[index].file) = (None, None);
        if !is_handled || !self.recorded.syscalls {
            return;
        }
        let name = signal_name(signal).map_or_else(|| format!("signal {signal}").into(), Arc::from);
        let handlers = &mut self.threads[index].handlers;
        // A signal does not interrupt its own handler: the program left that one by a jump.
        if let Some(place) = handlers.iter().position(|handler| handler.signal == name) {
            handlers.truncate(place);
        }
        if handlers.len() < HANDLERS_MAX {
            handlers.push(SignalHandling { signal: name, sender, serial: self.serial });
        }
    }

    pub(super) fn fault(&mut self, cpu: Cpu, moment: &Moment<'_>, user: bool, reason: Option<FaultReason>) {
        let Some(&index) = moment.tid.and_then(|tid| self.by_tid.get(&tid)) else { return };
        if user {
            self.seen(self.threads[index].tid, Some(cpu), moment.system);
            self.left_call(index);
        }
        if self.is_interrupted(cpu) || self.threads[index].schedule != Schedule::Running {
            return;
        }
        if self.threads[index].syscall.is_some() {
            // Inside a call, the fault is only counted: it is unlikely that the rest of the call belongs to it.
            let activity = self.threads[index].activity.clone();
            self.spend(index, self.now, activity);
            self.spend(index, self.now, Activity::of(Cause::PageFault { reason, huge: false }, self.serial));
        } else if user {
            let fault = Fault { since: self.now, serial: self.serial, reason, huge: false };
            (self.threads[index].fault, self.threads[index].file) = (Some(fault), None);
        }
    }

    /// Notes that the thread is not in a call: its own code has a fault, or it is about to return to its own code.
    fn left_call(&mut self, index: usize) {
        let now = self.now;
        self.threads[index].syscall.take_if(|call| call.since < now);
    }

    /// Notes that the thread gets a huge page: in a page fault, the page belongs to the fault.
    pub(super) fn huge_page(&mut self, cpu: Cpu, moment: &Moment<'_>) {
        let Some(&index) = moment.tid.and_then(|tid| self.by_tid.get(&tid)) else { return };
        if self.is_interrupted(cpu) {
            return;
        }
        let thread = &mut self.threads[index];
        let Some(fault) = thread.fault.as_mut().filter(|_| thread.syscall.is_none()) else { return };
        fault.huge = true;
        // The time since the fault belongs to it, too.
        if thread.activity.serial == fault.serial && thread.activity.cause.is_page_fault() {
            thread.activity.cause = fault.cause();
        }
    }

    fn is_interrupted(&self, cpu: Cpu) -> bool {
        self.cpus.get(&cpu).is_some_and(|processor| processor.interrupt().is_some())
    }

    /// Processes an event in which the running thread requests a page of a file, or brings 2^`read` pages into memory.
    /// An uninterruptible sleep that follows is for these pages if the thread does nothing else: in a page fault of its
    /// own code, in a call that reads, or in a fault of another call that had to read them.
    pub(super) fn file(&mut self, moment: &Moment<'_>, (file, page): (File, u64), read: Option<u32>) {
        let Some(tid) = moment.tid.filter(|tid| *tid != Tid(0)) else { return };
        if let Some(order) = read {
            self.readers.read((file, page), order, Thread::of(moment.system, tid));
        }
        if !(self.recorded.syscalls && self.recorded.faults) {
            return;
        }
        let Some(&index) = self.by_tid.get(&tid) else { return };
        let by = self.readers.of((file, page));
        let thread = &mut self.threads[index];
        let is_for_it = match &thread.syscall {
            None => thread.fault.is_some(),
            Some(call) => read.is_some() && (is_reading(&call.name) || thread.asked == Some(file)),
        };
        thread.asked = if read.is_none() { Some(file) } else { thread.asked };
        if is_for_it {
            thread.file = Some((file, by));
        }
    }

    /// Processes an event of a program: the thread is back in user code.
    pub(super) fn in_user_code(&mut self, tid: Tid, cpu: Option<Cpu>, system: &System) {
        if self.continues_own_code(tid, cpu) {
            return;
        }
        self.seen(tid, cpu, system);
        if let Some(&index) = self.by_tid.get(&tid) {
            let (now, thread) = (self.now, &mut self.threads[index]);
            thread.syscall.take_if(|call| call.since < now);
            thread.fault.take_if(|fault| fault.since < now);
            thread.file = None;
            self.refresh(index, system);
        }
        cpu.into_iter().for_each(|cpu| self.refresh_cpu(cpu, system));
    }

    /// Returns true if the trace already shows this thread in its own code on this CPU, so that the event changes
    /// nothing: most events of programs are such.
    fn continues_own_code(&mut self, tid: Tid, cpu: Option<Cpu>) -> bool {
        let Some((cpu, &index)) = cpu.zip(self.by_tid.get(&tid)) else { return false };
        let thread = &self.threads[index];
        let goes_on = thread.cpu == Some(cpu)
            && thread.is_in_own_code()
            && !self.is_interrupted(cpu)
            && self.running.on(cpu) == Some(tid);
        if goes_on {
            self.running.observe(Evidence { cpu, tid, is_ordered: false }, self.now);
        }
        goes_on
    }
}
