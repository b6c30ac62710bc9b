//! Formats a report for a terminal.

use crate::limits::time;
use crate::{CheckStep, Line, Report, Verdict};
use sordino_event::text::printable;
use std::fmt::Write;

/// Formats one step. Of its lines, only those with WARN or FAIL are listed, unless `is_verbose`.
pub fn step(step: &CheckStep, is_verbose: bool) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{:<12}  {}: {}", step.verdict, printable(&step.name), printable(&step.reason));
    let is_listed = |line: &&Line| is_verbose || matches!(line.verdict, Verdict::Warn | Verdict::Fail);
    for line in step.lines.iter().filter(is_listed) {
        let _ =
            writeln!(text, "  {:<12}  {}: {}", line.verdict, printable(&line.name), printable(&line.value));
        if is_verbose {
            let _ = writeln!(text, "                why: {}", printable(&line.why));
        }
        if let Some(remedy) = &line.remedy {
            let _ = writeln!(text, "                remedy: {}", printable(remedy));
        }
    }
    measurements(step, &mut text);
    if let Some(explained) = &step.explained {
        let _ = writeln!(text, "  explained: {}", printable(&explained.headline));
        if let Some(trace) = &explained.trace {
            let _ = writeln!(text, "    its trace, in the report's directory: {}", printable(trace));
        }
        if is_verbose {
            explained.details.lines().for_each(|line| _ = writeln!(text, "    {}", printable(line)));
        }
    }
    for command in &step.commands {
        if let Some(failed) = &command.failed {
            let _ = writeln!(text, "  {}: {}", printable(&command.line), printable(failed));
        } else if is_verbose {
            let _ = writeln!(text, "  ran: {}", printable(&command.line));
        }
    }
    for note in &step.notes {
        let _ = writeln!(text, "  note: {}", printable(note));
    }
    if let Some(next) = &step.next {
        let _ = writeln!(text, "  next: {}", printable(next));
    }
    text
}

/// Number of interrupters that are listed for a CPU.
const INTERRUPTERS: usize = 4;

fn measurements(step: &CheckStep, text: &mut String) {
    if step.measurements.is_empty() {
        return;
    }
    row(text, "", ["times", "min", "p50", "p99", "p99.99", "max"].map(str::to_owned));
    for measurement in &step.measurements {
        let times = &measurement.times;
        let percentile = |percent| times.percentile(percent).map_or("-".to_owned(), time);
        let [p50, p99, p99_99] = [50.0, 99.0, 99.99].map(percentile);
        let (minimum, maximum) = (time(times.minimum_ns), time(times.maximum_ns));
        row(text, &measurement.what, [times.count.to_string(), minimum, p50, p99, p99_99, maximum]);
        if let Some(who) = measurement.who(INTERRUPTERS) {
            let _ = writeln!(text, "    interrupted by: {}", printable(&who));
        }
    }
}

/// Formats a row of 80 columns. The first cell may have more digits than others: a loop makes about 10^12 iterations a
/// day.
fn row(text: &mut String, what: &str, [count, times @ ..]: [String; 6]) {
    let what = printable(what);
    let room = 27_usize.saturating_sub(what.len());
    let _ = write!(text, "  {what} {count:>room$}");
    times.iter().for_each(|cell| _ = write!(text, "{cell:>10}"));
    text.push('\n');
}

/// Formats the last lines: the answer, by the limits and required steps.
pub fn summary(report: &Report) -> String {
    let mut text = String::new();
    let count = |verdict| report.steps.iter().filter(|step| step.verdict == verdict).count();
    for held in &report.settings.held {
        let _ = writeln!(
            text,
            "held while measuring: {} at {} (was {}): {}",
            held.place, held.held, held.was, held.why
        );
    }
    for not_held in &report.settings.not_held {
        let _ = writeln!(text, "not held while measuring: {}", printable(not_held));
    }
    if report.interrupted {
        text.push_str("interrupted: what was measured until then is kept\n");
    }
    let all = [Verdict::Pass, Verdict::Warn, Verdict::Fail, Verdict::Info, Verdict::NotMeasured];
    let counts: Vec<String> = all
        .into_iter()
        .filter(|verdict| count(*verdict) > 0)
        .map(|verdict| format!("{} {verdict}", count(verdict)))
        .collect();
    let _ = writeln!(
        text,
        "{}: {}",
        if report.has_failed() { "not fit" } else { "nothing failed" },
        counts.join(", ")
    );
    for name in &report.settings.required {
        if report.steps.iter().any(|step| step.name == *name && step.verdict == Verdict::NotMeasured) {
            let _ = writeln!(text, "required, and not measured: {}", printable(name));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{report, step as a_step};
    use crate::{InterruptionSource, Measurement, Samples};

    #[test]
    fn passing_lines_are_summed_up_and_others_have_their_remedy() {
        let mut table = a_step("system", Verdict::Warn);
        let line = |name: &str, verdict| Line {
            name: name.to_owned(),
            value: "on".to_owned(),
            verdict,
            why: "because".to_owned(),
            remedy: Some("switch it off".to_owned()),
        };
        table.lines = vec![line("SMT", Verdict::Warn), line("NUMA", Verdict::Pass)];
        let text = step(&table, false);
        assert!(text.contains("WARN          SMT: on") && text.contains("remedy: switch it off"), "{text}");
        assert!(!text.contains("NUMA") && step(&table, true).contains("NUMA"), "{text}");
    }

    #[test]
    fn figures_come_with_who_interrupted() {
        let mut npt = a_step("npt", Verdict::Info);
        let interrupters =
            (0..6).map(|n| InterruptionSource { name: format!("irq {n}"), count: 9 - n }).collect();
        let times = Samples::of(1..=2000);
        npt.measurements.push(Measurement {
            interrupters,
            stolen_ms: Some(30),
            ..Measurement::new("CPU 1", times)
        });
        let text = step(&npt, false);
        let figures = "  CPU 1                   2000      1 ns   1.00 us   1.98 us         -   2.00 us\n";
        assert!(text.contains(figures), "{text}");
        let mut of_a_day = String::new();
        let cells = ["4320000000000", "1 ns", "-", "-", "-", "86400 s"].map(str::to_owned);
        row(&mut of_a_day, "CPU 1", cells);
        assert_eq!(of_a_day.len(), 81, "{of_a_day}");
        assert!(
            text.contains("interrupted by: the hypervisor for 30.0 ms, 9 irq 0, 8 irq 1, 7 irq 2, 6 irq 3, 2 other sources"),
            "{text}"
        );
    }

    #[test]
    fn the_summary_names_what_was_required_and_is_not_there() {
        let mut report = report(vec![a_step("npt", Verdict::NotMeasured), a_step("system", Verdict::Pass)]);
        assert_eq!(summary(&report), "nothing failed: 1 PASS, 1 NOT MEASURED\n");
        report.settings.required = vec!["npt".to_owned()];
        assert_eq!(summary(&report), "not fit: 1 PASS, 1 NOT MEASURED\nrequired, and not measured: npt\n");
    }
}
