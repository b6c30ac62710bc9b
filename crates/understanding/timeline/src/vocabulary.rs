//! The names that tracers give to the kernel's events and their fields.

mod fiber;
mod field_reader;
mod need;

use crate::counted::{Count, Counted, Places};
use crate::fiber::FiberEvent;
use crate::kernel::Kernel;
use fiber::FiberMeaning;
use field_reader::FieldReader;
use sordino_event::{Class, Classes, Domain, Event, Tid};

/// The kinds of the kernel's events that a trace declares, even if none occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The event `sched_switch` is declared.
    pub switches: bool,
    /// The event `sched_waking` or `sched_wakeup` is declared.
    pub wakeups: bool,
    /// Moves of threads to other CPUs: `sched_migrate_task`.
    pub migrations: bool,
    /// The event `irq_handler_entry` is declared.
    pub irqs: bool,
    /// The event `softirq_entry` is declared.
    pub softirqs: bool,
    /// The kernel's own interrupts, or interrupts between CPUs.
    pub vectors: bool,
    /// The entries of system calls.
    pub syscalls: bool,
    /// Page faults of user code or of the kernel.
    pub faults: bool,
    /// The event `nmi_handler` is declared.
    pub nmis: bool,
    /// The event `signal_deliver` is declared.
    pub signals: bool,
    /// Any event of the kernel's tracer; a state dump and the recorder's own observations do not count.
    pub any: bool,
}

/// Reads the kernel's events under the names that the kernel, LTTng and perf give them.
#[derive(Debug)]
pub struct Vocabulary {
    /// The meaning of each class's events; indexed by class.
    meanings: Vec<(Domain, Option<Meaning>)>,
    /// The indexes of the name and the text in a `sordino:context`; indexed by class.
    annotations: Vec<Option<(usize, usize)>>,
    /// The index of the thread's name in a program's event; indexed by class.
    comms: Vec<Option<usize>>,
    /// The index of the thread's id in an event of the kernel that perf recorded; indexed by class.
    perf_tids: Vec<Option<usize>>,
    /// The indexes of the fields in a `sordino:counters`, and the number of each class; indexed by class. Empty if no
    /// class is a `sordino:counters`.
    counted: Vec<(Option<Places>, Option<u64>)>,
    /// The meaning of programs' events about fibers; indexed by class. Empty if the trace declares none.
    fibers: Vec<Option<FiberMeaning>>,
    recorded: Recorded,
}

