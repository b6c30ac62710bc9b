//! Finders that discard the state that an unrecorded switch contradicts.

use crate::finder::SpanFinder;
use crate::span::FoundSpan;
use sordino_event::{Loss, Tid, Time};
use sordino_timeline::{Evidence, Kernel, Moment, RunningThreads, UnrecordedSwitch};
use std::fmt::Debug;

/// A finder that follows threads by their recorded switches.
pub(crate) trait Follows: Debug {
    /// Processes an event, and adds the spans that end with it.
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<FoundSpan>);

    /// Processes the start of a thread on an idle CPU, which was not recorded. It ran since `since` at the earliest:
    /// nothing else happened there.
    fn starts(&mut self, tid: Tid, since: Time, moment: &Moment<'_>, found: &mut Vec<FoundSpan>);

    /// Forgets the state of a thread that got or left a CPU at an unknown time, as far as it is not known any more.
    fn doubts(&mut self, tid: Tid, found: &mut Vec<FoundSpan>);

    /// Processes a loss, and adds the spans that it breaks.
    fn lose(&mut self, loss: &Loss, found: &mut Vec<FoundSpan>);

    /// Ends the trace, and returns the number of spans that its end cuts.
    fn cut(&mut self, end: Time) -> u64;
}

/// A finder with the thread that has each CPU by all evidence.
#[derive(Debug, Default)]
pub(crate) struct EvidenceFinder<F> {
    running: RunningThreads,
    finder: F,
}

impl<F> EvidenceFinder<F> {
    pub(crate) fn new(finder: F) -> Self {
        Self { running: RunningThreads::default(), finder }
    }
}

impl<F: Follows> SpanFinder for EvidenceFinder<F> {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let now = moment.event.time;
        let switch = Evidence::of(moment).and_then(|evidence| self.running.observe(evidence, now));
        if let Some(UnrecordedSwitch { tid, believed, since, left, .. }) = switch {
            if believed == Some(Tid(0)) && left.is_empty() {
                self.finder.starts(tid, since, moment, found);
            } else {
                let doubted = believed.into_iter().chain([tid]).filter(|tid| *tid != Tid(0));
                doubted.for_each(|tid| self.finder.doubts(tid, found));
            }
        }
        if let (Some(Kernel::Switch { next, .. }), Some(cpu)) = (moment.kernel, moment.cpu) {
            self.running.switch(cpu, next.tid, now);
        }
        self.finder.take(moment, found);
    }

    fn lose(&mut self, loss: &Loss, found: &mut Vec<FoundSpan>) {
        self.running.lose(loss);
        self.finder.lose(loss, found);
    }

    fn finish(&mut self, end: Time, _found: &mut Vec<FoundSpan>) -> u64 {
        self.finder.cut(end)
    }
}
