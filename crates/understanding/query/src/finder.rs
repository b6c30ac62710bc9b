//! The interface of the finders, which find the spans of a measure, and the finders of points and of rules.

use crate::span::{FoundSpan, Span};
use sordino_event::{Loss, Time};
use sordino_intervals::{Finder, FoundInterval};
use sordino_timeline::{Host, Item, Moment};
use std::fmt::Debug;

/// A pass over a trace that finds the spans of a measure.
pub(crate) trait SpanFinder: Debug {
    /// Processes an event, and adds the spans that end with it.
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<FoundSpan>);

    /// Processes a loss, and adds the spans that it breaks.
    fn lose(&mut self, loss: &Loss, found: &mut Vec<FoundSpan>);

    /// Ends the trace at its last event. Adds the spans that are found at the end, and returns the number of spans that
    /// the end cuts.
    fn finish(&mut self, _end: Time, _found: &mut Vec<FoundSpan>) -> u64 {
        0
    }
}

/// The finder of all events, but for those that tracers add.
#[derive(Debug)]
pub(crate) struct Points {
    /// True for classes that tracers add, whose events did not happen at their time; indexed by class.
    pub(crate) is_added: Vec<bool>,
}

impl SpanFinder for Points {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        if self.is_added.get(moment.event.class.index()) != Some(&true) {
            let (at, tid, cpu) = (moment.event.time, moment.tid, moment.cpu);
            found.push(FoundSpan::Whole(Span { tid, cpu, ..Span::between(at, at) }));
        }
    }

    fn lose(&mut self, _loss: &Loss, _found: &mut Vec<FoundSpan>) {}
}

/// The finder of a rule's intervals.
#[derive(Debug)]
pub(crate) struct OfRule(pub(crate) Option<Box<Finder>>);

impl SpanFinder for OfRule {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let Some(finder) = &mut self.0 else { return };
        found.extend(finder.find(&Item::Event(*moment)).map(|found| match found {
            FoundInterval::Whole(interval) => FoundSpan::Whole(Span {
                tid: Some(interval.tid),
                cpu: interval.end_cpu,
                fiber: interval.fiber,
                ..Span::between(interval.begin, interval.end)
            }),
            FoundInterval::Broken => FoundSpan::Broken,
        }));
    }

    fn lose(&mut self, loss: &Loss, _found: &mut Vec<FoundSpan>) {
        self.0.iter_mut().for_each(|finder| _ = finder.find(&Item::Loss(loss, Host::default())));
    }

    fn finish(&mut self, _end: Time, _found: &mut Vec<FoundSpan>) -> u64 {
        let unpaired = self.0.take().map(|finder| finder.finish().unpaired).unwrap_or_default();
        unpaired.begins + unpaired.ends
    }
}
