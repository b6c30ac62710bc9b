//! The stretches for which threads execute fibers: runs, cut where a thread changes its fiber.

use crate::finder::SpanFinder;
use crate::record_gap::RecordGap;
use crate::schedule::{ScheduleTracker, SpanKind};
use crate::span::{FoundSpan, Span};
use sordino_event::{Loss, Pid, Time};
use sordino_timeline::{FiberEvent, Moment};
use std::collections::HashMap;

/// The runs of threads so far, and the gaps in the records of their programs.
#[derive(Debug)]
pub(crate) struct FiberRuns {
    schedule: ScheduleTracker,
    gaps: HashMap<Pid, RecordGap>,
}

impl FiberRuns {
    pub(crate) fn new() -> Self {
        Self { schedule: ScheduleTracker::new(SpanKind::Runs), gaps: HashMap::new() }
    }

    /// Ends the stretch of the fiber that leaves. If records are missing in it, others may have had the thread.
    fn change(&mut self, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let (Some(tid), Some(pid), Some(cpu)) = (moment.tid, moment.pid(), moment.cpu) else { return };
        let gap = self.gaps.get(&pid).copied().unwrap_or_default();
        let stretch = self.schedule.cut(tid, cpu, moment.event.time);
        found.extend(stretch.map(|stretch| match stretch {
            FoundSpan::Whole(span) | FoundSpan::Cut(span) if gap.touches(span.from) => FoundSpan::Broken,
            FoundSpan::Whole(span) => FoundSpan::Whole(Span { fiber: moment.fiber_id(), ..span }),
            FoundSpan::Cut(span) => FoundSpan::Cut(Span { fiber: moment.fiber_id(), ..span }),
            FoundSpan::Broken => FoundSpan::Broken,
        }));
    }
}

impl SpanFinder for FiberRuns {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        self.schedule.take(moment, found);
        if let Some(FiberEvent::Switch { .. }) = moment.about_fibers() {
            self.change(moment, found);
        }
    }

    fn lose(&mut self, loss: &Loss, found: &mut Vec<FoundSpan>) {
        loss.pid.into_iter().for_each(|pid| self.gaps.entry(pid).or_default().add(loss));
        self.schedule.lose(loss, found);
    }

    fn finish(&mut self, end: Time, found: &mut Vec<FoundSpan>) -> u64 {
        self.schedule.finish(end, found)
    }
}
