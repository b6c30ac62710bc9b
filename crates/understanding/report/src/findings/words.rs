//! Names of threads, wakers, files and losses, and the headline of an interval.

use super::chain::awaited;
use super::phrase::{cause, sentence};
use crate::TimeFormat;
use crate::span::span;
use crate::styled_text::{TIE, name};
use sordino_analyze::{
    Explanation, FiberName, Inversion, Inverted, LossSum, ReadFile, Sender, Stage, Thread, Waker,
};
use sordino_event::Cpu;
use sordino_event::text::count;
use sordino_timeline::TaskState;

/// The number of functions, wakers, links of a chain, inversions and losses that are listed at most.
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

/// Returns a fiber as users know it: `8(work/6)`, `8(work/6?)` where the name is doubtful.
pub(super) fn fiber(FiberName { number, name: called, is_doubtful }: &FiberName) -> String {
    let doubt = if *is_doubtful { "?" } else { "" };
    called.as_deref().map_or(number.to_string(), |called| format!("{number}({}{doubt})", name(called)))
}

/// Returns the sender of an interrupt in words, with the function that was to be called.
pub(super) fn sent(Sender { by, function, .. }: &Sender) -> String {
    let by = waker(by);
    function.as_ref().map_or(by.clone(), |function| format!("{by} for {}", name(function)))
}

/// Returns the words for a thread that is off its CPU in this state.
pub(super) fn state(state: TaskState) -> &'static str {
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

/// Returns the waker of a thread in words.
pub(super) fn waker(waker: &Waker) -> String {
    match waker {
        Waker::Thread { thread } => self::thread(thread),
        Waker::Interrupt { cause, cpu } => format!("{} on {}", self::cause(cause), self::cpu(*cpu)),
        Waker::Fiber { fiber, .. } => format!("fiber {}", self::fiber(fiber)),
        Waker::Unknown => "an unknown waker".into(),
    }
}

/// `inode 123 of device 254:0, read by worker/5`.
pub(super) fn file(read: &ReadFile) -> String {
    let by = read.by.as_ref().map_or(String::new(), |by| format!(", read by {}", thread(by)));
    format!("inode {} of device {}{by}", read.file.inode, read.file.device)
}

/// Returns a CPU's name, such as `cpu1`.
pub(super) fn cpu(cpu: Option<Cpu>) -> String {
    cpu.map_or("an unknown CPU".into(), |cpu| format!("cpu{cpu}"))
}

/// Returns an inversion of priorities in words, from the waiting thread's view.
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

/// Returns the cause that took most of an interval, as one sentence without its full stop:
/// `preempted 4.90 ms by hog/123 (RT 95)`.
///
/// The sentence includes an inversion of priorities that caused the wait and took at least half of that time.
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
    let clause = sentence(main, part);
    // A sentence about a file leaves out the waker.
    let sentence = if part.main_file().is_none() { clause.clone() + &awaited(part) } else { clause.clone() };
    let amount = main.excess.unwrap_or(part.time);
    let inverted = explanation.inversions.iter().find(|inversion| inversion.explains(&part.cause));
    let inverted = inverted.filter(|inversion| inversion.time.0 >= amount.0 / 2);
    let Some(Inversion { how, by, .. }) = inverted else { return sentence };
    let by = thread(by);
    match how {
        Inverted::Runnable | Inverted::InSyscall { .. } => format!("{sentence}; priority inversion by {by}"),
        Inverted::HeldUp { behind } => {
            format!("{clause}; priority inversion: {by} was held up behind {}", thread(behind))
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

/// Returns a loss in words: the missing records, with their CPU and process, the time and the cause.
pub(super) fn lost(lost: &LossSum, time: TimeFormat) -> String {
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
