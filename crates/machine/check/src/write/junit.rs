//! Writes JUnit's XML, for continuous integration.

use super::escape;
use crate::{CheckStep, Report, Verdict};
use std::fmt::Write;

/// Writes one test case for each step. A step that could not be measured is skipped, or failed if it is required.
pub fn junit(report: &Report) -> String {
    let required = &report.settings.required;
    let fails = |step: &CheckStep| {
        step.verdict == Verdict::Fail
            || (step.verdict == Verdict::NotMeasured && required.contains(&step.name))
    };
    let skipped = |step: &CheckStep| step.verdict == Verdict::NotMeasured && !fails(step);
    // A required step that was never made gets a test case of its own.
    let never: Vec<&String> =
        required.iter().filter(|name| !report.steps.iter().any(|step| step.name == **name)).collect();
    let failures = report.steps.iter().filter(|step| fails(step)).count() + never.len();
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        text,
        "<testsuites>\n<testsuite name=\"sordino check\" timestamp=\"{}\" hostname=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{}\">",
        escape(&report.began),
        escape(&report.machine.host),
        report.steps.len() + never.len(),
        report.steps.iter().filter(|step| skipped(step)).count(),
    );
    for step in &report.steps {
        let (name, reason) = (escape(&step.name), escape(&step.reason));
        let _ = writeln!(text, "<testcase classname=\"sordino.check\" name=\"{name}\">");
        if fails(step) {
            let _ = writeln!(text, "<failure message=\"{reason}\"/>");
        } else if skipped(step) {
            let _ = writeln!(text, "<skipped message=\"{reason}\"/>");
        }
        let _ =
            writeln!(text, "<system-out>{}</system-out>\n</testcase>", escape(&super::step_text(step, true)));
    }
    for name in never {
        let name = escape(name);
        let _ = writeln!(
            text,
            "<testcase classname=\"sordino.check\" name=\"{name}\"><failure message=\"not measured\"/></testcase>"
        );
    }
    text + "</testsuite>\n</testsuites>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{report, step};

    #[test]
    fn what_fails_is_a_failure_and_what_is_required_too() {
        let mut report = report(vec![
            step("a", Verdict::Fail),
            step("b<", Verdict::NotMeasured),
            step("c", Verdict::Warn),
        ]);
        assert!(junit(&report).contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""));
        assert!(junit(&report).contains("<skipped message=\"b&lt; is NOT MEASURED\"/>"));
        report.settings.required = vec!["b<".to_owned(), "never".to_owned()];
        assert!(junit(&report).contains("tests=\"4\" failures=\"3\" errors=\"0\" skipped=\"0\""));
    }
}
