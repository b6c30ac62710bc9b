//! What threads, causes and losses are called.

use crate::TimeFormat;
use crate::page::{TIE, name};
use crate::span::span;
use sordino_analyze::{
    After, Cause, Explanation, Inversion, Inverted, Limit, Link, Lock, Lost, Main, Part, Quota, ReadFile,
    Sender, Stage, Thread, Unrecorded, Waker, Woken,
};
use sordino_event::text::count;
use sordino_event::{Cpu, Nanos};
use sordino_timeline::TaskState;

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
        Cause::PageFault => "page fault, at most (no event ends it)".into(),
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

/// Who ended a sleep and by what, and below what it waited for.
pub(super) fn woken(woken: &Woken) -> Vec<String> {
    let times = if woken.count == 1 { String::new() } else { format!(" {} times", woken.count) };
    let by = waker(&woken.by);
    let how = match woken.lock {
        None => String::new(),
        Some(Lock::Held) => ", which held the lock".into(),
        Some(Lock::Inferred) => {
            " by the same futex: if that is a lock, this thread held it (inferred)".into()
        }
    };
    let of_waker = |link: &&Link| matches!(&woken.by, Waker::Thread { thread } if *thread == link.thread && link.level == 1);
    let meanwhile = woken.chain.iter().find(of_waker);
    let meanwhile = meanwhile.map_or(String::new(), |link| format!("; meanwhile it {}", did(link)));
    let before = woken.chain.iter().filter(|link| !of_waker(link));
    let before =
        before.take(DETAILS_MAX).map(|link| format!("before that, {} {}", thread(&link.thread), did(link)));
    std::iter::once(format!("woken{times} by {by}{how}{meanwhile}")).chain(before).collect()
}

/// What a thread of a chain did; as many of those it waited behind are named.
fn did(link: &Link) -> String {
    const NAMED: usize = 3;
    let waited = link.waited.iter().take(NAMED).map(|wait| {
        let behind = wait.thread.as_ref().filter(|by| !by.is_idle());
        let behind = behind.map_or(String::new(), |by| format!(" behind {}", thread(by)));
        format!("waited {} for a CPU{behind}", span(wait.time))
    });
    let all: Vec<String> = [(link.ran, "ran"), (link.slept, "slept"), (link.stopped, "was stopped")]
        .into_iter()
        .filter(|(time, _)| *time > Nanos::ZERO)
        .map(|(time, did)| format!("{did} {}", span(time)))
        .chain(waited)
        .collect();
    all.join(", ")
}

/// What most of a sleep waited for, where a thread ended it and one thread of the chain did one thing for half of that time or more.
fn awaited(part: &Part) -> String {
    let Some(woken) = part.wakers.first() else { return String::new() };
    let each = |link: &Link| {
        let (ran, slept, stopped) = (link.ran, link.slept, link.stopped);
        let waited = link.waited.first();
        let wait = waited.map_or(Nanos::ZERO, |wait| wait.time);
        let [had, other] = ["", "had "].map(|had| match waited {
            _ if stopped > ran.max(slept).max(wait) => {
                format!("{} stopped for {}", if had.is_empty() { "was" } else { "had been" }, span(stopped))
            }
            Some(wait) if wait.time >= ran && wait.time >= slept => {
                let behind = wait.thread.as_ref().filter(|by| !by.is_idle());
                let behind = behind.map_or(" for a CPU".into(), |by| format!(" behind {}", thread(by)));
                format!("{had}waited {}{behind}", span(wait.time))
            }
            _ if slept > ran => format!("{had}slept {}", span(slept)),
            _ => format!("{had}{} {}", if had.is_empty() { "ran" } else { "run" }, span(ran)),
        });
        let text = match link.level {
            1 => format!(", which {had}"),
            _ => format!(", after {} {other}", thread(&link.thread)),
        };
        (ran.max(slept).max(wait).max(stopped), text)
    };
    let longest = woken.chain.iter().map(each).max_by_key(|(time, _)| *time);
    longest.filter(|(time, _)| time.0 >= part.time.0 / 2).map_or(String::new(), |(_, text)| text)
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
        Cause::PageFault if part.count == 1 => format!("a page fault took at most {time}"),
        Cause::PageFault => format!("{} page faults took at most {time}", part.count),
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
