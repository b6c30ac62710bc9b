//! The stretches for which threads execute fibers: runs, cut where a thread changes its fiber.

use crate::finder::SpanFinder;
use crate::gap::Gap;
use crate::schedule::{Schedule, Wanted};
use crate::span::{Found, Span};
use sordino_event::{Loss, Pid, Time};
use sordino_timeline::{FiberEvent, Moment};
use std::collections::HashMap;

/// The runs of threads so far, and where the records of their programs are missing.
#[derive(Debug)]
pub(crate) struct FiberRuns {
    schedule: Schedule,
    gaps: HashMap<Pid, Gap>,
}

impl FiberRuns {
    pub(crate) fn new() -> Self {
        Self { schedule: Schedule::new(Wanted::Runs), gaps: HashMap::new() }
    }

    /// Ends the stretch of the fiber that leaves. If records are missing in it, others may have had the thread.
    fn change(&mut self, moment: &Moment<'_>, found: &mut Vec<Found>) {
        let (Some(tid), Some(pid), Some(cpu)) = (moment.tid, moment.pid(), moment.cpu) else { return };
        let gap = self.gaps.get(&pid).copied().unwrap_or_default();
        let stretch = self.schedule.cut(tid, cpu, moment.event.time);
        found.extend(stretch.map(|stretch| match stretch {
            Found::Whole(span) | Found::Cut(span) if gap.touches(span.from) => Found::Broken,
            Found::Whole(span) => Found::Whole(Span { fiber: moment.fiber_id(), ..span }),
            Found::Cut(span) => Found::Cut(Span { fiber: moment.fiber_id(), ..span }),
            Found::Broken => Found::Broken,
        }));
    }
}

impl SpanFinder for FiberRuns {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<Found>) {
        self.schedule.take(moment, found);
        if let Some(FiberEvent::Switch { .. }) = moment.about_fibers() {
            self.change(moment, found);
        }
    }

    fn lose(&mut self, loss: &Loss, found: &mut Vec<Found>) {
        loss.pid.into_iter().for_each(|pid| self.gaps.entry(pid).or_default().add(loss));
        self.schedule.lose(loss, found);
    }

    fn finish(&mut self, end: Time, found: &mut Vec<Found>) -> u64 {
        self.schedule.finish(end, found)
    }
}
