//! The decoder of the kernel's events.

use super::{KernelKind, Meaning};
use crate::kernel::{Born, FaultReason, Function, Interrupt, Kernel, Observed, Process, Sent, Syscall, Task};
use crate::scheduling::Scheduling;
use crate::task::TaskState;
use sordino_event::{Cpu, Event, Nanos, Pid, Tid, View};

/// Reads an event's fields by their index in `EVENTS`.
pub(super) struct FieldReader<'a> {
    pub(super) event: &'a Event,
    pub(super) meaning: &'a Meaning,
}

impl<'a> FieldReader<'a> {
    pub(super) fn read(&self) -> Option<Kernel<'a>> {
        Some(match self.meaning.kind {
            KernelKind::Switch => {
                Kernel::Switch { prev: self.task(0)?, state: self.state(6)?, next: self.task(3)? }
            }
            KernelKind::Waking => {
                Kernel::Waking { tid: self.tid(0)?, cpu: self.cpu(1), priority: self.int32(2) }
            }
            KernelKind::Woken => {
                Kernel::Woken { tid: self.tid(0)?, cpu: self.cpu(1), priority: self.int32(2) }
            }
            KernelKind::Migrate => Kernel::Migrate {
                tid: self.tid(0)?,
                from: self.cpu(1),
                to: self.cpu(2)?,
                priority: self.int32(3),
            },
            KernelKind::Boost => Kernel::Boost { tid: self.tid(0)?, priority: self.int32(1)? },
            KernelKind::IrqEntry => {
                Kernel::Enter(Interrupt::Irq(self.integer(0)?, self.text(1).unwrap_or_default()))
            }
            KernelKind::IrqExit => Kernel::Exit(Interrupt::Irq(self.integer(0)?, b"")),
            KernelKind::SoftirqRaise => Kernel::Raise { softirq: self.integer(0)? },
            KernelKind::SoftirqEntry => Kernel::Enter(Interrupt::Softirq(self.integer(0)?)),
            KernelKind::SoftirqExit => Kernel::Exit(Interrupt::Softirq(self.integer(0)?)),
            KernelKind::VectorEntry => Kernel::Enter(Interrupt::Vector(&self.meaning.name)),
            KernelKind::VectorExit => Kernel::Exit(Interrupt::Vector(&self.meaning.name)),
            KernelKind::IpiEntry => Kernel::Enter(Interrupt::Ipi(self.text(0)?)),
            KernelKind::IpiExit => Kernel::Exit(Interrupt::Ipi(self.text(0)?)),
            // Messages with a callback belong to calls, which have events of their own.
            KernelKind::Reschedule if self.bits(1)? != 0 => return None,
            KernelKind::Reschedule => Kernel::Message { to: self.cpu(0)?, function: None },
            KernelKind::Call => Kernel::Message { to: self.cpu(0)?, function: Some(self.function(1)?) },
            KernelKind::Nmi => {
                Kernel::Nmi { handler: self.function(0)?, duration: Nanos(self.integer(1)?.max(0)) }
            }
            KernelKind::UserFault => {
                Kernel::Fault { user: true, reason: self.bits(0).and_then(fault_reason) }
            }
            KernelKind::KernelFault => {
                Kernel::Fault { user: false, reason: self.bits(0).and_then(fault_reason) }
            }
            KernelKind::Allocation => Kernel::Allocation { order: self.integer(0)?.try_into().ok()? },
            KernelKind::RawSyscall => Kernel::SyscallEntry {
                call: Syscall::Number(self.integer(0)?),
                arguments: self.listed_arguments(1),
            },
            KernelKind::NamedSyscall => Kernel::SyscallEntry {
                call: Syscall::Name(&self.meaning.name),
                arguments: [self.bits(0), self.bits(1), self.bits(2)],
            },
            KernelKind::SyscallExit => Kernel::SyscallExit,
            KernelKind::SignalSent => Kernel::SignalSent {
                signal: self.integer(0)?,
                tid: self.tid(1)?,
                is_for_process: self.integer(2).map(|group| group != 0),
                result: self.integer(3).map(sent),
            },
            KernelKind::SignalDelivered => {
                // The addresses 0 and 1 are SIG_DFL and SIG_IGN.
                Kernel::SignalDelivered { signal: self.integer(0)?, is_handled: self.bits(1)? > 1 }
            }
            KernelKind::TimerStart => {
                Kernel::TimerStart { timer: self.bits(0)?, due: [self.integer(1)?, self.integer(2)?] }
            }
            KernelKind::TimerEntry => {
                Kernel::TimerEntry { function: self.function(0)?, timer: self.bits(1).zip(self.integer(2)) }
            }
            KernelKind::TimerExit => Kernel::TimerExit,
            KernelKind::WorkEntry => Kernel::WorkEntry(self.function(0)?),
            KernelKind::WorkExit => Kernel::WorkExit,
            KernelKind::Fork | KernelKind::NewTask | KernelKind::Dump => Kernel::Thread(self.born()?),
            KernelKind::Stolen => Kernel::Stolen {
                cpu: self.cpu(0)?,
                time: Nanos(self.integer(1)?),
                window: Nanos(self.integer(2)?),
            },
            KernelKind::FileFault | KernelKind::FileRead => {
                // The kernel's own number of a device: 12 bits of major, 20 of minor.
                let device = self.bits(0)?;
                Kernel::File {
                    device: ((device >> 20) as u32, (device & 0xf_ffff) as u32),
                    inode: self.bits(1)?,
                    index: self.bits(2)?,
                    read: (self.meaning.kind == KernelKind::FileRead)
                        .then(|| self.int32(3).map_or(0, i32::cast_unsigned)),
                }
            }
            KernelKind::Interrupted => {
                Kernel::Interrupted { cpu: self.cpu(0)?, time: Nanos(self.integer(1)?) }
            }
            KernelKind::Symbol => match self.function(0)? {
                Function::Address(address) => Kernel::Symbol { address, name: self.text(1)? },
                Function::Name(_) => return None,
            },
            KernelKind::Recorder => Kernel::Recorder { tid: self.tid(0)? },
            KernelKind::Rename => Kernel::Rename { tid: self.tid(0)?, comm: self.text(1)? },
            KernelKind::Exec => Kernel::Exec { tid: self.tid(0)?, old: self.tid(1) },
            KernelKind::Gone => Kernel::Gone { tid: self.tid(0)? },
            KernelKind::Ids
            | KernelKind::Comm
            | KernelKind::Scheduling
            | KernelKind::Cgroup
            | KernelKind::Annotation
            | KernelKind::End => Kernel::Context { pid: self.pid(0)?, tid: self.tid(1)?, seen: self.seen()? },
        })
    }

    fn seen(&self) -> Option<Observed<'a>> {
        Some(match self.meaning.kind {
            KernelKind::Ids => Observed::Ids { tid: self.tid(2)?, vpid: self.pid(3)? },
            KernelKind::Comm => Observed::Comm(self.text(2)?),
            KernelKind::Scheduling => {
                let [policy, priority, nice] = [self.integer(2)?, self.integer(3)?, self.integer(4)?];
                Observed::Scheduling(Scheduling { policy, priority, nice })
            }
            KernelKind::Cgroup => Observed::Cgroup(self.text(2)?),
            KernelKind::Annotation => Observed::Annotation { name: self.text(2)?, text: self.text(3)? },
            _ => Observed::End,
        })
    }

    fn born(&self) -> Option<Born<'a>> {
        const CLONE_THREAD: i64 = 0x10000;
        let known = |pid: Option<i32>| pid.map_or(Process::Unknown, |pid| Process::Known(Pid(pid)));
        let (tid, process, priority) = match self.meaning.kind {
            KernelKind::Fork => match self.tid(0) {
                Some(tid) => (tid, known(self.int32(2)), None),
                // In this event, `child_pid` is the thread's id.
                None => (self.tid(2)?, Process::Unknown, None),
            },
            KernelKind::NewTask => {
                let tid = self.tid(0)?;
                let own = || Process::Known(Pid(tid.0));
                let of_flags = |flags| if flags & CLONE_THREAD == 0 { own() } else { Process::OfMaker };
                (tid, self.integer(2).map_or(Process::Unknown, of_flags), None)
            }
            // A dump has the number of /proc/PID/stat, which is the kernel's less MAX_RT_PRIO.
            _ => (self.tid(0)?, known(self.int32(3)), self.int32(2).map(|prio| prio.saturating_add(100))),
        };
        Some(Born {
            tid,
            process,
            comm: self.text(1),
            priority,
            dumped: self.meaning.kind == KernelKind::Dump,
        })
    }

    /// Returns the thread whose fields begin at `place`: tid, comm, prio.
    fn task(&self, place: usize) -> Option<Task<'a>> {
        Some(Task { tid: self.tid(place)?, comm: self.text(place + 1), priority: self.int32(place + 2) })
    }

    fn state(&self, place: usize) -> Option<TaskState> {
        match self.integer(place) {
            Some(bits) => Some(TaskState::from_bits(bits)),
            None => TaskState::from_label(self.text(place)?),
        }
    }

    fn function(&self, place: usize) -> Option<Function<'a>> {
        match self.event.value(self.meaning.fields[place]?)? {
            View::Unsigned(address, _) => Some(Function::Address(address)),
            View::Signed(address, _) => Some(Function::Address(address.cast_unsigned())),
            View::Text(name) => Some(Function::Name(name)),
            _ => None,
        }
    }

    /// Returns the first three elements of the list at `place`.
    fn listed_arguments(&self, place: usize) -> [Option<u64>; 3] {
        let list = self.meaning.fields[place].and_then(|field| self.event.value(field));
        let Some(View::List(mut list)) = list else { return [None; 3] };
        [(); 3].map(|()| list.next().and_then(bits))
    }

    fn bits(&self, place: usize) -> Option<u64> {
        bits(self.event.value(self.meaning.fields[place]?)?)
    }

    fn pid(&self, place: usize) -> Option<Pid> {
        self.int32(place).map(Pid)
    }

    fn tid(&self, place: usize) -> Option<Tid> {
        self.int32(place).map(Tid)
    }

    fn cpu(&self, place: usize) -> Option<Cpu> {
        self.integer(place)?.try_into().ok().map(Cpu)
    }

    fn int32(&self, place: usize) -> Option<i32> {
        self.integer(place)?.try_into().ok()
    }

    fn integer(&self, place: usize) -> Option<i64> {
        self.event.integer(self.meaning.fields[place]?)
    }

    fn text(&self, place: usize) -> Option<&'a [u8]> {
        self.event.text(self.meaning.fields[place]?)
    }
}

