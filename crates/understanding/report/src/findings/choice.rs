//! The reason for the choice of intervals, if the user named none, and the options that choose others.

use crate::styled_text::{Style, StyledText, TIE};
use crate::value::bare;
use sordino_analyze::Findings;
use sordino_intervals::{IntervalRule, Key, Other, Why};

/// Writes the reason of the choice, if it is not obvious, and the options that choose others.
pub(super) fn write(findings: &Findings, page: &mut StyledText) {
    let Some(choice) = &findings.choice else { return };
    let why = match choice.why {
        Why::Npt => return,
        Why::Pair => "two events whose names belong together",
        Why::Regular => "the event that a thread hits most often at regular intervals",
        Why::Frequent => "the event that a thread hits most often; none is regular",
    };
    let arguments = |rule: &IntervalRule| rule_arguments(rule).replace(' ', &TIE.to_string());
    let other = |other: &Other| format!("{} ({})", arguments(&other.rule), other.intervals);
    let others: Vec<String> = choice.others.iter().map(other).collect();
    let others = match others.is_empty() {
        true => "the recording has no others".to_owned(),
        false => format!("others, with how many intervals they have: {}", others.join(", ")),
    };
    page.prose(Style::Plain, "", &format!("Chosen without --event: {why}; {others}."));
}

/// Returns the options of `sordino explain` that choose the intervals of `rule`.
pub fn rule_arguments(rule: &IntervalRule) -> String {
    if rule.is_chain() {
        return format!("--event {}", name(&rule.begin.event));
    }
    let by = match &rule.begin.key {
        Key::Field(field) => format!(" --by {}", name(field)),
        Key::Thread | Key::Cpu => String::new(),
    };
    format!("--begin {} --end {}{by}", name(&rule.begin.event), name(&rule.end.event))
}

/// Returns the reason why no intervals can be chosen from the recording at `path`, which is quoted for a shell, and the
/// remedy: it has events of programs that form no intervals, or only events of the kernel, such as `kernel`.
pub fn nothing_to_choose(path: &str, has_programs: bool, kernel: &[Other]) -> String {
    let pairs: Vec<String> =
        kernel.iter().map(|other| format!("  {}", rule_arguments(&other.rule))).collect();
    match (has_programs, pairs.is_empty()) {
        (true, _) => format!(
            "{path}: nothing to choose: no event of a program happens twice in a thread whose id is recorded (LTTng records it \
             with: lttng add-context -u -t vtid); name the intervals with --event, or with --begin and --end ('sordino events \
             {path}' lists the events)"
        ),
        (false, true) => format!(
            "{path}: nothing to choose: no event of a program is recorded; record a program that is linked with sordino: \
             sordino record -- PROGRAM"
        ),
        (false, false) => format!(
            "{path}: nothing to choose: the kernel's events only; record a program's tracepoints with them (sudo sordino \
             record --kernel ... -- PROGRAM), take --thread, --syscalls or --irqs, or name the kernel's own intervals:\n{}",
            pairs.join("\n")
        ),
    }
}

/// Returns the whole name, quoted for a shell whatever characters it has.
fn name(text: &str) -> String {
    let mut shown = Vec::new();
    bare(text.as_bytes(), &mut shown);
    let shown = String::from_utf8_lossy(&shown);
    let is_word = |char: char| char.is_ascii_alphanumeric() || "_:.-".contains(char);
    if shown.chars().all(is_word) {
        shown.into_owned()
    } else {
        format!("'{}'", shown.replace('\'', r"'\''"))
    }
}

/// Returns the error that no thread or fiber of this name was woken, with the remedy.
pub fn none_was_woken(path: &str, kind: &str, name: &str, is_directory: bool) -> String {
    let hint = match is_directory {
        true => misplaced_directory(kind, name),
        false => format!("'sordino query {path} count --per {kind}' lists those that have events"),
    };
    format!("{path}: no {kind} '{name}' was woken and then ran; {hint}")
}

/// Returns the remedy where the name of a thread or fiber is a directory.
pub fn misplaced_directory(kind: &str, name: &str) -> String {
    format!("'{name}' is a directory: write it before --{kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_shell_would_understand_are_quoted() {
        assert_eq!(rule_arguments(&IntervalRule::between("motor:period")), "--event motor:period");
        assert_eq!(rule_arguments(&IntervalRule::between("a;b 'c'")), r"--event 'a;b '\''c'\'''");
        let by_context: IntervalRule = "a:in@$ctx.vtid..a:out@$ctx.vtid".parse().unwrap();
        assert_eq!(rule_arguments(&by_context), "--begin a:in --end a:out --by '$ctx.vtid'");
    }
}