#[derive(Debug)]
struct Meaning {
    kind: KernelKind,
    /// The indexes of the fields that `EVENTS` lists for the kind.
    fields: [Option<usize>; 7],
    /// The name of a vector or system call.
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KernelKind {
    Switch,
    Waking,
    Woken,
    Migrate,
    Boost,
    IrqEntry,
    IrqExit,
    SoftirqRaise,
    SoftirqEntry,
    SoftirqExit,
    VectorEntry,
    VectorExit,
    IpiEntry,
    IpiExit,
    Reschedule,
    Call,
    Nmi,
    UserFault,
    KernelFault,
    Allocation,
    FileFault,
    FileRead,
    RawSyscall,
    NamedSyscall,
    SyscallExit,
    SignalSent,
    SignalDelivered,
    TimerStart,
    TimerEntry,
    TimerExit,
    WorkEntry,
    WorkExit,
    Fork,
    NewTask,
    Dump,
    Symbol,
    Recorder,
    Stolen,
    Interrupted,
    Rename,
    Exec,
    Gone,
    Ids,
    Comm,
    Scheduling,
    Cgroup,
    Annotation,
    End,
}

/// The names of events without their tracer's prefix, and of their fields; `|` separates the kernel's and LTTng's.
const EVENTS: &[(&str, KernelKind, &[&str])] = &[
    (
        "sched_switch",
        KernelKind::Switch,
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
    ("sched_waking", KernelKind::Waking, &["tid|pid", "target_cpu", "prio"]),
    ("sched_wakeup", KernelKind::Woken, &["tid|pid", "target_cpu", "prio"]),
    ("sched_wakeup_new", KernelKind::Woken, &["tid|pid", "target_cpu", "prio"]),
    ("sched_migrate_task", KernelKind::Migrate, &["tid|pid", "orig_cpu", "dest_cpu", "prio"]),
    ("sched_pi_setprio", KernelKind::Boost, &["tid|pid", "newprio"]),
    ("irq_handler_entry", KernelKind::IrqEntry, &["irq", "name"]),
    ("irq_handler_exit", KernelKind::IrqExit, &["irq"]),
    ("softirq_raise", KernelKind::SoftirqRaise, &["vec"]),
    ("softirq_entry", KernelKind::SoftirqEntry, &["vec"]),
    ("softirq_exit", KernelKind::SoftirqExit, &["vec"]),
    ("ipi_entry", KernelKind::IpiEntry, &["reason"]),
    ("ipi_exit", KernelKind::IpiExit, &["reason"]),
    ("ipi_send_cpu", KernelKind::Reschedule, &["cpu", "callback"]),
    ("csd_queue_cpu", KernelKind::Call, &["cpu", "func"]),
    ("nmi_handler", KernelKind::Nmi, &["handler", "delta_ns"]),
    ("page_fault_user", KernelKind::UserFault, &["error_code"]),
    ("page_fault_kernel", KernelKind::KernelFault, &["error_code"]),
    ("mm_page_alloc", KernelKind::Allocation, &["order"]),
    ("mm_filemap_fault", KernelKind::FileFault, &["s_dev", "i_ino", "index"]),
    ("mm_filemap_add_to_page_cache", KernelKind::FileRead, &["s_dev", "i_ino", "index", "order"]),
    ("signal_generate", KernelKind::SignalSent, &["sig", "tid|pid", "group", "result"]),
    ("signal_deliver", KernelKind::SignalDelivered, &["sig", "sa_handler"]),
    ("hrtimer_start", KernelKind::TimerStart, &["hrtimer", "softexpires", "expires"]),
    ("hrtimer_expire_entry", KernelKind::TimerEntry, &["function", "hrtimer", "now"]),
    ("hrtimer_expire_exit", KernelKind::TimerExit, &[]),
    ("timer_expire_entry", KernelKind::TimerEntry, &["function"]),
    ("timer_expire_exit", KernelKind::TimerExit, &[]),
    ("workqueue_execute_start", KernelKind::WorkEntry, &["function"]),
    ("workqueue_execute_end", KernelKind::WorkExit, &[]),
    ("sched_process_fork", KernelKind::Fork, &["child_tid", "child_comm", "child_pid"]),
    ("task_newtask", KernelKind::NewTask, &["tid|pid", "comm", "clone_flags"]),
    ("lttng_statedump_process_state", KernelKind::Dump, &["tid", "name", "prio", "pid"]),
    ("sordino_statedump_symbol", KernelKind::Symbol, &["address", "name"]),
    ("sordino_statedump_recorder", KernelKind::Recorder, &["tid"]),
    ("sordino_steal", KernelKind::Stolen, &["cpu", "time_ns", "window_ns"]),
    ("sordino_statedump_interrupted", KernelKind::Interrupted, &["cpu", "time_ns"]),
    ("sordino_context_ids", KernelKind::Ids, &["pid", "vtid", "tid", "vpid"]),
    ("sordino_context_comm", KernelKind::Comm, &["pid", "vtid", "comm"]),
    ("sordino_context_priority", KernelKind::Scheduling, &["pid", "vtid", "policy", "priority", "nice"]),
    ("sordino_context_cgroup", KernelKind::Cgroup, &["pid", "vtid", "path"]),
    ("sordino_context_value", KernelKind::Annotation, &["pid", "vtid", "name", "value"]),
    ("sordino_context_end", KernelKind::End, &["pid", "vtid"]),
    ("task_rename", KernelKind::Rename, &["tid|pid", "newcomm"]),
    ("sched_process_exec", KernelKind::Exec, &["tid|pid", "old_tid|old_pid"]),
    ("sched_process_free", KernelKind::Gone, &["tid|pid"]),
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

/// Prefixes that LTTng and perf put before the kernel's names, each with its replacement.
const PREFIXES: &[(&str, &str)] = &[
    ("irq_softirq_", "softirq_"),
    ("timer_hrtimer_", "hrtimer_"),
    ("x86_irq_vectors_", ""),
    ("x86_exceptions_", ""),
    ("kmem_", ""),
];

impl Vocabulary {
    /// Finds the events of the kernel among `classes`.
    pub fn new(classes: &Classes) -> Self {
        let meanings: Vec<_> = classes.iter().map(|(_, class)| (class.domain, meaning(class))).collect();
        let is_traced = |class: &Class| {
            class.domain == Domain::Kernel && !is_added(class) && !class.name.starts_with("sordino_")
        };
        let any = classes.iter().any(|(_, class)| is_traced(class));
        let mut recorded = Recorded { any, ..Recorded::default() };
        for meaning in meanings.iter().filter_map(|(_, meaning)| meaning.as_ref()) {
            let seen = match meaning.kind {
                KernelKind::Switch => &mut recorded.switches,
                KernelKind::Waking | KernelKind::Woken => &mut recorded.wakeups,
                KernelKind::Migrate => &mut recorded.migrations,
                KernelKind::IrqEntry => &mut recorded.irqs,
                KernelKind::SoftirqEntry => &mut recorded.softirqs,
                KernelKind::VectorEntry | KernelKind::IpiEntry => &mut recorded.vectors,
                KernelKind::RawSyscall | KernelKind::NamedSyscall => &mut recorded.syscalls,
                KernelKind::UserFault | KernelKind::KernelFault => &mut recorded.faults,
                KernelKind::Nmi => &mut recorded.nmis,
                KernelKind::SignalDelivered => &mut recorded.signals,
                _ => continue,
            };
            *seen = true;
        }
        let annotations = |class: &Class| {
            is_own(class, "sordino:context").then_some(())?;
            class.field("name").zip(class.field("value"))
        };
        let mut counted: Vec<_> = classes.iter().map(|(_, class)| (places(class), class.number)).collect();
        if counted.iter().all(|(places, _)| places.is_none()) {
            counted.clear();
        }
        let mut fibers: Vec<_> = classes.iter().map(|(_, class)| FiberMeaning::of(class)).collect();
        if fibers.iter().all(Option::is_none) {
            fibers.clear();
        }
        let annotations = classes.iter().map(|(_, class)| annotations(class)).collect();
        let comms = classes.iter().map(|(_, class)| comm(class)).collect();
        let perf_tid = |class: &Class| class.field("perf_tid").filter(|_| class.domain == Domain::Kernel);
        let perf_tids = classes.iter().map(|(_, class)| perf_tid(class)).collect();
        Self { meanings, annotations, comms, perf_tids, counted, fibers, recorded }
    }

    /// Returns the kinds of the kernel's events that the trace has.
    pub fn recorded(&self) -> Recorded {
        self.recorded
    }

    /// Returns the origin of events like `event`.
    #[inline]
    pub fn domain(&self, event: &Event) -> Domain {
        self.meanings.get(event.class.index()).map_or(Domain::User, |(domain, _)| *domain)
    }

    /// Returns the annotation that the thread sets by `event`: its name and text.
    #[inline]
    pub(crate) fn annotations<'a>(&self, event: &'a Event) -> Option<(&'a [u8], &'a [u8])> {
        let (name, value) = (*self.annotations.get(event.class.index())?)?;
        Some((event.text(name)?, event.text(value)?))
    }

    /// Returns the name of the thread that hit `event`, where a program's trace has it in each event, as with LTTng's
    /// context.
    #[inline]
    pub(crate) fn comm<'a>(&self, event: &'a Event) -> Option<&'a [u8]> {
        event.text((*self.comms.get(event.class.index())?)?)
    }

