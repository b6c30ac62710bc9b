//! The report's data model, which all output formats are written from and saved reports are read into.

use crate::{Distribution, MachineInfo, Settings, time};
use serde::{Deserialize, Serialize};
use sordino_event::Nanos;
use sordino_event::text::count;
use std::fmt;
use std::time::Duration;

/// Version of a [`Report`] as JSON. Fields may be added; existing ones keep their names and meanings.
pub const SCHEMA: u32 = 1;

/// Verdict of a step or line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Good, or within its limit.
    Pass,
    /// No limit was set, or nothing follows from the value.
    Info,
    /// This machine or this user cannot measure it.
    NotMeasured,
    /// It disturbs real-time work and can be changed.
    Warn,
    /// A limit is exceeded, or the kernel breaks a guarantee.
    Fail,
}

/// Prints the verdict in capital letters.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pass => "PASS",
            Self::Info => "INFO",
            Self::NotMeasured => "NOT MEASURED",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
        })
    }
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of the format: [`SCHEMA`].
    pub schema: u32,
    /// Version of sordino that wrote the report.
    pub version: String,
    /// Start time in RFC 3339.
    pub began: String,
    /// True if the check was interrupted: later steps are missing or short.
    pub interrupted: bool,
    /// The machine that was measured.
    pub machine: MachineInfo,
    /// Options of the check, and settings that were changed for it.
    pub settings: Settings,
    /// Steps in the order in which they were made.
    pub steps: Vec<CheckStep>,
}

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckStep {
    /// Short name, used by `--require` and limits.
    pub name: String,
    /// Title for people to read.
    pub title: String,
    /// Verdict of the step.
    pub verdict: Verdict,
    /// Reason for the verdict.
    pub reason: String,
    /// Command or advice to continue with, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Single facts, each with its own verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Line>,
    /// Measured times, one set for each CPU or kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measurements: Vec<Measurement>,
    /// Explanation of the longest time that a recorded trace contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained: Option<Explained>,
    /// Commands that were run for the step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<Command>,
    /// Facts that are needed to judge the figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Explanation of a time, in the words of `sordino explain`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    /// One sentence without its full stop.
    pub headline: String,
    /// The whole explanation, in lines.
    pub details: String,
    /// Path of the trace, relative to the report's directory; `None` if it was not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// One fact about the machine's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Name of the setting.
    pub name: String,
    /// Value of the setting.
    pub value: String,
    /// Verdict on the value.
    pub verdict: Verdict,
    /// Reason why the setting matters.
    pub why: String,
    /// Change that would improve it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// One set of measured times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Measured object, such as `CPU 1`.
    pub what: String,
    /// Distribution of the times.
    pub times: Distribution,
    /// Sources that interrupted the CPU during the measurement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupters: Vec<InterruptionSource>,
    /// Time in milliseconds for which a hypervisor kept the CPU from running during the measurement, if it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_ms: Option<u64>,
}

/// A source of interruptions, with their number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptionSource {
    /// Name of the source.
    pub name: String,
    /// Number of its interruptions.
    pub count: u64,
}

