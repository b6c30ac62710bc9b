//! What threads, causes and losses are called.

use super::chain::awaited;
use crate::TimeFormat;
use crate::page::{TIE, name};
use crate::span::span;
use sordino_analyze::{
    After, Cause, Explanation, Inversion, Inverted, Limit, Lock, Lost, Main, Part, Quota, ReadFile, Sender,
    Stage, Thread, Unrecorded, Waker,
};
use sordino_event::Cpu;
use sordino_event::text::count;
use sordino_timeline::TaskState;
use sordino_timeline::kernel::FaultReason;

/// As many functions, wakers, links of a chain, inversions, losses are listed.
pub(super) const DETAILS_MAX: usize = 5;

/// `hog/123 (RT 95)`, as far as it is known; `sordino's recorder sordino-collect/123 (nice 0)`.
pub(super) fn thread(thread: &Thread) -> String {
    if thread.is_idle() {
        return "the idle thread".into();
    }
    let comm = thread.comm.as_deref().map_or("?".into(), name);
    let whose = if thread.is_recorder { "sordino's recorder " } else { "" };
    match thread.priority {
        Some(priority) => {
            let priority = priority.to_string().replace(' ', &TIE.to_string());
            format!("{whose}{comm}/{}{TIE}({priority})", thread.tid)
        }
        None => format!("{whose}{comm}/{}", thread.tid),
    }
}

/// A cause, as a row of a table names it.
pub(super) fn cause(cause: &Cause) -> String {
    match cause {
        Cause::Own => "own code".into(),
        Cause::OwnOrSyscall => "own code or system calls (not recorded)".into(),
        Cause::Unexplained => "unexplained (hardware or hypervisor?)".into(),
        Cause::Syscall { call } => format!("own system call {}", name(call)),
        Cause::RecorderWakeUp => "sordino's own system call: it wakes the recorder (--wakeup)".into(),
        Cause::SignalHandler { signal, sender } => {
            format!("its handler of {}{}", name(signal), sent_by(sender))
        }
        Cause::PageFault { reason, huge } => {
            format!("page fault{}, at most (no event ends it)", fault(*reason, *huge))
        }
        Cause::Waiting { after, behind, syscall } => {
            let how = match (after, behind) {
                (After::Preemption, Some(by)) if by.is_idle() => "runnable, its CPU idle (throttled?)".into(),
                (After::Preemption, Some(by)) => format!("preempted by {}", thread(by)),
                (After::Preemption, None) => "preempted, not known by whom".into(),
                (After::WakeUp, Some(by)) if by.is_idle() => "woken, waited for its idle CPU".into(),
                (After::WakeUp, Some(by)) => format!("woken, waited behind {}", thread(by)),
                (After::WakeUp, None) => "woken, waited for its CPU".into(),
            };
            how + &inside(syscall.as_deref())
        }
        Cause::Throttled { limit, syscall } => {
            format!("throttled{}: {}", inside(syscall.as_deref()), self::limit(*limit, None))
        }
        Cause::Blocked { state, in_page_fault: true, .. } => {
            format!("{} in a page fault", sleep(*state))
        }
        Cause::Blocked { state, syscall, .. } => sleep(*state).to_owned() + &inside(syscall.as_deref()),
        Cause::LateTimer { in_slack: true, .. } => "its timer's slack".into(),
        Cause::LateTimer { behind, .. } => format!("its timer was late{}", while_had(behind.as_ref())),
        Cause::Unknown => "unknown to the trace".into(),
        Cause::Unrecorded { events } => format!("unknown: {}", unrecorded(*events)),
        interrupt => self::interrupt(interrupt),
    }
}

/// Returns the limit in words, with the control group's quota if that is known.
fn limit(limit: Limit, quota: Option<&Quota>) -> String {
    let time = |quota: &Quota| format!("{} in each {}", span(quota.runtime), span(quota.period));
    match (limit, quota) {
        (Limit::ControlGroup, Some(quota @ Quota { group: Some(group), .. })) => {
            format!("the quota of {} of its control group {} is used up (cpu.max)", time(quota), name(group))
        }
        (Limit::ControlGroup, _) => "the quota of its control group is used up (cpu.max)".into(),
        (Limit::RealTime, Some(quota)) => {
            let time = time(quota);
            format!(
                "real-time threads have used up their share (fair server, or sched_rt_runtime_us: {time})"
            )
        }
        (Limit::RealTime, None) => {
            "real-time threads have used up their share (fair server, sched_rt_runtime_us)".into()
        }
        (Limit::Deadline, _) => "its SCHED_DEADLINE runtime is used up".into(),
    }
}

