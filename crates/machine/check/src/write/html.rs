//! Writes a self-contained page: without scripts, fonts or images from elsewhere.

use super::escape;
use crate::limits::time;
use crate::{CheckStep, Line, Measurement, Report, Verdict};
use sordino_draw::{COLORS, LatencyLine, PAGE, PICTURES, latency};
use sordino_event::text::count;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

/// Writes the page. `limit` returns the limit of a step's longest time in nanoseconds, if it has one.
pub fn html(report: &Report, limit: impl Fn(&str) -> Option<f64>) -> String {
    let mut page = String::new();
    let title = escape(&format!("sordino check: {}, {}", report.machine.host, report.began));
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}</title>\n<style>\n{PAGE}{PICTURES}{STYLE}</style></head>\n<body>\n<h1>Is this machine fit for real time?</h1>\n"
    );
    let (class, answer) = if report.has_failed() { ("fail", "No") } else { ("pass", "Nothing failed") };
    let _ = writeln!(
        page,
        "<p class=\"answer\"><b class=\"{class}\">{answer}</b> {}</p>",
        escape(&reasons(report))
    );
    overview(report, &mut page);
    for step in &report.steps {
        section(step, limit(&step.name), &mut page);
    }
    about(report, &mut page);
    page + "</body></html>\n"
}

fn reasons(report: &Report) -> String {
    let worst = report
        .steps
        .iter()
        .filter(|step| step.verdict == Verdict::Fail)
        .map(|step| format!("{}: {}", step.name, step.reason));
    let mut reasons: Vec<String> = worst.collect();
    if report.settings.limits.is_empty() {
        reasons.push(
            "no limits were given: figures are for reading (--max-wakeup, --max-gap, --thresholds)"
                .to_owned(),
        );
    }
    if report.interrupted {
        reasons.push("interrupted before it was through".to_owned());
    }
    reasons.join("; ")
}

fn badge(verdict: Verdict) -> String {
    let class = match verdict {
        Verdict::Pass => "pass",
        Verdict::Info => "info",
        Verdict::NotMeasured => "missing",
        Verdict::Warn => "warn",
        Verdict::Fail => "fail",
    };
    format!("<span class=\"badge {class}\">{verdict}</span>")
}

/// Writes the table of all steps.
fn overview(report: &Report, page: &mut String) {
    page.push_str("<table class=\"overview\"><tr><th>step</th><th></th><th>longest</th><th>why</th></tr>\n");
    for step in &report.steps {
        let longest = step.worst().map(|worst| time(worst.times.maximum_ns)).unwrap_or_default();
        let (name, title, reason) = (escape(&step.name), escape(&step.title), escape(&step.reason));
        let _ = writeln!(
            page,
            "<tr><td><a href=\"#{name}\">{title}</a></td><td>{}</td><td class=\"n\">{longest}</td><td>{reason}</td></tr>",
            badge(step.verdict)
        );
    }
    page.push_str("</table>\n");
}

fn section(step: &CheckStep, limit: Option<f64>, page: &mut String) {
    let _ = writeln!(
        page,
        "<section id=\"{}\"><h2>{} {}</h2>",
        escape(&step.name),
        escape(&step.title),
        badge(step.verdict)
    );
    let _ = writeln!(page, "<p>{}</p>", escape(&step.reason));
    if let Some(next) = &step.next {
        let _ = writeln!(page, "<p class=\"next\"><b>Next:</b> <code>{}</code></p>", escape(next));
    }
    table(&step.lines, page);
    let plot = latency(&step.title, &lines(step), limit);
    if !plot.is_empty() {
        let _ = writeln!(
            page,
            "<figure><figcaption>Number of samples by time <span>(a dot is the longest)</span></figcaption><div class=\"wide\">{plot}</div></figure>"
        );
    }
    figures(step, page);
    if let Some(explained) = &step.explained {
        let _ = writeln!(page, "<p><b>Explained:</b> {}</p>", escape(&explained.headline));
        if let Some(trace) = &explained.trace {
            let _ = writeln!(page, "<p>Its trace: <code>{}</code></p>", escape(trace));
        }
        let details = escape(&explained.details);
        let _ =
            writeln!(page, "<details><summary>what took the time</summary><pre>{details}</pre></details>");
    }
    for note in &step.notes {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", escape(note));
    }
    if !step.commands.is_empty() {
        page.push_str("<details><summary>commands</summary><pre>");
        for command in &step.commands {
            let failed = command.failed.as_ref().map(|failed| format!("   # {failed}")).unwrap_or_default();
            let _ = writeln!(page, "{}{}", escape(&command.line), escape(&failed));
        }
        page.push_str("</pre></details>\n");
    }
    page.push_str("</section>\n");
}

/// Returns the lines of a step's plot, one for each of its measurements.
fn lines(step: &CheckStep) -> Vec<LatencyLine> {
    let line = |measurement: &Measurement| {
        let bins = measurement.times.histogram.iter().map(|bin| (bin.low_ns, bin.high_ns, bin.count));
        let longest_ns = measurement.times.maximum_ns;
        LatencyLine { name: measurement.what.clone(), longest_ns, bins: bins.collect() }
    };
    step.measurements.iter().map(line).collect()
}