    /// Returns the thread in whose time the kernel's event happened, where perf's trace has it among the event's
    /// fields.
    pub(crate) fn perf_tid(&self, event: &Event) -> Option<Tid> {
        let tid = event.integer((*self.perf_tids.get(event.class.index())?)?)?;
        i32::try_from(tid).ok().map(Tid)
    }

    /// Returns the role of `event` for its thread's counters: a record of counters, or an event that one may precede.
    #[inline]
    pub(crate) fn counted(&self, event: &Event) -> Option<Count> {
        let (places, number) = *self.counted.get(event.class.index())?;
        Some(match places {
            Some(places) => Count::Before(Counted::read(event, places)?),
            None => Count::At(number),
        })
    }

    /// Returns true if the trace declares programs' events about fibers.
    #[inline]
    pub fn has_fibers(&self) -> bool {
        !self.fibers.is_empty()
    }

    /// Returns true if the trace declares records of programs' counters.
    pub fn has_counters(&self) -> bool {
        !self.counted.is_empty()
    }

    /// Returns the decoded event, if it is a program's about fibers.
    pub fn fiber<'a>(&self, event: &'a Event) -> Option<FiberEvent<'a>> {
        Some(self.fibers.get(event.class.index())?.as_ref()?.read(event))
    }

    /// Returns the decoded event; `None` for events of programs, for unknown ones, and where a required field is
    /// missing.
    #[inline]
    pub fn read<'a>(&'a self, event: &'a Event) -> Option<Kernel<'a>> {
        let meaning = self.meanings.get(event.class.index())?.1.as_ref()?;
        FieldReader { event, meaning }.read()
    }
}

