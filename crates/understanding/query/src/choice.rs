//! The choice of the finder for a measure.

use crate::calls::Calls;
use crate::error::Error;
use crate::evidence_finder::EvidenceFinder;
use crate::fiber_runs::FiberRuns;
use crate::fiber_waits::FiberWaits;
use crate::finder::{OfRule, Points, SpanFinder};
use crate::function_calls::FunctionCalls;
use crate::interrupts::Interrupts;
use crate::jitter::Jitter;
use crate::jobs::Jobs;
use crate::key::Per;
use crate::locks::Locks;
use crate::measure::{Measure, PathOf};
use crate::path::{Paths, PathsOf};
use crate::reactivity::Reactions;
use crate::schedule::{ScheduleTracker, SpanKind};
use sordino_event::{Classes, functions};
use sordino_intervals::{Finder, IntervalRule};
use sordino_timeline::is_added;

/// Returns the finder of a measure's spans, for rows by these keys.
pub(crate) fn finder(
    classes: &Classes,
    measure: &Measure,
    pers: &[Per],
) -> Result<Box<dyn SpanFinder>, Error> {
    let of_rule = |rule: IntervalRule| -> Result<OfRule, Error> {
        Ok(OfRule(Some(Box::new(Finder::new(classes, rule)?))))
    };
    Ok(match measure {
        Measure::Count => {
            Box::new(Points { is_added: classes.iter().map(|(_, class)| is_added(class)).collect() })
        }
        Measure::Active | Measure::Slices if pers.contains(&Per::Fiber) => Box::new(FiberRuns::new()),
        Measure::Active | Measure::Slices => Box::new(ScheduleTracker::new(SpanKind::Runs)),
        Measure::Latency => Box::new(ScheduleTracker::new(SpanKind::Latencies)),
        Measure::Preemption => Box::new(ScheduleTracker::new(SpanKind::Preemptions)),
        Measure::Sleep => Box::new(ScheduleTracker::new(SpanKind::Sleeps)),
        Measure::Syscalls => Box::new(Calls::default()),
        Measure::Calls => {
            let missing = || sordino_intervals::Error::Event { event: functions::ENTRY.to_owned() };
            Box::new(FunctionCalls::new(classes).ok_or_else(missing)?)
        }
        Measure::Irqs => Box::new(Interrupts::new(false)),
        Measure::Softirqs => Box::new(Interrupts::new(true)),
        Measure::Locks => Box::new(EvidenceFinder::new(Locks::default())),
        Measure::Reactivity => Box::new(EvidenceFinder::new(Reactions::default())),
        Measure::Path(of) => {
            let of = match of {
                PathOf::Threads => PathsOf::Threads,
                PathOf::Fibers => {
                    needs_fibers(classes)?;
                    PathsOf::Fibers
                }
                PathOf::Intervals(rule) => PathsOf::Intervals(of_rule(rule.clone())?),
            };
            Box::new(EvidenceFinder::new(Paths::new(of)))
        }
        Measure::FiberWaits => {
            needs_fibers(classes)?;
            Box::new(FiberWaits::default())
        }
        Measure::Jobs(event) => {
            let missing = || sordino_intervals::Error::Event { event: event.clone() };
            Box::new(EvidenceFinder::new(Jobs::new(event, classes).ok_or_else(missing)?))
        }
        Measure::Duration(rule) => Box::new(of_rule(rule.clone())?),
        Measure::Jitter(event, periods) => {
            Box::new(Jitter::new(periods.clone(), of_rule(IntervalRule::between(event))?))
        }
    })
}

/// Fails if the trace has no events about fibers.
fn needs_fibers(classes: &Classes) -> Result<(), Error> {
    let event = "sordino_fiber:switch";
    match classes.iter().any(|(_, class)| class.name == event) {
        true => Ok(()),
        false => Err(sordino_intervals::Error::Event { event: event.to_owned() }.into()),
    }
}
