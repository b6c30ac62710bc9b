//! Reports on a shield as text.

use crate::advice::Advice;
use crate::boot::{Parameter, ParameterState};
use crate::{
    Change, Done, Drift, KnobUse, Lowered, Machine, Planned, Raised, ShieldLevel, ShieldRequest,
    ShieldStatus, Unfinished,
};
use sordino_event::text::{count, printable};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Number of lines of each kind that are shown without `--verbose`.
const SHOWN: usize = 3;

/// Appends a list with a headline; nothing if the list is empty.
fn section(text: &mut String, headline: &str, lines: &[String], shown: usize) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{headline}");
    for line in lines.iter().take(shown) {
        let _ = writeln!(text, "  {}", printable(line));
    }
    if lines.len() > shown {
        let _ = writeln!(text, "  and {} more (-v shows them)", lines.len() - shown);
    }
}

fn shown(verbose: bool) -> usize {
    if verbose { usize::MAX } else { SHOWN }
}

/// Returns the changes that raising a shield would make as text.
pub fn plan(
    machine: &Machine,
    request: &ShieldRequest,
    planned: &[Planned],
    parameters: &[Parameter],
    advice: &Advice,
    verbose: bool,
) -> String {
    let mut text = format!(
        "A shield for CPU {} (level {}); everything else keeps CPU {}. Nothing is changed by this.\n",
        request.cpus,
        request.level,
        request.rest(machine)
    );
    for planned in planned.iter().filter(|planned| !planned.left_out) {
        text += &of_knob(planned, verbose);
    }
    let turned = planned.iter().filter(|planned| !planned.left_out);
    let stays: Vec<String> = turned.flat_map(|planned| planned.plan.stays.clone()).collect();
    section(&mut text, "Stays whatever is done", &stays, shown(verbose));
    let left_out: Vec<String> = planned
        .iter()
        .filter(|planned| planned.left_out && planned.knob.used == KnobUse::Full)
        .filter(|planned| !planned.plan.changes.is_empty())
        .map(|planned| format!("{}: {}", planned.knob.name, planned.knob.why))
        .collect();
    section(&mut text, &format!("With --level {} also", ShieldLevel::Full), &left_out, usize::MAX);
    section(&mut text, "RCU's threads", &advice.rcu_threads, shown(verbose));
    text += &boot(parameters);
    section(&mut text, "Notes", &advice.notes, usize::MAX);
    text
}

fn of_knob(planned: &Planned, verbose: bool) -> String {
    let mut text = format!("\n{}: {}\n", planned.knob.name, planned.knob.why);
    let plan = &planned.plan;
    let changes: Vec<&Change> = plan.changes.iter().filter(|change| change.to.is_some()).collect();
    if changes.is_empty() && plan.missing.is_empty() {
        text += "  nothing to do\n";
    }
    for Change { what, from, to, .. } in changes.iter().take(shown(verbose)) {
        let _ = writeln!(
            text,
            "  {}: {} -> {}",
            printable(what),
            printable(from),
            printable(to.as_deref().unwrap_or_default())
        );
    }
    if changes.len() > shown(verbose) {
        let _ = writeln!(text, "  and {} more (-v shows them)", changes.len() - SHOWN);
    }
    for missing in &plan.missing {
        let _ = writeln!(text, "  not here: {}", printable(missing));
    }
    text
}

fn boot(parameters: &[Parameter]) -> String {
    let mut text = String::from("\nOnly possible on the kernel's command line\n");
    for Parameter { text: parameter, why, state } in parameters {
        let state = match state {
            ParameterState::InForce => "in force",
            ParameterState::Absent => "not in force",
            ParameterState::NotBuilt(option) => &format!("this kernel can't: it is built without {option}"),
        };
        let _ = writeln!(text, "  {parameter:<28} {why}: {state}");
    }
    let absent: Vec<&str> = parameters
        .iter()
        .filter(|parameter| parameter.state == ParameterState::Absent)
        .map(|parameter| parameter.text.as_str())
        .collect();
    if !absent.is_empty() {
        let _ =
            writeln!(text, "  Add to it, and reboot (on Debian: in /etc/default/grub, then update-grub):");
        let _ = writeln!(text, "    {}", absent.join(" "));
    }
    text
}

