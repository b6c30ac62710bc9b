//! How tracers call the kernel's events and their fields.

use crate::context::Scheduling;
use crate::kernel::{Born, Function, Interrupt, Kernel, Process, Seen, Syscall, Task};
use crate::task::TaskState;
use sordino_event::{Class, Classes, Cpu, Domain, Event, Nanos, Pid, Tid, View};

/// Which of the kernel's events a trace has: declared, whether or not one occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// `sched_switch`.
    pub switches: bool,
    /// `sched_waking` or `sched_wakeup`.
    pub wakeups: bool,
    /// `irq_handler_entry`.
    pub irqs: bool,
    /// `softirq_entry`.
    pub softirqs: bool,
    /// The interrupts that the kernel keeps for itself, or messages between CPUs.
    pub vectors: bool,
    /// System calls.
    pub syscalls: bool,
    /// Page faults.
    pub faults: bool,
    /// `nmi_handler`.
    pub nmis: bool,
}

/// Reads the kernel's events under the names that the kernel, LTTng and perf give them.
#[derive(Debug)]
pub struct Vocabulary {
    /// Indexed by class.
    meanings: Vec<(Domain, Option<Meaning>)>,
    /// Likewise: where a `sordino:context` has the value's name and text.
    said: Vec<Option<(usize, usize)>>,
    recorded: Recorded,
}

#[derive(Debug)]
struct Meaning {
    kind: Kind,
    /// Where the fields that `EVENTS` lists for the kind are.
    fields: [Option<usize>; 7],
    /// Of a vector or system call.
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Switch,
    Waking,
    Woken,
    Migrate,
    Boost,
    IrqEntry,
    IrqExit,
    SoftirqEntry,
    SoftirqExit,
    VectorEntry,
    VectorExit,
    IpiEntry,
    IpiExit,
    Nmi,
    UserFault,
    KernelFault,
    RawSyscall,
    NamedSyscall,
    SyscallExit,
    TimerEntry,
    TimerExit,
    WorkEntry,
    WorkExit,
    Fork,
    NewTask,
    Dump,
    Symbol,
    Stolen,
    Rename,
    Exec,
    Gone,
    Ids,
    Comm,
    Scheduling,
    Cgroup,
    Value,
    End,
}

/// Names of events without their tracer's prefix, and of their fields; `|` separates the kernel's and LTTng's.
const EVENTS: &[(&str, Kind, &[&str])] = &[
    (
        "sched_switch",
        Kind::Switch,
        &[
            "prev_tid|prev_pid",
            "prev_comm",
            "prev_prio",
            "next_tid|next_pid",
            "next_comm",
            "next_prio",
            "prev_state",
        ],
    ),
    ("sched_waking", Kind::Waking, &["tid|pid", "target_cpu"]),
    ("sched_wakeup", Kind::Woken, &["tid|pid", "target_cpu"]),
    ("sched_wakeup_new", Kind::Woken, &["tid|pid", "target_cpu"]),
    ("sched_migrate_task", Kind::Migrate, &["tid|pid", "orig_cpu", "dest_cpu"]),
    ("sched_pi_setprio", Kind::Boost, &["tid|pid", "newprio"]),
    ("irq_handler_entry", Kind::IrqEntry, &["irq", "name"]),
    ("irq_handler_exit", Kind::IrqExit, &["irq"]),
    ("softirq_entry", Kind::SoftirqEntry, &["vec"]),
    ("softirq_exit", Kind::SoftirqExit, &["vec"]),
    ("ipi_entry", Kind::IpiEntry, &["reason"]),
    ("ipi_exit", Kind::IpiExit, &["reason"]),
    ("nmi_handler", Kind::Nmi, &["handler", "delta_ns"]),
    ("page_fault_user", Kind::UserFault, &[]),
    ("page_fault_kernel", Kind::KernelFault, &[]),
    ("hrtimer_expire_entry", Kind::TimerEntry, &["function"]),
    ("hrtimer_expire_exit", Kind::TimerExit, &[]),
    ("timer_expire_entry", Kind::TimerEntry, &["function"]),
    ("timer_expire_exit", Kind::TimerExit, &[]),
    ("workqueue_execute_start", Kind::WorkEntry, &["function"]),
    ("workqueue_execute_end", Kind::WorkExit, &[]),
    ("sched_process_fork", Kind::Fork, &["child_tid", "child_comm", "child_pid"]),
    ("task_newtask", Kind::NewTask, &["tid|pid", "comm", "clone_flags"]),
    ("lttng_statedump_process_state", Kind::Dump, &["tid", "name", "prio", "pid"]),
    ("sordino_statedump_symbol", Kind::Symbol, &["address", "name"]),
    ("sordino_steal", Kind::Stolen, &["cpu", "time_ns", "window_ns"]),
    ("sordino_context_ids", Kind::Ids, &["pid", "vtid", "tid", "vpid"]),
    ("sordino_context_comm", Kind::Comm, &["pid", "vtid", "comm"]),
    ("sordino_context_priority", Kind::Scheduling, &["pid", "vtid", "policy", "priority", "nice"]),
    ("sordino_context_cgroup", Kind::Cgroup, &["pid", "vtid", "path"]),
    ("sordino_context_value", Kind::Value, &["pid", "vtid", "name", "value"]),
    ("sordino_context_end", Kind::End, &["pid", "vtid"]),
    ("task_rename", Kind::Rename, &["tid|pid", "newcomm"]),
    ("sched_process_exec", Kind::Exec, &["tid|pid", "old_tid|old_pid"]),
    ("sched_process_free", Kind::Gone, &["tid|pid"]),
];

