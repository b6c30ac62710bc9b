//! Two or more reports side by side, with a verdict on each difference.

mod text;

use crate::limits::time;
use crate::{CheckStep, Measurement, Report};
use serde::Serialize;
use std::collections::BTreeSet;

/// Direction of a difference, from the first report to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trend {
    /// The difference is within the variation between runs on one machine.
    Same,
    /// Shorter times, or a better verdict.
    Better,
    /// Longer times, or a worse verdict.
    Worse,
    /// The values differ, and neither is better.
    Different,
    /// One of the two reports lacks the value.
    Unknown,
}

/// One value or setting that was compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the compared value or setting.
    pub what: String,
    /// Each report's value as text; `None` in a report that lacks it.
    pub values: Vec<Option<String>>,
    /// Direction of each later report's difference from the first report.
    pub changes: Vec<Trend>,
}

/// All rows, in three groups.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Version of this structure as JSON: 1. Fields may be added.
    pub schema: u32,
    /// Names of the reports, in order.
    pub names: Vec<String>,
    /// Conditions of measurement that differ: figures of different loads or durations are hardly comparable.
    pub conditions: Vec<Row>,
    /// Rows of the static table that differ.
    pub settings: Vec<Row>,
    /// Measured times: percentiles and the longest.
    pub times: Vec<Row>,
}

/// Figures that are compared for each measurement.
const FIGURES: &[&str] = &["p50", "p99", "p99.9", "p99.99", "max"];

/// Relative difference of percentiles between runs on one machine.
const PERCENTILES_DIFFER: f64 = 0.15;
/// Relative difference of the longest time between runs: a single sample varies more.
const LONGEST_DIFFER: f64 = 0.5;
/// Smallest difference that counts: cyclictest's histogram has a resolution of 1 us.
const RESOLUTION_NS: f64 = 1_500.0;
/// Smallest difference that counts in steps that read the cycle counter themselves.
const LOOP_RESOLUTION_NS: f64 = 50.0;

/// Compares each report with the first.
pub fn compare(reports: &[(String, Report)]) -> Comparison {
    Comparison {
        schema: 1,
        names: reports.iter().map(|(name, _)| name.clone()).collect(),
        conditions: conditions(reports),
        settings: settings(reports),
        times: times(reports),
    }
}

impl Comparison {
    /// Returns true if a time or setting is worse than the first report's.
    pub fn is_worse(&self) -> bool {
        self.settings.iter().chain(&self.times).any(|row| row.changes.contains(&Trend::Worse))
    }
}

/// Compares texts: returns a row if they differ.
fn texts(what: &str, values: Vec<Option<String>>, change: impl Fn(&str, &str) -> Trend) -> Option<Row> {
    let (first, others) = values.split_first()?;
    if others.iter().all(|other| other == first) {
        return None;
    }
    let change = |other: &Option<String>| match (first, other) {
        (Some(first), Some(other)) if first == other => Trend::Same,
        (Some(first), Some(other)) => change(first, other),
        _ => Trend::Unknown,
    };
    let changes = others.iter().map(change).collect();
    Some(Row { what: what.to_owned(), values, changes })
}

/// Reads one condition from a report.
type ConditionReader = fn(&Report) -> String;

fn conditions(reports: &[(String, Report)]) -> Vec<Row> {
    let read: [(&str, ConditionReader); 9] = [
        ("host", |report| report.machine.host.clone()),
        ("processor", |report| report.machine.processor.clone()),
        ("kernel", |report| report.machine.kernel.clone()),
        ("command line", |report| report.machine.command_line.clone()),
        ("CPUs measured", |report| report.settings.cpus.clone()),
        ("duration", |report| report.settings.duration()),
        ("load", |report| report.settings.load.clone()),
        ("steps", |report| {
            let names: Vec<&str> = report.steps.iter().map(|step| step.name.as_str()).collect();
            names.join(", ")
        }),
        ("held", |report| {
            let held: Vec<String> =
                report.settings.held.iter().map(|held| format!("{}={}", held.place, held.held)).collect();
            held.join(", ")
        }),
    ];
    let row = |(what, read): &(&str, ConditionReader)| {
        texts(what, reports.iter().map(|(_, report)| Some(read(report))).collect(), |_, _| Trend::Different)
    };
    read.iter().filter_map(row).collect()
}

/// Keys of the lines of all steps: step, name, and a number that separates lines of one name.
fn line_keys(reports: &[(String, Report)]) -> BTreeSet<(String, String, usize)> {
    let mut keys = BTreeSet::new();
    for step in reports.iter().flat_map(|(_, report)| &report.steps) {
        for (index, line) in step.lines.iter().enumerate() {
            let number = step.lines[..index].iter().filter(|other| other.name == line.name).count();
            keys.insert((step.name.clone(), line.name.clone(), number));
        }
    }
    keys
}

fn settings(reports: &[(String, Report)]) -> Vec<Row> {
    let row = |(step, name, number): (String, String, usize)| {
        let value = |report: &Report| {
            let step = report.steps.iter().find(|each| each.name == step)?;
            let line = step.lines.iter().filter(|line| line.name == name).nth(number)?;
            Some(format!("{} {}", line.verdict, line.value))
        };
        let values = reports.iter().map(|(_, report)| value(report)).collect();
        texts(&name, values, |first, other| match (rank(first), rank(other)) {
            (Some(first), Some(other)) if other < first => Trend::Better,
            (Some(first), Some(other)) if other > first => Trend::Worse,
            _ => Trend::Different,
        })
    };
    // A step that a report lacks is listed among the conditions.
    let has = |report: &Report, name: &str| report.steps.iter().any(|step| step.name == name);
    let in_all = |(step, ..): &(String, String, usize)| reports.iter().all(|(_, report)| has(report, step));
    line_keys(reports).into_iter().filter(in_all).filter_map(row).collect()
}

