//! Hand-made traces and their explanation.
#![allow(dead_code, unused_imports, reason = "no test uses all of it")]

#[path = "../../../timeline/tests/support/mod.rs"]
mod script;

pub(crate) mod machine;

pub(crate) use script::*;

use sordino_analyze::{
    After, Cause, ExplainOptions, Explainer, Explanation, Findings, Inversion, Inverted, Part, Unrecorded,
    Waker,
};
use sordino_intervals::{Finder, Survey};
use sordino_timeline::Consumer;
use sordino_timeline::kernel::FaultReason;

/// Returns the intervals of `rule`.
pub(crate) fn survey(script: &Script, rule: &str) -> Survey {
    let mut finder = Finder::new(&script.classes, rule.parse().unwrap()).unwrap();
    script.play(|item| finder.take(item));
    finder.finish()
}

/// Runs both passes over a trace.
pub(crate) fn explain(script: &Script, rule: &str, options: ExplainOptions) -> Findings {
    let recorded = sordino_timeline::Vocabulary::new(&script.classes).recorded();
    let mut explainer = Explainer::new(survey(script, rule), recorded, options);
    script.play(|item| explainer.take(item));
    explainer.finish()
}

/// Explains the longest interval alone, and checks that its parts add up.
pub(crate) fn explain_longest(script: &Script, rule: &str) -> (Explanation, Findings) {
    let findings = explain(script, rule, ExplainOptions { longest: 1, ..ExplainOptions::default() });
    let longest = findings.intervals[0].clone();
    assert_eq!(longest.parts.iter().map(|part| part.time.0).sum::<i64>(), longest.length.0, "{longest:?}");
    (longest, findings)
}

/// Creates loops of 100 ns of npt on CPU 1 up to 1000, where one begins that the test continues.
pub(crate) fn loops(event: &str) -> Script {
    let mut script = Script::new();
    script.at(0).cpu(1).switch(IDLE, 0, NPT);
    for time in (100..=1000).step_by(100) {
        script.at(time).cpu(1).user(event, NPT, &[]);
    }
    script
}

/// Returns a short name of a cause.
pub(crate) fn name(cause: &Cause) -> String {
    let called =
        |call: &Option<std::sync::Arc<str>>| call.as_ref().map_or(String::new(), |c| format!(" in {c}"));
    match cause {
        Cause::Own => "own".into(),
        Cause::Unexplained => "unexplained".into(),
        Cause::Syscall { call } => format!("call {call}"),
        Cause::RecorderWakeUp => "recorder wake-up".into(),
        Cause::PageFault { reason, huge } => {
            let reason = match reason {
                Some(FaultReason::WriteProtected) => "write-protected ",
                Some(FaultReason::Missing) | None => "",
            };
            format!("{reason}{}fault", if *huge { "huge " } else { "" })
        }
        Cause::Irq { number, name } => format!("irq {number} {name}"),
        Cause::Vector { name } => name.to_string(),
        Cause::Softirq { name, .. } => name.to_string(),
        Cause::Nmi { handler } => format!("nmi {handler}"),
        Cause::Waiting { after, behind, syscall } => {
            let behind = behind.as_ref().map_or("?", |thread| thread.comm.as_deref().unwrap_or("?"));
            format!(
                "{} {behind}{}",
                if *after == After::Preemption { "preempted" } else { "queued" },
                called(syscall)
            )
        }
        Cause::Blocked { in_page_fault: true, .. } => "blocked in a fault".into(),
        Cause::Blocked { state, syscall, .. } => format!("blocked {}{}", state.letter(), called(syscall)),
        Cause::LateTimer { in_slack: true, .. } => "in its slack".into(),
        Cause::LateTimer { behind, .. } => {
            format!("late by {}", behind.as_ref().and_then(|by| by.comm.as_deref()).unwrap_or("?"))
        }
        Cause::Throttled { limit, .. } => format!("throttled {limit:?}"),
        Cause::SignalHandler { signal, sender: Waker::Thread { thread } } => {
            format!("{signal} of {}", thread.tid)
        }
        Cause::SignalHandler { signal, .. } => signal.to_string(),
        Cause::Unrecorded { events: Unrecorded::Kernel } => "no kernel".into(),
        Cause::Unrecorded { events: Unrecorded::Switches } => "no switches".into(),
        _ => "unknown".into(),
    }
}

/// Returns `cause time count`, longest first; own code without a count.
pub(crate) fn parts(explanation: &Explanation) -> Vec<String> {
    let line = |part: &Part| match part.cause {
        Cause::Own => format!("own {}", part.time.0),
        _ => format!("{} {} {}", name(&part.cause), part.time.0, part.count),
    };
    explanation.parts.iter().map(line).collect()
}

/// Returns each inversion in short form.
pub(crate) fn inversions(explanation: &Explanation) -> Vec<String> {
    let how = |inversion: &Inversion| match &inversion.how {
        Inverted::Runnable => "runnable".to_owned(),
        Inverted::InSyscall { call } => format!("in {call}"),
        Inverted::HeldUp { behind } => format!("held up behind {}", behind.comm.as_ref().unwrap()),
    };
    let line = |inversion: &Inversion| {
        format!("{} {} {}", how(inversion), inversion.by.comm.as_ref().unwrap(), inversion.time.0)
    };
    explanation.inversions.iter().map(line).collect()
}