/// The x86 interrupts that have events of their own, named `NAME_entry` and `NAME_exit`.
const VECTORS: &[&str] = &[
    "local_timer",
    "reschedule",
    "call_function",
    "call_function_single",
    "irq_work",
    "error_apic",
    "spurious_apic",
    "thermal_apic",
    "threshold_apic",
    "deferred_error_apic",
    "x86_platform_ipi",
];

/// What LTTng and perf put before the kernel's names.
const PREFIXES: &[(&str, &str)] = &[
    ("irq_softirq_", "softirq_"),
    ("timer_hrtimer_", "hrtimer_"),
    ("x86_irq_vectors_", ""),
    ("x86_exceptions_", ""),
];

impl Vocabulary {
    /// Looks through `classes` for events of the kernel.
    pub fn new(classes: &Classes) -> Self {
        let meanings: Vec<_> = classes.iter().map(|(_, class)| (class.domain, meaning(class))).collect();
        let mut recorded = Recorded::default();
        for meaning in meanings.iter().filter_map(|(_, meaning)| meaning.as_ref()) {
            let seen = match meaning.kind {
                Kind::Switch => &mut recorded.switches,
                Kind::Waking | Kind::Woken => &mut recorded.wakeups,
                Kind::IrqEntry => &mut recorded.irqs,
                Kind::SoftirqEntry => &mut recorded.softirqs,
                Kind::VectorEntry | Kind::IpiEntry => &mut recorded.vectors,
                Kind::RawSyscall | Kind::NamedSyscall => &mut recorded.syscalls,
                Kind::UserFault | Kind::KernelFault => &mut recorded.faults,
                Kind::Nmi => &mut recorded.nmis,
                _ => continue,
            };
            *seen = true;
        }
        let said = |class: &Class| {
            let is_it = class.domain == Domain::User && class.name == "sordino:context";
            is_it.then_some(())?;
            class.field("name").zip(class.field("value"))
        };
        Self { meanings, said: classes.iter().map(|(_, class)| said(class)).collect(), recorded }
    }

    /// Which of the kernel's events the trace has.
    pub fn recorded(&self) -> Recorded {
        self.recorded
    }

    /// Where events like `event` come from.
    pub fn domain(&self, event: &Event) -> Domain {
        self.meanings.get(event.class.index()).map_or(Domain::User, |(domain, _)| *domain)
    }

    /// What the thread says of itself from `event` on: a value's name and text.
    pub(crate) fn said<'a>(&self, event: &'a Event) -> Option<(&'a [u8], &'a [u8])> {
        let (name, value) = (*self.said.get(event.class.index())?)?;
        Some((event.text(name)?, event.text(value)?))
    }

    /// What `event` says; `None` for those of programs, for unknown ones, and when a field is missing that
    /// it takes to make sense.
    pub fn read<'a>(&'a self, event: &'a Event) -> Option<Kernel<'a>> {
        let meaning = self.meanings.get(event.class.index())?.1.as_ref()?;
        Reader { event, meaning }.read()
    }
}