/// Returns what is special about a page fault: that of a page which is there is a copy-on-write as a rule.
fn fault(reason: Option<FaultReason>, huge: bool) -> &'static str {
    match (reason, huge) {
        (Some(FaultReason::WriteProtected), false) => {
            " on a write-protected page (copy-on-write, or a clean page of a file)"
        }
        (Some(FaultReason::WriteProtected), true) => {
            " on a write-protected page (copy-on-write, a huge page)"
        }
        (_, true) => " for a huge page",
        (_, false) => "",
    }
}

/// Who had the CPU of a timer that came late.
fn while_had(behind: Option<&Thread>) -> String {
    match behind {
        Some(by) if by.is_idle() => ", on an idle CPU".into(),
        Some(by) => format!(", while {} had the CPU", thread(by)),
        None => String::new(),
    }
}

fn sent_by(sender: &Waker) -> String {
    match sender {
        Waker::Unknown => String::new(),
        sender => format!(", sent by {}", waker(sender)),
    }
}

/// Returns the sender of an interrupt in words, with the function that was to be called.
pub(super) fn sent(Sender { by, function, .. }: &Sender) -> String {
    let by = waker(by);
    function.as_ref().map_or(by.clone(), |function| format!("{by} for {}", name(function)))
}

fn unrecorded(events: Unrecorded) -> &'static str {
    match events {
        Unrecorded::Kernel => "no kernel events recorded",
        Unrecorded::Switches => "sched_switch is not recorded",
    }
}

/// What interrupts threads, as it stands in a sentence.
fn interrupt(cause: &Cause) -> String {
    match cause {
        Cause::Irq { number, name } => format!("IRQ {number} {}", self::name(name)),
        Cause::Vector { name } => format!("interrupt {}", self::name(name)),
        // One without a name is called by its number.
        Cause::Softirq { name, .. } if name.starts_with("softirq") => self::name(name),
        Cause::Softirq { name, .. } => format!("softirq {}", self::name(name)),
        Cause::Nmi { handler } => format!("NMI {}", name(handler)),
        _ => "something else".into(),
    }
}

fn inside(syscall: Option<&str>) -> String {
    syscall.map_or(String::new(), |call| format!(" in {}", name(call)))
}

fn sleep(state: TaskState) -> &'static str {
    match state {
        TaskState::Runnable => "off its CPU",
        TaskState::Interruptible => "asleep",
        TaskState::Uninterruptible => "blocked (uninterruptible)",
        TaskState::Stopped => "stopped by a signal",
        TaskState::Traced => "stopped by a debugger",
        TaskState::Parked => "parked",
        TaskState::Idle => "without work",
        TaskState::Dead => "exited",
    }
}

/// Who woke the thread.
pub(super) fn waker(waker: &Waker) -> String {
    match waker {
        Waker::Thread { thread } => self::thread(thread),
        Waker::Interrupt { cause, cpu } => format!("{} on {}", self::cause(cause), self::cpu(*cpu)),
        Waker::Unknown => "an unknown waker".into(),
    }
}

/// Returns the file whose pages most of a sleep was for, behind a comma.
fn read(part: &Part) -> String {
    let most = part.files.first().filter(|file| file.time.0 >= part.time.0 / 2);
    most.map_or(String::new(), |read| format!(", for pages of {}", file(read)))
}

/// `inode 123 of device 254:0, read by worker/5`.
pub(super) fn file(read: &ReadFile) -> String {
    let by = read.by.as_ref().map_or(String::new(), |by| format!(", read by {}", thread(by)));
    format!("inode {} of device {}{by}", read.file.inode, read.file.device)
}

/// `cpu1`.
pub(super) fn cpu(cpu: Option<Cpu>) -> String {
    cpu.map_or("an unknown CPU".into(), |cpu| format!("cpu{cpu}"))
}

