//! What a check found: the model that every report is written from, and read back into.

use crate::{Distribution, MachineInfo, Settings};
use serde::{Deserialize, Serialize};
use sordino_event::text::count;
use std::fmt;

/// Of [`Report`] as JSON. Fields may be added to it; what is there keeps its name and meaning.
pub const SCHEMA: u32 = 1;

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it should be, or within its limit.
    Pass,
    /// Nobody gave a limit, or nothing follows from it.
    Info,
    /// This machine or this user can't measure it.
    NotMeasured,
    /// It disturbs real-time work, and can be changed.
    Warn,
    /// A limit is exceeded, or the kernel does not keep a promise.
    Fail,
}

/// As reports have it.
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

/// All that a check found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The version of sordino that measured.
    pub version: String,
    /// When it began, RFC 3339.
    pub began: String,
    /// Whether somebody ended it before it was through: later steps are missing or short.
    pub interrupted: bool,
    /// Which machine.
    pub machine: MachineInfo,
    /// What was asked for, and held.
    pub settings: Settings,
    /// In the order in which they were made.
    pub steps: Vec<Step>,
}

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its name: what `--require` and thresholds call it.
    pub name: String,
    /// What it is, for people.
    pub title: String,
    /// The answer.
    pub verdict: Verdict,
    /// Why it is that.
    pub reason: String,
    /// What to do next, if there is something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Single facts, each with a verdict of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Line>,
    /// Figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measurements: Vec<Measurement>,
    /// What took the time in the longest of them that a trace shows, where one was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained: Option<Explained>,
    /// The commands that were run for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<Command>,
    /// What else has to be known to judge the figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What took the time, as `sordino explain` says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    /// In a sentence without its full stop.
    pub headline: String,
    /// All of it, in lines.
    pub details: String,
    /// Where the trace is, from the report's directory on; `None` if it was not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// A fact about how the machine is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// What.
    pub name: String,
    /// What it is.
    pub value: String,
    /// Whether that is good.
    pub verdict: Verdict,
    /// Why it matters.
    pub why: String,
    /// What would make it better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Times that were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Of what: `CPU 1`.
    pub what: String,
    /// The times.
    pub times: Distribution,
    /// Who interrupted the CPU meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupters: Vec<Interrupter>,
    /// For how long a hypervisor kept the CPU from running meanwhile, in milliseconds, where that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_ms: Option<u64>,
}

/// Who interrupted, and how often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupter {
    /// Its name.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// A command that was run, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// As a shell takes it.
    pub line: String,
    /// How it ended, unless it was ended by us: `exit status: 1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl Measurement {
    /// Times of which nothing else is known.
    pub fn new(what: impl Into<String>, times: impl Into<Distribution>) -> Self {
        Self { what: what.into(), times: times.into(), interrupters: Vec::new(), stolen_ms: None }
    }

    /// Who took the CPU, in the order of the report, at most so many; and how many others there are.
    pub fn who(&self, most: usize) -> Option<String> {
        let stolen = self.stolen_ms.filter(|ms| *ms > 0).map(|ms| format!("the hypervisor for {ms} ms"));
        let names = self.interrupters.iter().take(most).map(|who| format!("{} {}", who.count, who.name));
        let others = self.interrupters.len().saturating_sub(most);
        let others = (others > 0).then(|| count(others, "other source"));
        let all: Vec<String> = stolen.into_iter().chain(names).chain(others).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

impl Step {
    /// One that was made, with nothing in it yet.
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

    /// The same, which could not be measured.
    #[must_use]
    pub fn not_measured(mut self, reason: impl Into<String>, next: Option<String>) -> Self {
        self.verdict = Verdict::NotMeasured;
        self.reason = reason.into();
        self.next = next;
        self
    }

    /// Says what the culprit is where a limit is exceeded.
    pub fn blame(&mut self) {
        if let (Verdict::Fail, Some(explained)) = (self.verdict, &self.explained) {
            self.reason = format!("{}; {}", self.reason, explained.headline);
        }
    }

    /// The longest of all times measured, and of what.
    pub fn worst(&self) -> Option<&Measurement> {
        self.measurements.iter().max_by(|a, b| a.times.maximum_ns.total_cmp(&b.times.maximum_ns))
    }
}

impl Report {
    /// Whether the answer is "no": a step failed, or one was not measured that is required, or is not there at all.
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

    pub(crate) fn step(name: &str, verdict: Verdict) -> Step {
        Step { verdict, reason: format!("{name} is {verdict}"), ..Step::new(name, name) }
    }

    pub(crate) fn report(steps: Vec<Step>) -> Report {
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
            let mut step = Step { explained: Some(explained.clone()), ..step("a", verdict) };
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
