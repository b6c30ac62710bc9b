//! The classes on whose events, or on whose fields, the threads and CPUs of a super-trace depend.

use super::{KernelKind, Vocabulary};
use sordino_event::{ClassId, Domain};

impl Vocabulary {
    /// Returns true if the meaning of events of this class depends on their fields. The arguments of system calls do
    /// not count.
    pub fn reads_fields(&self, class: ClassId) -> bool {
        let index = class.index();
        let has_no_fields = |kind: KernelKind| {
            matches!(
                kind,
                KernelKind::NamedSyscall
                    | KernelKind::SyscallExit
                    | KernelKind::VectorEntry
                    | KernelKind::VectorExit
                    | KernelKind::TimerExit
                    | KernelKind::WorkExit
            )
        };
        self.kind(class).is_some_and(|kind| !has_no_fields(kind))
            || self.annotations.get(index).is_some_and(Option::is_some)
            || self.comms.get(index).is_some_and(Option::is_some)
            || self.perf_tids.get(index).is_some_and(Option::is_some)
            || self.counted.get(index).is_some_and(|(places, _)| places.is_some())
            || self.fibers.get(index).is_some_and(Option::is_some)
    }

    /// Returns true if an event of this class without a process of its own may change the super-trace's state of
    /// threads, CPUs or fibers.
    pub fn changes_system(&self, class: ClassId) -> bool {
        let Some((Domain::Kernel, _)) = self.meanings.get(class.index()) else { return true };
        match self.kind(class) {
            None => false,
            Some(
                KernelKind::Switch
                | KernelKind::Waking
                | KernelKind::Woken
                | KernelKind::Migrate
                | KernelKind::Boost
                | KernelKind::Fork
                | KernelKind::NewTask
                | KernelKind::Dump
                | KernelKind::Symbol
                | KernelKind::Recorder
                | KernelKind::Rename
                | KernelKind::Exec
                | KernelKind::Gone
                | KernelKind::Ids
                | KernelKind::Comm
                | KernelKind::Scheduling
                | KernelKind::Cgroup
                | KernelKind::Annotation
                | KernelKind::End,
            ) => true,
            Some(
                KernelKind::IrqEntry
                | KernelKind::IrqExit
                | KernelKind::SoftirqRaise
                | KernelKind::SoftirqEntry
                | KernelKind::SoftirqExit
                | KernelKind::VectorEntry
                | KernelKind::VectorExit
                | KernelKind::IpiEntry
                | KernelKind::IpiExit
                | KernelKind::Reschedule
                | KernelKind::Call
                | KernelKind::Nmi
                | KernelKind::UserFault
                | KernelKind::KernelFault
                | KernelKind::Allocation
                | KernelKind::FileFault
                | KernelKind::FileRead
                | KernelKind::RawSyscall
                | KernelKind::NamedSyscall
                | KernelKind::SyscallExit
                | KernelKind::SignalSent
                | KernelKind::SignalDelivered
                | KernelKind::TimerStart
                | KernelKind::TimerEntry
                | KernelKind::TimerExit
                | KernelKind::WorkEntry
                | KernelKind::WorkExit
                | KernelKind::Stolen
                | KernelKind::Interrupted,
            ) => false,
        }
    }

    fn kind(&self, class: ClassId) -> Option<KernelKind> {
        Some(self.meanings.get(class.index())?.1.as_ref()?.kind)
    }
}
