//! Measures by the names that users give them.

use crate::{Measure, PathOf, Periods};
use sordino_intervals::{IntervalRule, Key, Point};

/// The names of the measures, each with its description.
pub const MEASURES: [(&str, &str); 20] = [
    ("count", "Events, and their rate"),
    ("rate", "Same as count"),
    ("active", "CPU time of threads, and its share of the recording's time"),
    ("slices", "Time slices, from when a thread gets a CPU until it leaves it"),
    ("latency", "Waits from a wake-up until the thread has a CPU"),
    ("preemption", "Waits from a preemption until the thread has a CPU again"),
    ("sleep", "Sleeps until a wake-up"),
    ("duration", "Intervals from --begin to --end"),
    ("period", "Intervals from each --event to the next one in the same thread"),
    ("jitter", "Deviations from the period of --event, missing events, and the most late ones in a row"),
    ("jobs", "Jobs of threads, from --event, which may be a wake-up, until the thread sleeps"),
    ("syscalls", "System calls, from entry to exit"),
    ("calls", "Calls of functions, from entry to exit, and their time without the calls in them"),
    ("irqs", "Handlers of interrupts, from entry to exit"),
    ("softirqs", "Handlers of softirqs, from entry to exit"),
    ("locks", "Sleeps in futex calls (locks), by the thread that ended each"),
    ("reactivity", "Reactions to interrupts, until the first event of the thread that handles each"),
    (
        "path",
        "Links of critical paths: the work and the waits that a thread's time depended on, its own and that of the threads that woke it; of intervals with --event, or --begin and --end",
    ),
    (
        "fiber-path",
        "Links of critical paths of fibers (user-level threads), through the fibers and threads that woke them",
    ),
    (
        "fiber-waits",
        "Waits of fibers (user-level threads), from when they are ready until a thread executes them",
    ),
];

/// The names of the events that measures need.
#[derive(Clone, Copy, Debug, Default)]
pub struct MeasureEvents<'a> {
    /// The only event of a measure.
    pub event: Option<&'a str>,
    /// The events that begin and end an interval.
    pub ends: Option<[&'a str; 2]>,
    /// The field by which they are paired; `None` pairs them by thread.
    pub by: Option<&'a str>,
}

/// A reason why a name selects no measure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError {
    /// The measure is about events that were not named.
    #[error("the measure needs {0}")]
    Needs(&'static str),
    /// There is no measure of this name.
    #[error("'{0}': no such measure")]
    Name(String),
}

impl Measure {
    /// Returns the measure of this name. A measure of regularity gets its usual periods from `periods`.
    ///
    /// # Errors
    /// There is no such measure, an event is not named, or `periods` fails.
    pub fn named<E: From<MeasureError>>(
        name: &str,
        events: MeasureEvents<'_>,
        periods: impl FnOnce(&str) -> Result<Periods, E>,
    ) -> Result<Self, E> {
        let event = || events.event.ok_or(MeasureError::Needs("--event"));
        let rule = |ends: [&str; 2]| {
            let key = || events.by.map_or(Key::Thread, |field| Key::Field(field.to_owned()));
            let [begin, end] = ends.map(|event| Point { event: event.to_owned(), key: key() });
            IntervalRule { begin, end }
        };
        Ok(match name {
            "count" | "rate" => Self::Count,
            "active" => Self::Active,
            "slices" => Self::Slices,
            "latency" => Self::Latency,
            "preemption" => Self::Preemption,
            "sleep" => Self::Sleep,
            "syscalls" => Self::Syscalls,
            "calls" => Self::Calls,
            "irqs" => Self::Irqs,
            "softirqs" => Self::Softirqs,
            "locks" => Self::Locks,
            "reactivity" => Self::Reactivity,
            "path" => Self::Path(match (events.event, events.ends) {
                (Some(event), _) => PathOf::Intervals(IntervalRule::between(event)),
                (None, Some(ends)) => PathOf::Intervals(rule(ends)),
                (None, None) => PathOf::Threads,
            }),
            "fiber-path" => Self::Path(PathOf::Fibers),
            "fiber-waits" => Self::FiberWaits,
            "period" => Self::Duration(IntervalRule::between(event()?)),
            "jobs" => Self::Jobs(event()?.to_owned()),
            "jitter" => Self::Jitter(event()?.to_owned(), periods(event()?)?),
            "duration" => Self::Duration(rule(events.ends.ok_or(MeasureError::Needs("--begin and --end"))?)),
            _ => return Err(MeasureError::Name(name.to_owned()).into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_a_measure_that_is_called_like_it() {
        let events = MeasureEvents { event: Some("a"), ends: Some(["a", "b"]), by: None };
        for (name, _) in MEASURES {
            let periods = |_: &str| Ok::<_, MeasureError>(Periods::default());
            let measure = Measure::named(name, events, periods).unwrap();
            assert_eq!(measure.name(), if name == "rate" { "count" } else { name });
        }
    }

    #[test]
    fn a_measure_without_its_events_says_what_it_needs() {
        let refused = |name| Measure::named(name, MeasureEvents::default(), |_| Ok(Periods::default()));
        assert_eq!(refused("jitter"), Err(MeasureError::Needs("--event")));
        assert_eq!(refused("duration"), Err(MeasureError::Needs("--begin and --end")));
        assert_eq!(refused("jiter"), Err(MeasureError::Name("jiter".to_owned())));
    }
}
