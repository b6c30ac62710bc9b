//! Lines that a shield can set, computed by its knobs, and lines that only boot parameters can set.

use super::{Line, Subject};
use crate::Verdict;
use sordino_event::text::count;
use sordino_sched::CpuList;
use sordino_shield::{Change, KNOBS, Knob, KnobUse, ShieldLevel, ShieldRequest, advice, boot};

pub(super) fn lines(subject: &Subject<'_>) -> Vec<Line> {
    let mut lines = vec![shield(subject)];
    let Some(request) = request(subject) else {
        let reason = "with one CPU, none can be given to real-time work alone";
        lines.push(Line::unknown("isolation", reason, "other work runs on the CPU"));
        return lines;
    };
    lines.extend(
        KNOBS.iter().filter(|knob| knob.used != KnobUse::Hotplug).map(|knob| line(subject, knob, &request)),
    );
    lines.extend(rivals(subject, &request));
    let parameters = boot::parameters(subject.kernel, subject.machine, &request);
    lines.extend(parameters.iter().map(parameter));
    lines
}

/// Request for a shield of the measured CPUs. One CPU has to be left for other work: if all are measured, it is the
/// first.
fn request(subject: &Subject<'_>) -> Option<ShieldRequest> {
    let online = &subject.machine.online;
    let cpus = match online.without(subject.cpus).is_empty() {
        true => CpuList::new(online.as_slice().iter().copied().skip(1)),
        false => subject.cpus.intersection(online),
    };
    (!cpus.is_empty()).then_some(ShieldRequest { cpus, level: ShieldLevel::Full, hotplug: false })
}

/// Returns the command that raises the shield.
pub(super) fn remedy(subject: &Subject<'_>, is_full: bool) -> String {
    let cpus = request(subject).map(|request| request.cpus).unwrap_or_default();
    format!("sudo sordino shield up --cpus {cpus}{}", if is_full { " --level full" } else { "" })
}

fn shield(subject: &Subject<'_>) -> Line {
    let (name, why) = ("shield", "CPUs that nothing else uses, read back from the kernel");
    match &subject.shield {
        Err(reason) => Line::unknown(name, reason, why),
        Ok(status) => match &status.shield {
            None => Line::new(name, "none", Verdict::Warn, why).remedy(remedy(subject, true)),
            Some(shield) if status.drift.is_empty() => {
                let ShieldRequest { cpus, level, .. } = &shield.request;
                Line::new(name, format!("CPU {cpus}, level {level}; it holds"), Verdict::Pass, why)
            }
            Some(shield) => {
                let value = format!(
                    "CPU {}; no longer in force: {}",
                    shield.request.cpus,
                    count(status.drift.len(), "setting")
                );
                Line::new(name, value, Verdict::Warn, why).remedy("sordino shield status tells which")
            }
        },
    }
}

/// Number of changes that a line lists.
const LISTED: usize = 2;

fn line(subject: &Subject<'_>, knob: &Knob, request: &ShieldRequest) -> Line {
    let plan = match knob.plan(subject.machine, request) {
        Ok(plan) => plan,
        Err(error) => return Line::unknown(knob.name, error.to_string(), knob.why),
    };
    let changes: Vec<&Change> = plan.changes.iter().filter(|change| change.to.is_some()).collect();
    if changes.is_empty() {
        return match plan.missing.is_empty() {
            true => Line::new(knob.name, "as it should be", Verdict::Pass, knob.why),
            false => Line::unknown(knob.name, abridged(&plan.missing), knob.why),
        };
    }
    let text = |change: &&Change| {
        let to = change.to.as_deref().unwrap_or_default();
        format!("{}: {}, should be {to}", change.what, change.from)
    };
    let value = abridged(&changes.iter().map(text).collect::<Vec<_>>());
    Line::new(knob.name, value, Verdict::Warn, knob.why).remedy(remedy(subject, knob.used == KnobUse::Full))
}

/// Joins the first [`LISTED`] texts, and adds the number of the others.
fn abridged(texts: &[String]) -> String {
    let listed = texts[..texts.len().min(LISTED)].join("; ");
    match texts.len().saturating_sub(LISTED) {
        0 => listed,
        more => format!("{listed}; and {more} more"),
    }
}