/// Rank of a line's verdict, read from its text: the higher, the worse. `None` if it was not measured.
fn rank(text: &str) -> Option<u32> {
    match text.split(' ').next()? {
        "PASS" => Some(0),
        "INFO" => Some(1),
        "WARN" => Some(2),
        "FAIL" => Some(3),
        _ => None,
    }
}

fn times(reports: &[(String, Report)]) -> Vec<Row> {
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for step in reports.iter().flat_map(|(_, report)| &report.steps) {
        for measurement in &step.measurements {
            let key = (step.name.as_str(), measurement.what.as_str());
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    let rows = keys.into_iter().flat_map(|(step, what)| {
        let found: Vec<Option<&Measurement>> =
            reports.iter().map(|(_, report)| find(&report.steps, step, what)).collect();
        // A measurement that only one report has needs no more than its longest time.
        let is_alone = found.iter().flatten().count() < 2;
        let figures = if is_alone { &FIGURES[FIGURES.len() - 1..] } else { FIGURES };
        figures.iter().filter_map(move |figure| row(step, what, figure, &found))
    });
    rows.collect()
}

fn find<'a>(steps: &'a [CheckStep], step: &str, what: &str) -> Option<&'a Measurement> {
    steps
        .iter()
        .find(|each| each.name == step)?
        .measurements
        .iter()
        .find(|measurement| measurement.what == what)
}

fn row(step: &str, what: &str, figure: &str, found: &[Option<&Measurement>]) -> Option<Row> {
    let value = |measurement: &Option<&Measurement>| {
        let times = &(*measurement)?.times;
        match figure.strip_prefix('p') {
            Some(percent) => times.percentile(percent.parse().ok()?),
            None => Some(times.maximum_ns),
        }
    };
    let values: Vec<Option<f64>> = found.iter().map(value).collect();
    let (first, others) = values.split_first()?;
    values.iter().any(Option::is_some).then(|| Row {
        what: format!("{step}, {what}, {figure}"),
        values: values.iter().map(|value| value.map(time)).collect(),
        changes: others.iter().map(|other| judge(step, figure, *first, *other)).collect(),
    })
}

fn judge(step: &str, figure: &str, first: Option<f64>, other: Option<f64>) -> Trend {
    let (Some(first), Some(other)) = (first, other) else { return Trend::Unknown };
    let part = if figure == "max" { LONGEST_DIFFER } else { PERCENTILES_DIFFER };
    let resolution =
        if matches!(step, "npt" | "hardware" | "preemption") { LOOP_RESOLUTION_NS } else { RESOLUTION_NS };
    let noise = resolution.max(part * first.min(other));
    match other - first {
        difference if difference.abs() <= noise => Trend::Same,
        difference if difference < 0.0 => Trend::Better,
        _ => Trend::Worse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{report, step};
    use crate::{Line, Samples, Verdict};

    fn measured(name: &str, times: &[u64]) -> Report {
        let mut step = step(name, Verdict::Info);
        step.measurements.push(Measurement::new("CPU 1", Samples::of(times.iter().copied())));
        report(vec![step])
    }

    fn changes(name: &str, a: &[u64], b: &[u64]) -> Vec<(String, Trend)> {
        let comparison = compare(&[("a".to_owned(), measured(name, a)), ("b".to_owned(), measured(name, b))]);
        comparison.times.into_iter().map(|row| (row.what, row.changes[0])).collect()
    }

    #[test]
    fn a_difference_within_noise_is_none_and_one_beyond_has_a_direction() {
        let median = |a, b| changes("npt", &[a, a], &[b, b])[0].1;
        assert_eq!(
            [median(1000, 1100), median(1000, 1200), median(1200, 1000)],
            [Trend::Same, Trend::Worse, Trend::Better]
        );
        // cyclictest has a resolution of one microsecond.
        assert_eq!(changes("wake-up", &[1000, 1000], &[2000, 2000])[0].1, Trend::Same);
    }

    #[test]
    fn the_longest_is_one_sample_and_may_differ_by_more() {
        assert_eq!(
            changes("npt", &[10, 10_000], &[10, 14_000]).last().unwrap(),
            &("npt, CPU 1, max".to_owned(), Trend::Same)
        );
        assert_eq!(changes("npt", &[10, 10_000], &[10, 16_000]).last().unwrap().1, Trend::Worse);
    }

    #[test]
    fn a_missing_step_is_reported_and_a_better_verdict_is_better() {
        let mut shielded = report(vec![step("system", Verdict::Pass)]);
        let line = |verdict, value: &str| Line {
            name: "shield".to_owned(),
            value: value.to_owned(),
            verdict,
            why: String::new(),
            remedy: None,
        };
        shielded.steps[0].lines.push(line(Verdict::Pass, "it holds"));
        let mut bare = measured("npt", &[5]);
        bare.steps.push(step("system", Verdict::Warn));
        bare.steps[1].lines.push(line(Verdict::Warn, "none"));
        let comparison = compare(&[("bare".to_owned(), bare), ("shielded".to_owned(), shielded)]);
        assert_eq!(comparison.settings[0].changes, [Trend::Better]);
        assert_eq!(comparison.times[0].changes, [Trend::Unknown]);
        assert!(!comparison.is_worse());
        let text = comparison.to_string();
        assert!(
            text.contains("B: shielded") && text.contains("better") && text.contains("not in both"),
            "{text}"
        );
    }
}