/// What an inversion of priorities is, from the waiting thread's view.
pub(super) fn inversion(inversion: &Inversion) -> String {
    let by = thread(&inversion.by);
    match &inversion.how {
        Inverted::Runnable => format!("{by} ran on its CPU"),
        Inverted::InSyscall { call } => {
            format!("{by} ran on its CPU while it was off the CPU in {}", name(call))
        }
        Inverted::HeldUp { behind } => {
            format!("{by}, which was to wake it, waited for a CPU behind {}", thread(behind))
        }
    }
}

/// What took most of an interval, as one sentence without its full stop: `preempted 4.90 ms by hog/123 (RT 95)`.
///
/// An inversion of priorities that is why it waited, and took at least half of that time, is named too.
pub fn headline(explanation: &Explanation) -> String {
    tied_headline(explanation).replace(TIE, " ")
}

pub(super) fn tied_headline(explanation: &Explanation) -> String {
    if let Some(longest) = explanation.stages.iter().max_by_key(|stage| stage.explanation.length) {
        return format!("{} of it {}", span(longest.explanation.length), stage(longest));
    }
    let main = explanation.main.as_ref();
    let Some((main, part)) = main.and_then(|main| Some((main, explanation.parts.get(main.part)?))) else {
        return match explanation.parts.first() {
            Some(_) => "nothing but its own code".into(),
            None => "nothing took time".into(),
        };
    };
    let said = sentence(main, part);
    // Of a file, the sentence does not say who ended the sleep.
    let sentence = if read(part).is_empty() { said.clone() + &awaited(part) } else { said.clone() };
    let amount = main.excess.unwrap_or(part.time);
    let is_its = |inversion: &&Inversion| match (&part.cause, &inversion.how) {
        (Cause::Waiting { behind, .. }, Inverted::Runnable) => behind.as_ref() == Some(&inversion.by),
        (Cause::Blocked { .. }, Inverted::InSyscall { .. } | Inverted::HeldUp { .. }) => true,
        _ => false,
    };
    let inverted = explanation.inversions.iter().find(is_its);
    let inverted = inverted.filter(|inversion| inversion.time.0 >= amount.0 / 2);
    let Some(Inversion { how, by, .. }) = inverted else { return sentence };
    let by = thread(by);
    match how {
        Inverted::Runnable | Inverted::InSyscall { .. } => format!("{sentence}; priority inversion by {by}"),
        Inverted::HeldUp { behind } => {
            format!("{said}; priority inversion: {by} was held up behind {}", thread(behind))
        }
    }
}

/// `from net:request to net:answer, in worker/5 (RT 95): its own code took 4.90 ms`.
pub(super) fn stage(stage: &Stage) -> String {
    let of = &stage.explanation;
    format!(
        "from {} to {}, in {}: {}",
        name(&stage.from),
        name(&stage.to),
        thread(&of.thread),
        tied_headline(of)
    )
}

/// Returns a comparison of the part's time with the usual one, if that is a tenth of it at least.
fn compared(main: &Main, part: &Part) -> String {
    let is_much = part.usual.0 > part.time.0 / 10;
    match main.excess {
        // The sentence says it.
        Some(_) if part.cause == Cause::Own || part.cause == Cause::OwnOrSyscall => String::new(),
        Some(excess) if is_much => format!(", {} longer than usual", span(excess)),
        None if is_much => format!(" (usually {})", span(part.usual)),
        _ => String::new(),
    }
}

