//! The gaps of the trace, and their remedies.

use super::groups::{groups, named};
use super::words::lost;
use crate::TimeFormat;
use crate::layout::tied;
use crate::span::span;
use crate::styled_text::{Style, StyledText, shown};
use sordino_analyze::{Findings, Missing};
use sordino_event::LossCause;
use sordino_event::text::count;

/// The maximum number of losses that have a line of their own.
const LOSSES_MAX: usize = 20;

/// Writes the numbers of lost, unpaired, broken and disordered records, and of kinds that were not recorded.
pub(super) fn write(findings: &Findings, time: TimeFormat, page: &mut StyledText) {
    let (some, hidden) = findings.lost.split_at(shown(findings.lost.len(), LOSSES_MAX));
    let mut warnings: Vec<String> = some.iter().map(|loss| lost(loss, time)).collect();
    if !hidden.is_empty() {
        warnings.push(format!("{} more losses", hidden.len()));
    }
    warnings.extend(remedy(findings));
    warnings.extend(broken(findings));
    warnings.extend(unpaired(findings));
    warnings.extend(findings.missing_switches.iter().map(|missing| {
        let switches = count(missing.count, "switch");
        format!(
            "{switches} between threads on cpu{} not recorded by the kernel: who had the CPU is told by its other events",
            missing.cpu
        )
    }));
    warnings.extend(findings.contradictions.iter().map(|found| {
        let of = found.pid.map_or(String::new(), |pid| format!(" of process {pid}"));
        let more = match found.count {
            1 => String::new(),
            count => format!(", the first of {count} such records"),
        };
        format!("fibers{of}: {} (at {}){more}", found.text, time.text(found.at))
    }));
    if findings.disorders > 0 {
        warnings.push(format!("{} out of order within a source", count(findings.disorders, "event")));
    }
    let missing = missing(&findings.missing);
    if warnings.is_empty() && missing.is_none() {
        return;
    }
    page.gap();
    page.prose(Style::Headline, "", "What the trace does not tell");
    for warning in warnings {
        page.prose(Style::Warning, "- ", &warning);
    }
    if let Some(missing) = missing {
        page.prose(Style::Plain, "- ", &missing);
    }
}

/// Returns the options that reduce losses in the next recording.
fn remedy(findings: &Findings) -> Option<String> {
    let options = [
        (LossCause::RingFull, "--num-subbuf"),
        (LossCause::TooLarge, "--subbuf-size"),
        (LossCause::KernelOverrun, "--kernel-buffer"),
    ];
    let lost = |cause| findings.lost.iter().any(|lost| lost.cause == cause);
    let useful: Vec<&str> =
        options.into_iter().filter(|(cause, _)| lost(*cause)).map(|(_, option)| option).collect();
    (!useful.is_empty())
        .then(|| format!("larger buffers lose less: see {} of sordino record", useful.join(" and ")))
}

fn broken(findings: &Findings) -> Option<String> {
    let broken = findings.broken;
    (broken.count > 0).then(|| {
        let pairs = count(broken.count, "pair");
        format!(
            "{pairs} with lost records in between, the longest {}: counted nowhere else, each may be several intervals",
            span(broken.longest)
        )
    })
}

fn unpaired(findings: &Findings) -> Option<String> {
    let unpaired = findings.unpaired;
    let kinds = [
        (unpaired.begins, "begin", "without an end"),
        (unpaired.ends, "end", "without a begin"),
        (unpaired.without_key, "event", "without the thread, CPU or field that pairs it"),
        (unpaired.without_thread, "pair", "whose thread is not known"),
    ];
    let kinds: Vec<String> = kinds
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(times, what, how)| format!("{} {how}", count(times, what)))
        .collect();
    (!kinds.is_empty()).then(|| format!("not paired: {}", kinds.join(", ")))
}

/// The number of kinds of the kernel's events that can be missing.
const MISSING: usize = 10;

/// Returns the kinds of the kernel's events that were not recorded, and the option that records them.
fn missing(missing: &[Missing]) -> Option<String> {
    if missing.is_empty() {
        return None;
    }
    let whats: Vec<_> = missing.iter().map(|missing| named(*missing).0).collect();
    let shows = match missing.contains(&Missing::Switches) {
        true => "unknown",
        false => "own code, unexplained or unknown",
    };
    let next = match missing.len() == MISSING {
        true => format!("Next time: {}", tied("sudo sordino record --kernel rt")),
        false => format!("Next time, add to --kernel: {}", groups(missing)),
    };
    Some(format!("not recorded: {}. What they do shows as {shows}. {next}", whats.join(", ")))
}
