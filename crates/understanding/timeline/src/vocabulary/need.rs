//! The classes on whose events, or on whose fields, the threads and CPUs of a super-trace depend.

use super::{Kind, Vocabulary};
use sordino_event::{ClassId, Domain};

impl Vocabulary {
    /// Returns true if the meaning of events of this class depends on their fields. The arguments of system calls do
    /// not count.
    pub fn reads_fields(&self, class: ClassId) -> bool {
        let index = class.index();
        let has_no_fields = |kind: Kind| {
            matches!(
                kind,
                Kind::NamedSyscall
                    | Kind::SyscallExit
                    | Kind::VectorEntry
                    | Kind::VectorExit
                    | Kind::TimerExit
                    | Kind::WorkExit
            )
        };
        self.kind(class).is_some_and(|kind| !has_no_fields(kind))
            || self.said.get(index).is_some_and(Option::is_some)
            || self.comms.get(index).is_some_and(Option::is_some)
            || self.perf_tids.get(index).is_some_and(Option::is_some)
            || self.counted.get(index).is_some_and(|(places, _)| places.is_some())
            || self.fibers.get(index).is_some_and(Option::is_some)
    }

    /// Returns true if the super-trace may know other threads, CPUs or fibers after an event of this class that has no
    /// process of its own.
    pub fn changes_system(&self, class: ClassId) -> bool {
        let Some((Domain::Kernel, _)) = self.meanings.get(class.index()) else { return true };
        match self.kind(class) {
            None => false,
            Some(
                Kind::Switch
                | Kind::Waking
                | Kind::Woken
                | Kind::Migrate
                | Kind::Boost
                | Kind::Fork
                | Kind::NewTask
                | Kind::Dump
                | Kind::Symbol
                | Kind::Recorder
                | Kind::Rename
                | Kind::Exec
                | Kind::Gone
                | Kind::Ids
                | Kind::Comm
                | Kind::Scheduling
                | Kind::Cgroup
                | Kind::Value
                | Kind::End,
            ) => true,
            Some(
                Kind::IrqEntry
                | Kind::IrqExit
                | Kind::SoftirqRaise
                | Kind::SoftirqEntry
                | Kind::SoftirqExit
                | Kind::VectorEntry
                | Kind::VectorExit
                | Kind::IpiEntry
                | Kind::IpiExit
                | Kind::Reschedule
                | Kind::Call
                | Kind::Nmi
                | Kind::UserFault
                | Kind::KernelFault
                | Kind::Allocation
                | Kind::FileFault
                | Kind::FileRead
                | Kind::RawSyscall
                | Kind::NamedSyscall
                | Kind::SyscallExit
                | Kind::SignalSent
                | Kind::SignalDelivered
                | Kind::TimerStart
                | Kind::TimerEntry
                | Kind::TimerExit
                | Kind::WorkEntry
                | Kind::WorkExit
                | Kind::Stolen
                | Kind::Interrupted,
            ) => false,
        }
    }

    fn kind(&self, class: ClassId) -> Option<Kind> {
        Some(self.meanings.get(class.index())?.1.as_ref()?.kind)
    }
}