fn sentence(main: &Main, part: &Part) -> String {
    let time = span(part.time);
    let [by_others, behind_others, calls, waits] =
        [("by", "other"), ("behind", "other"), ("in", "other"), ("in", "other wait")].map(|(how, what)| {
            match main.others {
                0 => String::new(),
                others => format!(", and {} {how} {}", span(main.others_time), count(others as u64, what)),
            }
        });
    let longer = compared(main, part);
    let text = match &part.cause {
        Cause::Own | Cause::OwnOrSyscall => {
            let what = match part.cause {
                Cause::Own => "its own code",
                _ => "its own code or a system call (not recorded: add raw_syscalls)",
            };
            match main.excess {
                Some(excess) => format!("{what} took {} longer than usual", span(excess)),
                None => format!("{what} took {time}"),
            }
        }
        Cause::Unexplained => format!("{time} unexplained: hardware, a hypervisor, or not recorded"),
        Cause::Syscall { call } => format!("its own system call {} took {time}{calls}", name(call)),
        Cause::RecorderWakeUp => format!("sordino's own wake-up of its recorder (--wakeup) took {time}"),
        Cause::PageFault { reason, huge } => {
            let faults =
                if part.count == 1 { "a page fault".into() } else { count(part.count, "page fault") };
            format!("{faults}{} took at most {time}", fault(*reason, *huge))
        }
        Cause::Waiting { after, behind, syscall } => {
            let call = inside(syscall.as_deref());
            match (after, behind) {
                (After::Preemption, Some(by)) if by.is_idle() => {
                    format!("ready to run, but its CPU was idle for {time}{call} (throttled?){waits}")
                }
                (After::WakeUp, Some(by)) if by.is_idle() => {
                    format!("woken, but waited {time} for its idle CPU{call}{waits}")
                }
                (After::Preemption, Some(by)) => {
                    format!("preempted {time} by {}{call}{by_others}", thread(by))
                }
                (After::Preemption, None) => format!("preempted {time}{call}, not known by whom{waits}"),
                (After::WakeUp, Some(by)) => {
                    format!("woken, but waited {time} behind {}{call}{behind_others}", thread(by))
                }
                (After::WakeUp, None) => format!("woken, but waited {time} for its CPU{call}{waits}"),
            }
        }
        Cause::SignalHandler { signal, sender } => {
            format!("its handler of {} took {time}{calls}{}", name(signal), sent_by(sender))
        }
        Cause::Throttled { limit, syscall } => {
            let (call, beside) = (inside(syscall.as_deref()), part.beside.first());
            let beside = beside.filter(|beside| beside.time.0 >= part.time.0 / 2);
            let beside = beside.and_then(|beside| beside.thread.as_ref());
            let beside = beside.map_or(String::new(), |by| format!("; {} had its CPU", thread(by)));
            format!("throttled {time}{call}: {}{beside}{waits}", self::limit(*limit, part.quota.as_ref()))
        }
        Cause::Blocked { state, syscall, in_page_fault } => {
            let call = if *in_page_fault { " in a page fault".into() } else { inside(syscall.as_deref()) };
            let Some(woken) = part.wakers.first().filter(|woken| woken.by != Waker::Unknown) else {
                return format!("{} for {time}{call}{longer}{waits}{}", sleep(*state), read(part));
            };
            let by = waker(&woken.by);
            return match woken.lock {
                Some(Lock::Held) => format!("blocked {time} on a lock held by {by}{longer}{waits}"),
                Some(Lock::Inferred) => {
                    format!("blocked {time} on a futex (a lock?) that {by} released{longer}{waits}")
                }
                None if part.files.first().is_some_and(|file| file.time.0 >= part.time.0 / 2) => {
                    format!("{} for {time}{call}{longer}{waits}{}", sleep(*state), read(part))
                }
                None => format!("{} for {time}{call}{longer}{waits}, woken by {by}", sleep(*state)),
            };
        }
        Cause::LateTimer { in_slack: true, .. } => format!("its timer came {time} late, as its slack allows"),
        Cause::LateTimer { behind, .. } => {
            format!("its timer came {time} late{}{waits}", while_had(behind.as_ref()))
        }
        Cause::Unknown => format!("{time} unknown: the trace does not show the thread"),
        Cause::Unrecorded { events } => format!("{time} unknown: {}", unrecorded(*events)),
        by => {
            let sender = part.senders.first().filter(|sender| sender.count * 2 > part.count);
            let sender = sender.map_or(String::new(), |by| format!(", sent by {}", sent(by)));
            format!("interrupted {time} by {}{by_others}{sender}", interrupt(by))
        }
    };
    text + &longer
}

/// Which records are missing, where, when and why.
pub(super) fn lost(lost: &Lost, time: TimeFormat) -> String {
    let records = match (lost.count, lost.uncounted) {
        (0, 1..) => "an unknown number of records".into(),
        (records, 0) => count(records, "record"),
        (records, _) => format!("more than {}", count(records, "record")),
    };
    let of = lost.pid.map_or("the kernel".into(), |pid| format!("process {pid}"));
    let on = lost.cpu.map_or(String::new(), |cpu| format!(" on cpu{cpu}"));
    let (from, to) = (time.text(lost.from), time.text(lost.to));
    format!("{records} of {of} lost{on} between {from} and {to} ({})", lost.cause)
}