/// Lines on services that work against a shield, and on shared cores.
fn rivals(subject: &Subject<'_>, request: &ShieldRequest) -> Vec<Line> {
    let texts =
        [advice::rivals(subject.machine, request), advice::siblings(subject.machine, request)].concat();
    let line = |text: String| {
        let (what, remedy) = text
            .split_once(": ")
            .map_or((text.clone(), None), |(what, remedy)| (what.to_owned(), Some(remedy.to_owned())));
        Line { remedy, ..Line::new("others", what, Verdict::Warn, "what one sets, another resets") }
    };
    texts.into_iter().map(line).collect()
}

fn parameter(parameter: &boot::Parameter) -> Line {
    let boot::Parameter { text, why, state } = parameter;
    match state {
        boot::ParameterState::InForce => {
            Line::new("boot parameter", format!("{text} is in force"), Verdict::Pass, why)
        }
        boot::ParameterState::Absent => Line::new("boot parameter", format!("no {text}"), Verdict::Warn, why)
            .remedy(format!("add {text} to the kernel's command line")),
        boot::ParameterState::NotBuilt(option) => {
            Line::new("boot parameter", format!("no {text}"), Verdict::Info, why)
                .remedy(format!("a kernel with {option}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{tree, verdict_of};
    use super::*;
    use sordino_shield::{Cpusets, Machine};
    use std::path::Path;

    fn subject<'a>(machine: &'a Machine, kernel: &'a boot::KernelConfig, cpus: &'a CpuList) -> Subject<'a> {
        Subject { machine, kernel, shield: Err("a test".to_owned()), cpus, tracers: Ok(Vec::new()) }
    }

    fn machine(root: &Path, online: &str) -> Machine {
        Machine {
            root: root.into(),
            online: online.parse().unwrap(),
            cpusets: Cpusets::None,
            tasks: Vec::new(),
        }
    }

    #[test]
    fn a_knob_with_another_value_than_the_shield_s_warns_with_the_shield_as_remedy() {
        let directory = tempfile::tempdir().unwrap();
        tree(
            directory.path(),
            &[
                ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
                ("proc/sys/kernel/timer_migration", "0\n"),
            ],
        );
        let (machine, kernel, cpus) =
            (machine(directory.path(), "0-3"), boot::KernelConfig::default(), "2-3".parse().unwrap());
        let lines = lines(&subject(&machine, &kernel, &cpus));
        assert_eq!(
            verdict_of(&lines, "throttling"),
            "WARN microseconds of each period (-1: no limit): 950000, should be -1"
        );
        let line = lines.iter().find(|line| line.name == "throttling").unwrap();
        assert_eq!(line.remedy.as_deref(), Some("sudo sordino shield up --cpus 2-3 --level full"));
        assert_eq!(verdict_of(&lines, "timers"), "PASS as it should be");
        assert!(verdict_of(&lines, "rcu").starts_with("NOT MEASURED unknown: "));
    }

    #[test]
    fn of_all_cpus_the_first_is_left_and_of_one_none_can_be_given() {
        let directory = tempfile::tempdir().unwrap();
        let kernel = boot::KernelConfig::default();
        let (four, all) = (machine(directory.path(), "0-3"), "0-3".parse().unwrap());
        assert_eq!(request(&subject(&four, &kernel, &all)).unwrap().cpus.to_string(), "1-3");
        let (one, only) = (machine(directory.path(), "0"), "0".parse().unwrap());
        assert!(request(&subject(&one, &kernel, &only)).is_none());
        assert!(verdict_of(&lines(&subject(&one, &kernel, &only)), "isolation").starts_with("NOT MEASURED"));
    }

    #[test]
    fn boot_parameters_are_listed_one_by_one() {
        let directory = tempfile::tempdir().unwrap();
        let kernel =
            boot::KernelConfig { nohz_full: Some("1".parse().unwrap()), ..boot::KernelConfig::default() };
        let (machine, cpus) = (machine(directory.path(), "0-1"), "1".parse().unwrap());
        let lines = lines(&subject(&machine, &kernel, &cpus));
        let verdicts: Vec<String> = lines
            .iter()
            .filter(|line| line.name == "boot parameter")
            .map(|line| format!("{} {}", line.verdict, line.value))
            .collect();
        assert_eq!(verdicts[0], "PASS nohz_full=1 is in force");
        assert!(verdicts.contains(&"WARN no irqaffinity=0".to_owned()), "{verdicts:?}");
    }
}
