//! The fibers' part of a painter: follows the programs' events about fibers.

use crate::sheet::Sheet;
use crate::{FiberActivity, FiberWakeUp, LaneState};
use sordino_event::{Pid, Time};
use sordino_timeline::{FiberEvent, FiberId, FiberState, Fibers, Moment};
use std::collections::HashMap;
use std::sync::Arc;

/// The fibers that live, each with its activity since its last change.
#[derive(Debug, Default)]
pub(super) struct FiberPainter {
    fibers: HashMap<FiberId, PaintedFiber>,
}

#[derive(Debug)]
struct PaintedFiber {
    name: Option<Arc<str>>,
    activity: FiberActivity,
    since: Time,
}

impl FiberPainter {
    /// Paints the changes of fibers with this event, if it is about fibers.
    pub(super) fn take(&mut self, moment: &Moment<'_>, now: Time, sheets: &mut [Sheet]) {
        let (Some(event), Some(pid)) = (moment.about_fibers(), moment.event.pid) else { return };
        let of = |number| FiberId { pid, number };
        let named = match event {
            FiberEvent::New { fiber, .. }
            | FiberEvent::Present { fiber, .. }
            | FiberEvent::End { fiber }
            | FiberEvent::Wake { fiber, .. }
            | FiberEvent::Rename { fiber, .. } => [Some(of(fiber)), None],
            FiberEvent::Switch { from, to, .. } => [from.map(of), to.map(of)],
            _ => [None, None],
        };
        let mut changed: Vec<FiberId> = named.into_iter().chain([moment.fiber_id()]).flatten().collect();
        if moment.contradiction().is_some() {
            changed.extend(self.fibers.keys().filter(|fiber| fiber.pid == pid));
        }
        for fiber in changed {
            self.update(fiber, moment.system.fibers(), now, sheets);
        }
        if let FiberEvent::Wake { fiber, by } = event {
            let wake_up = FiberWakeUp { at: now, fiber: of(fiber), by: by.map(of) };
            sheets.iter_mut().filter(|sheet| sheet.has(now)).for_each(|sheet| sheet.wake_fiber(wake_up));
        }
    }

    /// Paints the fibers of a process until `at`; their activities are unknown from then on.
    pub(super) fn lose(&mut self, pid: Pid, at: Time, sheets: &mut [Sheet]) {
        for (id, fiber) in self.fibers.iter_mut().filter(|(id, _)| id.pid == pid) {
            fiber.set(*id, FiberActivity::Unknown, at, sheets);
        }
    }

    /// Paints all fibers until the end of the trace.
    pub(super) fn finish(&self, now: Time, sheets: &mut [Sheet]) {
        for (id, fiber) in &self.fibers {
            fiber.paint(*id, now, sheets);
        }
    }

    fn update(&mut self, id: FiberId, fibers: &Fibers, now: Time, sheets: &mut [Sheet]) {
        let activity = match fibers.state(id) {
            FiberState::Mounted { tid } => FiberActivity::On { tid: *tid, state: LaneState::Unknown },
            FiberState::Ready { .. } => FiberActivity::Ready,
            FiberState::Blocked { on } => FiberActivity::Off { on: on.clone() },
            FiberState::Unmounted => FiberActivity::Off { on: None },
            FiberState::Unknown => FiberActivity::Unknown,
        };
        let new = || PaintedFiber { name: None, activity: FiberActivity::Unknown, since: now };
        let fiber = self.fibers.entry(id).or_insert_with(new);
        if let Some(name) = fibers.name(id) {
            fiber.name = Some(Arc::clone(name));
        }
        fiber.set(id, activity, now, sheets);
        // It has ended, and its number may be used again.
        if fibers.last_thread(id).is_none() {
            self.fibers.remove(&id);
        }
    }
}

impl PaintedFiber {
    /// Paints the time since the last change, and sets the activity from `at` on.
    fn set(&mut self, id: FiberId, activity: FiberActivity, at: Time, sheets: &mut [Sheet]) {
        if activity == self.activity {
            return;
        }
        let at = at.max(self.since);
        self.paint(id, at, sheets);
        (self.since, self.activity) = (at, activity);
    }

    fn paint(&self, id: FiberId, to: Time, sheets: &mut [Sheet]) {
        let name = self.name.as_ref();
        sheets.iter_mut().for_each(|sheet| sheet.fiber(id, name, (self.since, to), &self.activity));
    }
}