/// Returns the changes that were made as text. `effect` is the comparison of measurements, or nothing.
pub fn raised(raised: &Raised, stays: &[String], advice: &Advice, effect: &str, verbose: bool) -> String {
    let mut text = headline(&raised.shield);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let held = |done: &&Done| done.outcome == crate::ChangeOutcome::Held;
    for done in raised.done.iter().filter(held) {
        *counts.entry(done.knob).or_default() += 1;
    }
    let counts: Vec<String> = counts.into_iter().map(|(knob, count)| format!("{knob} {count}")).collect();
    let _ = writeln!(text, "Changed, and read back: {}", counts.join(", "));
    let differs = |(change, now): (&Change, &str)| format!("{}: {} is '{now}'", change.what, change.place);
    let differing: Vec<String> = raised.differing().map(differs).collect();
    section(&mut text, "Set, but does NOT hold", &differing, usize::MAX);
    section(&mut text, "Stays on the shielded CPUs", stays, shown(verbose));
    section(&mut text, "RCU's threads", &advice.rcu_threads, shown(verbose));
    text += effect;
    text + "\nRun something on it:    sordino shield run --prio 80 -- COMMAND\nGive everything back:   sordino shield down\n"
}

fn headline(shield: &crate::Shield) -> String {
    let request = &shield.request;
    format!(
        "A shield is up on CPU {} (level {}); everything else has CPU {}.\n",
        request.cpus, request.level, shield.rest
    )
}

/// Returns the state of the shield as text. `rivals` are services that may have changed it.
pub fn status(status: &ShieldStatus, rivals: &[String], verbose: bool) -> String {
    let Some(shield) = &status.shield else {
        let none = "No shield is up. See what one would do: sordino shield plan --cpus LIST\n";
        return status.unfinished.as_ref().map_or(none, unfinished).to_owned();
    };
    let mut text = headline(shield);
    let since = jiff::Timestamp::from_second(shield.since.cast_signed()).unwrap_or_default();
    let since = since.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string();
    let noun = if status.members == 1 { "thread runs" } else { "threads run" };
    let _ = writeln!(text, "Up since {since}; {} {noun} in it.", status.members);
    let drift: Vec<String> = status.drift.iter().map(drifted).collect();
    section(&mut text, "No longer as the shield set it", &drift, shown(verbose).max(10));
    if drift.is_empty() {
        text += "Everything that it set holds.\n";
    } else {
        text += "It is new, or was changed by something else (systemd, irqbalance, tuned, a user?). To set it again:\n";
        let request = &shield.request;
        let _ = writeln!(
            text,
            "  sordino shield down; sordino shield up --cpus {} --level {}",
            request.cpus, request.level
        );
    }
    section(&mut text, "Services that may have changed it", rivals, usize::MAX);
    section(&mut text, "Stays on the shielded CPUs", &status.stays, shown(verbose));
    text
}

fn drifted(drift: &Drift) -> String {
    let (knob, Change { what, from, to, .. }) = (drift.knob, &drift.change);
    format!("{knob}: {what}: {from} instead of {}", to.as_deref().unwrap_or_default())
}

/// Returns the message that an unfinished shield was undone, with the result.
pub fn undone(lowered: &Lowered) -> String {
    format!(
        "An earlier 'up' or 'down' did not finish. Its shield is undone now:\n{}\n",
        self::lowered(lowered)
    )
}

fn unfinished(unfinished: &Unfinished) -> &'static str {
    match unfinished {
        Unfinished::Left => {
            "An earlier 'up' or 'down' did not finish, and the machine is still changed.\n\
             Undo it: sudo sordino shield down\n"
        }
        Unfinished::Busy => "Another sordino is raising or lowering a shield now.\n",
    }
}

/// Returns the result of lowering a shield as text.
pub fn lowered(lowered: &Lowered) -> String {
    let mut text = format!("Everything is given back: {}.\n", count(lowered.steps, "step"));
    if !lowered.failures.is_empty() || !lowered.remaining.is_empty() {
        let (failed, kept) = (lowered.failures.len(), lowered.remaining.len());
        text = format!(
            "NOT everything could be given back: of {}, {failed} failed and {kept} did not hold.\n",
            count(lowered.steps, "step")
        );
    }
    let failures: Vec<String> = lowered.failures.iter().map(ToString::to_string).collect();
    section(&mut text, "Failed, and kept to be tried again by 'sordino shield down'", &failures, usize::MAX);
    let is = |remaining: &crate::Remaining| {
        format!("{}: {} instead of {}", remaining.what, remaining.now, remaining.before)
    };
    let remaining: Vec<String> = lowered.remaining.iter().map(is).collect();
    section(&mut text, "Given back, and yet not as before", &remaining, usize::MAX);
    let landed: Vec<String> = lowered.landed.iter().map(is).collect();
    section(&mut text, "Where the kernel delivers interrupts until it moves them again", &landed, usize::MAX);
    if lowered.members > 0 {
        let (noun, verb) = if lowered.members == 1 { ("thread", "goes") } else { ("threads", "go") };
        let _ = writeln!(
            text,
            "{} {noun} that ran on the shielded CPUs {verb} on, on all CPUs.",
            lowered.members
        );
    }
    text
}