/// Reads an error code of x86 (enum x86_pf_error_code of the kernel's <asm/trap_pf.h>). The codes of another processor
/// are recognized by a bit that x86 never sets there: RISC-V's 12, 13 and 15 (scause) have the bit of reserved page
/// table bits.
fn fault_reason(code: u64) -> Option<FaultReason> {
    const PRESENT: u64 = 1;
    const WRITE: u64 = 1 << 1;
    const USER: u64 = 1 << 2;
    const INSTRUCTION: u64 = 1 << 4;
    match code {
        code if code & !(PRESENT | WRITE | USER | INSTRUCTION) != 0 => None,
        code if code & PRESENT == 0 => Some(FaultReason::Missing),
        code if code & WRITE != 0 => Some(FaultReason::WriteProtected),
        _ => None,
    }
}

/// Reads `result` of `signal_generate`: TRACE_SIGNAL_* of the kernel's <trace/events/signal.h>.
fn sent(result: i64) -> Sent {
    match result {
        // DELIVERED, and LOSE_INFO: delivered without its additional information.
        0 | 4 => Sent::Pending,
        2 => Sent::Again,
        _ => Sent::Dropped,
    }
}

/// Returns the bits of a register's value, whatever type the tracer declares for it.
pub(super) fn bits(value: View<'_>) -> Option<u64> {
    match value {
        View::Unsigned(value, _) => Some(value),
        View::Signed(value, _) | View::Label(value, _) => Some(value.cast_unsigned()),
        _ => None,
    }
}