fn meaning(class: &Class) -> Option<Meaning> {
    if class.domain != Domain::Kernel {
        return None;
    }
    // perf writes `sched:sched_switch`.
    let name = class.name.rsplit_once(':').map_or(class.name.as_str(), |(_, name)| name);
    let replace = |&(prefix, by): &(&str, &str)| name.strip_prefix(prefix).map(|rest| format!("{by}{rest}"));
    let name = PREFIXES.iter().find_map(replace).unwrap_or_else(|| name.to_owned());
    known(class, &name).or_else(|| vector(&name)).or_else(|| syscall(class, &name))
}

fn known(class: &Class, name: &str) -> Option<Meaning> {
    let (_, kind, wanted) = EVENTS.iter().find(|(known, ..)| *known == name)?;
    let mut fields = [None; 7];
    for (field, names) in fields.iter_mut().zip(*wanted) {
        *field = names.split('|').find_map(|name| class.field(name));
    }
    Some(Meaning { kind: *kind, fields, name: String::new() })
}

fn vector(name: &str) -> Option<Meaning> {
    let (vector, kind) = match name.strip_suffix("_entry") {
        Some(vector) => (vector, Kind::VectorEntry),
        None => (name.strip_suffix("_exit")?, Kind::VectorExit),
    };
    VECTORS.contains(&vector).then(|| Meaning { kind, fields: [None; 7], name: vector.to_owned() })
}

/// System calls go by many names: `sys_enter` with a number, `sys_enter_NAME`, `syscall_entry_NAME` since LTTng
/// 2.3, `sys_NAME` and `exit_syscall` before.
fn syscall(class: &Class, name: &str) -> Option<Meaning> {
    let name = name.strip_prefix("compat_").unwrap_or(name);
    let number = class.field("id");
    let raw = |kind| {
        Some(Meaning { kind, fields: [number, None, None, None, None, None, None], name: String::new() })
    };
    match name {
        "sys_enter" if number.is_some() => return raw(Kind::RawSyscall),
        "sys_exit" if number.is_some() => return raw(Kind::SyscallExit),
        "exit_syscall" => return raw(Kind::SyscallExit),
        _ => {}
    }
    if name.starts_with("sys_exit_") || name.starts_with("syscall_exit_") {
        return raw(Kind::SyscallExit);
    }
    let called =
        ["sys_enter_", "syscall_entry_", "sys_"].iter().find_map(|prefix| name.strip_prefix(prefix))?;
    Some(Meaning { kind: Kind::NamedSyscall, fields: [None; 7], name: called.to_owned() })
}

/// Picks an event's fields by their place in `EVENTS`.
struct Reader<'a> {
    event: &'a Event,
    meaning: &'a Meaning,
}