/// Writes the lines that disturb, and the others folded.
fn table(lines: &[Line], page: &mut String) {
    let (disturbing, others): (Vec<&Line>, Vec<&Line>) =
        lines.iter().partition(|line| matches!(line.verdict, Verdict::Fail | Verdict::Warn));
    rows(&disturbing, page);
    if !others.is_empty() {
        let _ = writeln!(page, "<details><summary>{}</summary>", count(others.len(), "other setting"));
        rows(&others, page);
        page.push_str("</details>\n");
    }
}

fn rows(lines: &[&Line], page: &mut String) {
    if lines.is_empty() {
        return;
    }
    page.push_str("<table class=\"settings\"><tr><th>setting</th><th></th><th>value</th><th>why it matters</th><th>remedy</th></tr>\n");
    for line in lines {
        let remedy =
            line.remedy.as_ref().map(|remedy| format!("<code>{}</code>", escape(remedy))).unwrap_or_default();
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td class=\"value\">{}</td><td>{}</td><td>{remedy}</td></tr>",
            escape(&line.name),
            badge(line.verdict),
            escape(&line.value),
            escape(&line.why),
        );
    }
    page.push_str("</table>\n");
}

/// Number of interrupters that are listed for a CPU.
const INTERRUPTERS: usize = 6;

fn figures(step: &CheckStep, page: &mut String) {
    let Some(first) = step.measurements.first() else { return };
    // The measurement with the most samples has the most percentiles.
    let most = step
        .measurements
        .iter()
        .max_by_key(|measurement| measurement.times.percentiles.len())
        .unwrap_or(first);
    let percents: Vec<f64> = most.times.percentiles.iter().map(|each| each.percent).collect();
    page.push_str(
        "<div class=\"wide\"><table class=\"figures\"><tr><th></th><th>of</th><th>samples</th><th>min</th><th>mean</th>",
    );
    percents.iter().for_each(|percent| _ = write!(page, "<th>p{percent}</th>"));
    page.push_str("<th>max</th><th>interrupted by</th></tr>\n");
    for (index, measurement) in step.measurements.iter().enumerate() {
        let times = &measurement.times;
        let _ = write!(
            page,
            "<tr><td><svg class=\"key\" viewBox=\"0 0 8 8\" aria-hidden=\"true\"><rect class=\"c{}\" width=\"8\" height=\"8\"/></svg></td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>",
            index % COLORS,
            escape(&measurement.what),
            times.count,
            time(times.minimum_ns),
            time(times.mean_ns)
        );
        for percent in &percents {
            let cell = times.percentile(*percent).map(time).unwrap_or_default();
            let _ = write!(page, "<td class=\"n\">{cell}</td>");
        }
        let _ = writeln!(
            page,
            "<td class=\"n\"><b>{}</b></td><td>{}</td></tr>",
            time(times.maximum_ns),
            escape(&measurement.who(INTERRUPTERS).unwrap_or_default())
        );
    }
    page.push_str("</table></div>\n");
}

/// Writes the machine, the settings, and changes made during the measurement.
fn about(report: &Report, page: &mut String) {
    let (machine, settings) = (&report.machine, &report.settings);
    let none = || "none".to_owned();
    let held = settings
        .held
        .iter()
        .map(|held| format!("{} at {} (was {}): {}", held.place, held.held, held.was, held.why));
    let held: Vec<String> = held.collect();
    let rows = [
        ("machine", format!("{}: {}", machine.host, machine.processor)),
        ("hardware", machine.hardware.clone().unwrap_or_else(|| "not told".to_owned())),
        ("hypervisor", machine.hypervisor.clone().unwrap_or_else(none)),
        ("CPUs, memory", format!("{}; {} MiB", machine.cpus, machine.memory_mib)),
        ("system", machine.system.clone().unwrap_or_else(|| "not told".to_owned())),
        ("kernel", machine.kernel.clone()),
        ("command line", machine.command_line.clone()),
        ("command", settings.command.clone()),
        ("measured", format!("CPU {}, {} each, load {}", settings.cpus, settings.duration(), settings.load)),
        ("limits", if settings.limits.is_empty() { none() } else { settings.limits.join("; ") }),
        ("required", if settings.required.is_empty() { none() } else { settings.required.join(", ") }),
        ("held while measuring", if held.is_empty() { none() } else { held.join("; ") }),
        ("not held", if settings.not_held.is_empty() { none() } else { settings.not_held.join("; ") }),
        ("began", report.began.clone()),
        ("by", format!("sordino {}, schema {}", report.version, report.schema)),
    ];
    page.push_str("<section id=\"about\"><h2>Machine and settings</h2><table class=\"facts\">\n");
    for (name, value) in rows {
        let _ = writeln!(page, "<tr><th>{name}</th><td class=\"value\">{}</td></tr>", escape(&value));
    }
    page.push_str("</table></section>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{report, step};
    use crate::{Measurement, Samples};

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_no_text_breaks_it() {
        let mut npt = step("npt", Verdict::Fail);
        npt.reason = "<script>alert(1)</script>".to_owned();
        npt.measurements.push(Measurement::new("CPU 1", Samples::of(10..5000)));
        let page = html(&report(vec![npt]), |_| Some(1e3));
        assert!(!page.contains("<script") && !page.contains("http") && !page.contains("url("), "{page}");
        assert!(
            page.contains("<svg")
                && page.contains("<b class=\"fail\">No</b>")
                && page.contains("limit 1.00 us")
        );
    }
}