/// Returns true if the tracer adds the events of `class` by itself: the state dump of LTTng's tracers or of sordino,
/// which describes the state when the recording began, and the time that a hypervisor took.
pub fn is_added(class: &Class) -> bool {
    let prefixes: &[&str] = match class.domain {
        Domain::Kernel => &["lttng_statedump_", "sordino_statedump_", "sordino_steal"],
        Domain::User => &["lttng_ust_statedump:"],
    };
    prefixes.iter().any(|prefix| class.name.starts_with(prefix))
}

fn is_own(class: &Class, name: &str) -> bool {
    class.domain == Domain::User && class.name == name
}

fn comm(class: &Class) -> Option<usize> {
    class.field("$ctx.procname").filter(|_| class.domain == Domain::User)
}

fn places(class: &Class) -> Option<Places> {
    is_own(class, "sordino:counters").then_some(())?;
    let [tracepoint, counters, values] = ["tracepoint", "counters", "values"].map(|field| class.field(field));
    Some(Places { tracepoint: tracepoint?, counters: counters?, values: values? })
}

fn meaning(class: &Class) -> Option<Meaning> {
    if class.domain != Domain::Kernel {
        return None;
    }
    // The tool perf writes `sched:sched_switch`.
    let name = class.name.rsplit_once(':').map_or(class.name.as_str(), |(_, name)| name);
    let replace = |&(prefix, by): &(&str, &str)| name.strip_prefix(prefix).map(|rest| format!("{by}{rest}"));
    let name = PREFIXES.iter().find_map(replace).unwrap_or_else(|| name.to_owned());
    known(class, &name).or_else(|| vector(&name)).or_else(|| syscall(class, &name))
}

fn known(class: &Class, name: &str) -> Option<Meaning> {
    let (_, kind, field_names) = EVENTS.iter().find(|(known, ..)| *known == name)?;
    let mut fields = [None; 7];
    for (field, names) in fields.iter_mut().zip(*field_names) {
        *field = names.split('|').find_map(|name| class.field(name));
    }
    Some(Meaning { kind: *kind, fields, name: String::new() })
}

fn vector(name: &str) -> Option<Meaning> {
    let (vector, kind) = match name.strip_suffix("_entry") {
        Some(vector) => (vector, KernelKind::VectorEntry),
        None => (name.strip_suffix("_exit")?, KernelKind::VectorExit),
    };
    VECTORS.contains(&vector).then(|| Meaning { kind, fields: [None; 7], name: vector.to_owned() })
}

/// Recognizes system calls under their many names: `sys_enter` with a number, `sys_enter_NAME`, `syscall_entry_NAME`
/// since LTTng 2.3, `sys_NAME` and `exit_syscall` before.
fn syscall(class: &Class, name: &str) -> Option<Meaning> {
    let name = name.strip_prefix("compat_").unwrap_or(name);
    let (number, arguments) = (class.field("id"), class.field("args"));
    let raw = |kind| {
        Some(Meaning { kind, fields: [number, arguments, None, None, None, None, None], name: String::new() })
    };
    match name {
        "sys_enter" if number.is_some() => return raw(KernelKind::RawSyscall),
        "sys_exit" if number.is_some() => return raw(KernelKind::SyscallExit),
        "exit_syscall" => return raw(KernelKind::SyscallExit),
        _ => {}
    }
    if name.starts_with("sys_exit_") || name.starts_with("syscall_exit_") {
        return raw(KernelKind::SyscallExit);
    }
    let called =
        ["sys_enter_", "syscall_entry_", "sys_"].iter().find_map(|prefix| name.strip_prefix(prefix))?;
    let mut fields = [None; 7];
    if called == "futex" {
        (fields[0], fields[1], fields[2]) = (class.field("uaddr"), class.field("op"), class.field("val"));
    }
    Some(Meaning { kind: KernelKind::NamedSyscall, fields, name: called.to_owned() })
}