impl<'a> Reader<'a> {
    fn read(&self) -> Option<Kernel<'a>> {
        Some(match self.meaning.kind {
            Kind::Switch => {
                Kernel::Switch { prev: self.task(0)?, state: self.state(6)?, next: self.task(3)? }
            }
            Kind::Waking => Kernel::Waking { tid: self.tid(0)?, cpu: self.cpu(1) },
            Kind::Woken => Kernel::Woken { tid: self.tid(0)?, cpu: self.cpu(1) },
            Kind::Migrate => Kernel::Migrate { tid: self.tid(0)?, from: self.cpu(1), to: self.cpu(2)? },
            Kind::Boost => Kernel::Boost { tid: self.tid(0)?, priority: self.int32(1)? },
            Kind::IrqEntry => {
                Kernel::Enter(Interrupt::Irq(self.integer(0)?, self.text(1).unwrap_or_default()))
            }
            Kind::IrqExit => Kernel::Exit(Interrupt::Irq(self.integer(0)?, b"")),
            Kind::SoftirqEntry => Kernel::Enter(Interrupt::Softirq(self.integer(0)?)),
            Kind::SoftirqExit => Kernel::Exit(Interrupt::Softirq(self.integer(0)?)),
            Kind::VectorEntry => Kernel::Enter(Interrupt::Vector(&self.meaning.name)),
            Kind::VectorExit => Kernel::Exit(Interrupt::Vector(&self.meaning.name)),
            Kind::IpiEntry => Kernel::Enter(Interrupt::Ipi(self.text(0)?)),
            Kind::IpiExit => Kernel::Exit(Interrupt::Ipi(self.text(0)?)),
            Kind::Nmi => Kernel::Nmi { handler: self.function(0)?, duration: Nanos(self.integer(1)?.max(0)) },
            Kind::UserFault => Kernel::Fault { user: true },
            Kind::KernelFault => Kernel::Fault { user: false },
            Kind::RawSyscall => Kernel::SyscallEntry(Syscall::Number(self.integer(0)?)),
            Kind::NamedSyscall => Kernel::SyscallEntry(Syscall::Name(&self.meaning.name)),
            Kind::SyscallExit => Kernel::SyscallExit,
            Kind::TimerEntry => Kernel::TimerEntry(self.function(0)?),
            Kind::TimerExit => Kernel::TimerExit,
            Kind::WorkEntry => Kernel::WorkEntry(self.function(0)?),
            Kind::WorkExit => Kernel::WorkExit,
            Kind::Fork | Kind::NewTask | Kind::Dump => Kernel::Thread(self.born()?),
            Kind::Stolen => Kernel::Stolen {
                cpu: self.cpu(0)?,
                time: Nanos(self.integer(1)?),
                window: Nanos(self.integer(2)?),
            },
            Kind::Symbol => match self.function(0)? {
                Function::Address(address) => Kernel::Symbol { address, name: self.text(1)? },
                Function::Name(_) => return None,
            },
            Kind::Rename => Kernel::Rename { tid: self.tid(0)?, comm: self.text(1)? },
            Kind::Exec => Kernel::Exec { tid: self.tid(0)?, old: self.tid(1) },
            Kind::Gone => Kernel::Gone { tid: self.tid(0)? },
            Kind::Ids | Kind::Comm | Kind::Scheduling | Kind::Cgroup | Kind::Value | Kind::End => {
                Kernel::Context { pid: self.pid(0)?, tid: self.tid(1)?, seen: self.seen()? }
            }
        })
    }

    fn seen(&self) -> Option<Seen<'a>> {
        Some(match self.meaning.kind {
            Kind::Ids => Seen::Ids { tid: self.tid(2)?, vpid: self.pid(3)? },
            Kind::Comm => Seen::Comm(self.text(2)?),
            Kind::Scheduling => {
                let [policy, priority, nice] = [self.integer(2)?, self.integer(3)?, self.integer(4)?];
                Seen::Scheduling(Scheduling { policy, priority, nice })
            }
            Kind::Cgroup => Seen::Cgroup(self.text(2)?),
            Kind::Value => Seen::Value { name: self.text(2)?, text: self.text(3)? },
            _ => Seen::End,
        })
    }

    fn born(&self) -> Option<Born<'a>> {
        const CLONE_THREAD: i64 = 0x10000;
        let known = |pid: Option<i32>| pid.map_or(Process::Unknown, |pid| Process::Known(Pid(pid)));
        let (tid, process, priority) = match self.meaning.kind {
            Kind::Fork => match self.tid(0) {
                Some(tid) => (tid, known(self.int32(2)), None),
                // Here the kernel means the thread by `child_pid`.
                None => (self.tid(2)?, Process::Unknown, None),
            },
            Kind::NewTask => {
                let tid = self.tid(0)?;
                let own = || Process::Known(Pid(tid.0));
                let of_flags = |flags| if flags & CLONE_THREAD == 0 { own() } else { Process::OfMaker };
                (tid, self.integer(2).map_or(Process::Unknown, of_flags), None)
            }
            // A dump has the number of /proc/PID/stat, which is the kernel's less MAX_RT_PRIO.
            _ => (self.tid(0)?, known(self.int32(3)), self.int32(2).map(|prio| prio.saturating_add(100))),
        };
        Some(Born { tid, process, comm: self.text(1), priority, dumped: self.meaning.kind == Kind::Dump })
    }

    /// The thread whose fields begin at `place`: tid, comm, prio.
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
