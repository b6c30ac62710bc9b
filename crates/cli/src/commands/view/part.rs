//! The part of a recording that a page gets, as its time to load grows with the number of events.

use crate::Failure;
use crate::commands::export::{ExportFormat, write_to};
use crate::recording::Recording;
use sordino_event::text::count;
use sordino_event::{Nanos, Time};
use sordino_handover::Shown;
use sordino_timeline::Item;
use std::fs::File;
use std::io::{Seek, SeekFrom};

/// Number of events that Perfetto's page loads within a few seconds.
const MOST_EVENTS: u64 = 300_000;

/// Writes the trace to a file. If it has more events than the page loads within seconds, only the part around the time
/// `shown` is written, and a message is printed. Without such a time, the whole trace is written.
pub(super) fn write(
    trace: &mut File,
    recording: &mut Recording,
    shown: Option<&Shown>,
) -> Result<(), Failure> {
    let Some(shown) = shown else {
        let events = attempt(trace, recording, u64::MAX)?.0;
        if events > MOST_EVENTS {
            message!(
                "sordino: the page needs long for {}; a part of them: --peak N, --from, --until, --around",
                count(events, "event")
            );
        }
        return Ok(());
    };
    let (first, last) = recording.span();
    recording.narrow(first, last);
    let whole = recording.within();
    while let (_, Some(reached)) = attempt(trace, recording, MOST_EVENTS)? {
        let part = recording.within();
        let Some((from, to)) = narrower(part, reached, shown) else {
            attempt(trace, recording, u64::MAX)?;
            break;
        };
        recording.narrow(from, to);
    }
    let part = recording.within();
    if part != whole {
        message!(
            "sordino: the page gets {} of {} around the interval, which it loads within seconds; another part: --from, --until, --around",
            part.1 - part.0,
            whole.1 - whole.0
        );
    }
    Ok(())
}

/// Writes at most so many events. Returns the number of events, and the time of the first one beyond.
fn attempt(trace: &mut File, recording: &mut Recording, most: u64) -> Result<(u64, Option<Time>), Failure> {
    trace.set_len(0)?;
    trace.seek(SeekFrom::Start(0))?;
    let (mut events, mut beyond) = (0, None);
    write_to(trace, ExportFormat::Perfetto, recording, |item| {
        let Item::Event(moment) = item else { return false };
        events += 1;
        beyond = (events > most).then_some(moment.event.time);
        beyond.is_some()
    })?;
    Ok((events, beyond))
}

/// Returns a smaller part within `part`, around the shown time: at most half as long, and short enough for the events
/// up to `reached` if events were spread evenly. `None` if `part` is little longer than the shown time.
fn narrower((from, to): (Time, Time), reached: Time, shown: &Shown) -> Option<(Time, Time)> {
    let whole = (to - from).0;
    let length = (reached - from).0.min(whole / 2);
    let visible = shown.end.saturating_sub(shown.begin);
    if length <= visible {
        let (begin, end) = (from.max(Time(shown.begin)), to.min(Time(shown.end)));
        return ((from, to) != (begin, end)).then_some((begin, end));
    }
    let margin = Nanos((length - visible) / 2);
    Some((from.max(Time(shown.begin) - margin), to.min(Time(shown.end) + margin)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: Shown = Shown { begin: 5_000, end: 5_100 };

    #[test]
    fn a_part_lies_around_what_is_shown_and_has_the_length_that_was_reached() {
        assert_eq!(narrower((Time(0), Time(10_000)), Time(1_000), &SHOWN), Some((Time(4_550), Time(5_550))));
        assert_eq!(
            narrower((Time(4_900), Time(10_000)), Time(5_900), &SHOWN),
            Some((Time(4_900), Time(5_550)))
        );
    }

    #[test]
    fn a_part_ends_as_what_is_shown() {
        let mut part = (Time(0), Time(1 << 40));
        let mut steps = 0;
        while let Some(next) = narrower(part, part.1, &SHOWN) {
            assert!(next.0 >= part.0 && next.1 <= part.1 && next != part);
            (part, steps) = (next, steps + 1);
        }
        assert!(part == (Time(5_000), Time(5_100)) && steps < 64, "{part:?} {steps}");
    }
}