/// A command that was run, and its exit status if it failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// The command line, quoted for a shell.
    pub line: String,
    /// Exit status such as `exit status: 1`; `None` if the command succeeded or was stopped by sordino.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl Measurement {
    /// Creates a measurement without interrupters and stolen time.
    pub fn new(what: impl Into<String>, times: impl Into<Distribution>) -> Self {
        Self { what: what.into(), times: times.into(), interrupters: Vec::new(), stolen_ms: None }
    }

    /// Formats the interrupters in the report's order, at most `most` of them, and the number of the others.
    pub fn who(&self, most: usize) -> Option<String> {
        let stolen = self
            .stolen_ms
            .filter(|ms| *ms > 0)
            .map(|ms| format!("the hypervisor for {}", Nanos::from(Duration::from_millis(ms))));
        let names = self.interrupters.iter().take(most).map(|who| format!("{} {}", who.count, who.name));
        let others = self.interrupters.len().saturating_sub(most);
        let others = (others > 0).then(|| count(others, "other source"));
        let all: Vec<String> = stolen.into_iter().chain(names).chain(others).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

impl CheckStep {
    /// Creates an empty step with the verdict [`Verdict::Info`].
    pub fn new(name: &str, title: &str) -> Self {
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            verdict: Verdict::Info,
            reason: String::new(),
            next: None,
            lines: Vec::new(),
            measurements: Vec::new(),
            explained: None,
            commands: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Turns the step into one that could not be measured.
    #[must_use]
    pub fn not_measured(mut self, reason: impl Into<String>, next: Option<String>) -> Self {
        self.verdict = Verdict::NotMeasured;
        self.reason = reason.into();
        self.next = next;
        self
    }

    /// Appends the explanation's headline to the reason if a limit is exceeded.
    pub fn blame(&mut self) {
        if let (Verdict::Fail, Some(explained)) = (self.verdict, &self.explained) {
            self.reason = format!("{}; {}", self.reason, explained.headline);
        }
    }

    /// Returns the measurement with the longest time.
    pub fn worst(&self) -> Option<&Measurement> {
        self.measurements.iter().max_by(|a, b| a.times.maximum_ns.total_cmp(&b.times.maximum_ns))
    }

    /// Sets the reason from the worst measurement: `what` and its time. Without one, the step was not measured.
    pub fn tell_worst(&mut self, what: &str) {
        let worst =
            self.worst().map(|worst| format!("{what} {}, on {}", time(worst.times.maximum_ns), worst.what));
        self.reason = worst.unwrap_or_else(|| {
            self.verdict = Verdict::NotMeasured;
            "ended before anything was measured".to_owned()
        });
    }
}

impl Report {
    /// Returns true if the check failed: a step has failed, or a required step is missing or was not measured.
    pub fn has_failed(&self) -> bool {
        let is_missing = |name: &String| {
            let step = self.steps.iter().find(|step| step.name == *name);
            step.is_none_or(|step| step.verdict == Verdict::NotMeasured)
        };
        self.steps.iter().any(|step| step.verdict == Verdict::Fail)
            || self.settings.required.iter().any(is_missing)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn step(name: &str, verdict: Verdict) -> CheckStep {
        CheckStep { verdict, reason: format!("{name} is {verdict}"), ..CheckStep::new(name, name) }
    }

    pub(crate) fn report(steps: Vec<CheckStep>) -> Report {
        Report {
            schema: SCHEMA,
            version: "0".to_owned(),
            began: "2026-01-31T12:00:00Z".to_owned(),
            interrupted: false,
            machine: MachineInfo::default(),
            settings: Settings::default(),
            steps,
        }
    }

    #[test]
    fn only_a_failure_and_what_is_required_and_missing_mean_no() {
        use Verdict::{Fail, Info, NotMeasured, Pass, Warn};
        let mut fine = report(
            [Pass, Warn, Info, NotMeasured].map(|verdict| step(&verdict.to_string(), verdict)).to_vec(),
        );
        assert!(!fine.has_failed());
        fine.settings.required = vec!["PASS".to_owned(), "WARN".to_owned()];
        assert!(!fine.has_failed());
        for missing in ["NOT MEASURED", "never made"] {
            fine.settings.required = vec![missing.to_owned()];
            assert!(fine.has_failed(), "{missing}");
        }
        assert!(report(vec![step("a", Pass), step("b", Fail)]).has_failed());
    }

    #[test]
    fn the_culprit_is_named_where_a_limit_is_exceeded() {
        let explained =
            Explained { headline: "preempted 4 ms by hog/7".to_owned(), details: String::new(), trace: None };
        for (verdict, reason) in
            [(Verdict::Fail, "a is FAIL; preempted 4 ms by hog/7"), (Verdict::Pass, "a is PASS")]
        {
            let mut step = CheckStep { explained: Some(explained.clone()), ..step("a", verdict) };
            step.blame();
            assert_eq!(step.reason, reason);
        }
    }

    #[test]
    fn a_report_reads_as_it_was_written() {
        let report = report(vec![step("a", Verdict::NotMeasured)]);
        let text = serde_json::to_string(&report).unwrap();
        assert!(text.contains("\"verdict\":\"not-measured\""), "{text}");
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }
}
