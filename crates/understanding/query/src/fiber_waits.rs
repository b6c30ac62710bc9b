//! Waits of fibers for a thread.

use crate::finder::SpanFinder;
use crate::record_gap::RecordGap;
use crate::span::{FoundSpan, Span};
use sordino_event::{Loss, Pid, Time};
use sordino_timeline::{FiberEvent, FiberId, FiberState, Moment, PresentState};
use std::collections::HashMap;

/// The fibers, each with the state in its last record.
#[derive(Debug, Default)]
pub(crate) struct FiberWaits {
    fibers: HashMap<FiberId, ObservedFiber>,
    gaps: HashMap<Pid, RecordGap>,
}

/// The state of a fiber since a record.
#[derive(Clone, Copy, Debug)]
struct ObservedFiber {
    since: Time,
    /// True if it can continue and has no thread.
    waits: bool,
}

impl FiberWaits {
    /// Returns the gap in the records of the fiber's process.
    fn gap(&self, fiber: FiberId) -> RecordGap {
        self.gaps.get(&fiber.pid).copied().unwrap_or_default()
    }

    /// Returns the state of a fiber, if no record is missing that could have changed it.
    fn known(&self, fiber: FiberId) -> Option<ObservedFiber> {
        self.fibers.get(&fiber).copied().filter(|shown| !self.gap(fiber).touches(shown.since))
    }

    /// Processes the record that a fiber leaves its thread.
    fn leave(&mut self, fiber: FiberId, state: &FiberState, now: Time) -> Option<FoundSpan> {
        let is_known = self.known(fiber).is_some();
        let before = match state {
            FiberState::Ready { .. } => self.fibers.insert(fiber, ObservedFiber { since: now, waits: true }),
            FiberState::Blocked { .. } | FiberState::Unmounted if is_known => {
                self.fibers.insert(fiber, ObservedFiber { since: now, waits: false })
            }
            // A wake-up may be missing, or it has ended.
            _ => self.fibers.remove(&fiber),
        };
        before.filter(|before| before.waits).map(|_| FoundSpan::Broken)
    }

    /// Processes the record that a thread executes a fiber from now on.
    fn come(&mut self, fiber: FiberId, moment: &Moment<'_>) -> Option<FoundSpan> {
        let (now, gap) = (moment.event.time, self.gap(fiber));
        match self.fibers.insert(fiber, ObservedFiber { since: now, waits: false }) {
            Some(ObservedFiber { since, waits: true }) if !gap.touches(since) => {
                let (tid, cpu, fiber) = (moment.tid, moment.cpu, Some(fiber));
                Some(FoundSpan::Whole(Span { tid, cpu, fiber, ..Span::between(since, now) }))
            }
            // Its library does not record what it waited for.
            Some(ObservedFiber { since, waits: false }) if !gap.touches(since) => None,
            _ => Some(FoundSpan::Broken),
        }
    }
}

impl SpanFinder for FiberWaits {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let (Some(about), Some(pid)) = (moment.about_fibers(), moment.pid()) else { return };
        let now = moment.event.time;
        let id = |number| FiberId { pid, number };
        let state = |number| moment.system.fibers().state(id(number));
        match about {
            FiberEvent::New { fiber, .. } => {
                self.fibers.insert(id(fiber), ObservedFiber { since: now, waits: true });
            }
            FiberEvent::Present { fiber, state: PresentState::Blocked, .. } => {
                self.fibers.insert(id(fiber), ObservedFiber { since: now, waits: false });
            }
            FiberEvent::Wake { fiber, .. } => {
                let is_off = self.known(id(fiber)).is_some_and(|shown| !shown.waits);
                // A wake-up of a fiber that runs changes nothing yet.
                if is_off && matches!(state(fiber), FiberState::Ready { .. }) {
                    self.fibers.insert(id(fiber), ObservedFiber { since: now, waits: true });
                }
            }
            FiberEvent::Switch { from, to, .. } => {
                found.extend(from.and_then(|from| self.leave(id(from), state(from), now)));
                found.extend(to.and_then(|to| self.come(id(to), moment)));
            }
            FiberEvent::End { fiber } => _ = self.fibers.remove(&id(fiber)),
            _ => {}
        }
    }

    fn lose(&mut self, loss: &Loss, _found: &mut Vec<FoundSpan>) {
        loss.pid.into_iter().for_each(|pid| self.gaps.entry(pid).or_default().add(loss));
    }

    fn finish(&mut self, _end: Time, _found: &mut Vec<FoundSpan>) -> u64 {
        self.fibers.values().filter(|shown| shown.waits).count() as u64
    }
}
