//! The interface of what finds the spans of a measure, the choice of one, and the finders of points and of rules.

use crate::calls::Calls;
use crate::fiber_runs::FiberRuns;
use crate::fiber_waits::FiberWaits;
use crate::followed::Followed;
use crate::function_calls::FunctionCalls;
use crate::interrupts::Interrupts;
use crate::jitter::Jitter;
use crate::jobs::Jobs;
use crate::key::Per;
use crate::locks::Locks;
use crate::measure::{Measure, PathOf};
use crate::path::{Paths, PathsOf};
use crate::query::Error;
use crate::reactivity::Reactions;
use crate::schedule::{Schedule, Wanted};
use crate::span::{Found, Span};
use sordino_analyze::{Finder, FoundInterval, IntervalRule};
use sordino_event::{Classes, Loss, Time, functions};
use sordino_timeline::{Host, Item, Moment, is_statedump};
use std::fmt::Debug;

/// A pass over a trace that finds the spans of a measure.
pub(crate) trait SpanFinder: Debug {
    /// Processes an event, and adds the spans that end with it.
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<Found>);

    /// Processes a loss, and adds the spans that it breaks.
    fn lose(&mut self, loss: &Loss, found: &mut Vec<Found>);

    /// Ends the trace at its last event. Adds the spans that are found there, and returns the number of others that the
    /// end cuts.
    fn finish(&mut self, _end: Time, _found: &mut Vec<Found>) -> u64 {
        0
    }
}

/// The finder of all events, but for those of a state dump.
#[derive(Debug)]
pub(crate) struct Points {
    /// True for classes of a state dump, whose events did not happen while it was recorded; indexed by class.
    pub(crate) is_dump: Vec<bool>,
}

impl SpanFinder for Points {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<Found>) {
        if self.is_dump.get(moment.event.class.index()) != Some(&true) {
            let (at, tid, cpu) = (moment.event.time, moment.tid, moment.cpu);
            found.push(Found::Whole(Span { tid, cpu, ..Span::between(at, at) }));
        }
    }

    fn lose(&mut self, _loss: &Loss, _found: &mut Vec<Found>) {}
}

/// The finder of a rule's intervals.
#[derive(Debug)]
pub(crate) struct OfRule(pub(crate) Option<Box<Finder>>);

impl SpanFinder for OfRule {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<Found>) {
        let Some(finder) = &mut self.0 else { return };
        found.extend(finder.take(&Item::Event(*moment)).map(|found| match found {
            FoundInterval::Whole(interval) => Found::Whole(Span {
                tid: Some(interval.tid),
                cpu: interval.end_cpu,
                fiber: interval.fiber,
                ..Span::between(interval.begin, interval.end)
            }),
            FoundInterval::Broken => Found::Broken,
        }));
    }

    fn lose(&mut self, loss: &Loss, _found: &mut Vec<Found>) {
        self.0.iter_mut().for_each(|finder| _ = finder.take(&Item::Loss(loss, Host::default())));
    }

    fn finish(&mut self, _end: Time, _found: &mut Vec<Found>) -> u64 {
        let unpaired = self.0.take().map(|finder| finder.finish().unpaired).unwrap_or_default();
        unpaired.begins + unpaired.ends
    }
}

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
            Box::new(Points { is_dump: classes.iter().map(|(_, class)| is_statedump(class)).collect() })
        }
        Measure::Active | Measure::Slices if pers.contains(&Per::Fiber) => Box::new(FiberRuns::new()),
        Measure::Active | Measure::Slices => Box::new(Schedule::new(Wanted::Runs)),
        Measure::Latency => Box::new(Schedule::new(Wanted::Latencies)),
        Measure::Preemption => Box::new(Schedule::new(Wanted::Preemptions)),
        Measure::Sleep => Box::new(Schedule::new(Wanted::Sleeps)),
        Measure::Syscalls => Box::new(Calls::default()),
        Measure::Calls => {
            let missing = || sordino_analyze::Error::Event { event: functions::ENTRY.to_owned() };
            Box::new(FunctionCalls::new(classes).ok_or_else(missing)?)
        }
        Measure::Irqs => Box::new(Interrupts::new(false)),
        Measure::Softirqs => Box::new(Interrupts::new(true)),
        Measure::Locks => Box::new(Followed::new(Locks::default())),
        Measure::Reactivity => Box::new(Followed::new(Reactions::default())),
        Measure::Path(of) => {
            let of = match of {
                PathOf::Threads => PathsOf::Threads,
                PathOf::Fibers => {
                    needs_fibers(classes)?;
                    PathsOf::Fibers
                }
                PathOf::Intervals(rule) => PathsOf::Intervals(of_rule(rule.clone())?),
            };
            Box::new(Followed::new(Paths::new(of)))
        }
        Measure::FiberWaits => {
            needs_fibers(classes)?;
            Box::new(FiberWaits::default())
        }
        Measure::Jobs(event) => {
            let missing = || sordino_analyze::Error::Event { event: event.clone() };
            Box::new(Followed::new(Jobs::new(event, classes).ok_or_else(missing)?))
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
        false => Err(sordino_analyze::Error::Event { event: event.to_owned() }.into()),
    }
}
