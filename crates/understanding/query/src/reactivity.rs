//! Reactions: from an event of the kernel to the first event of the thread or the fiber that handles it.

use crate::cpu_handlers::{CpuHandlers, OriginEvent};
use crate::evidence_finder::Follows;
use crate::record_gap::RecordGap;
use crate::span::{FoundSpan, Span};
use foldhash::HashMap;
use sordino_event::{Loss, Nanos, Tid, Time};
use sordino_timeline::{Kernel, Moment, Mounted, ThreadState};

/// The names of the parts of a reaction.
pub(crate) const PARTS: [&str; 5] =
    ["interrupt", "softirq", "waits for a CPU", "to its first event", "fiber scheduler"];

/// The reactions that have begun.
#[derive(Debug, Default)]
pub(crate) struct Reactions {
    handlers: CpuHandlers,
    /// The reactions of the threads that were woken; `None` for a thread that no interrupt woke.
    open: HashMap<Tid, Option<Reaction>>,
    gap: RecordGap,
}

/// The reaction of a thread.
#[derive(Clone, Debug)]
struct Reaction {
    origin: OriginEvent,
    /// The index of the present part.
    part: usize,
    since: Time,
    parts: [Nanos; 5],
}

impl Reaction {
    fn enter(&mut self, part: usize, now: Time) {
        self.parts[self.part] += now - self.since;
        (self.part, self.since) = (part, now);
    }
}

impl Reactions {
    /// Begins the reaction of a thread that is woken, if an interrupt wakes it.
    fn wake(&mut self, tid: Tid, moment: &Moment<'_>) {
        // The second record of a wake-up is of another CPU.
        if !matches!(moment.system.thread_state(tid), ThreadState::Woken { .. })
            || self.open.contains_key(&tid)
        {
            return;
        }
        let now = moment.event.time;
        let context = moment.cpu.and_then(|cpu| self.handlers.on(cpu));
        let reaction = context.map(|context| {
            let mut reaction = Reaction {
                origin: context.origin.clone(),
                part: 0,
                since: context.origin.at,
                parts: [Nanos::ZERO; 5],
            };
            if context.is_softirq {
                reaction.enter(1, context.entered);
            }
            reaction.enter(2, now);
            reaction
        });
        self.open.insert(tid, reaction);
    }

    /// Processes an event of a thread that has its CPU.
    fn act(&mut self, tid: Tid, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let now = moment.event.time;
        let Some(Some(reaction)) = self.open.get_mut(&tid) else { return };
        if reaction.part < 3 {
            return;
        }
        let mounted = moment.system.pid(tid).map(|pid| moment.system.fibers().mounted(pid, tid));
        let leaves = matches!(moment.kernel, Some(Kernel::Switch { .. }));
        if mounted == Some(Mounted::Scheduler) && !leaves {
            reaction.enter(4, now);
            return;
        }
        let Some(Some(mut reaction)) = self.open.remove(&tid) else { return };
        reaction.enter(reaction.part, now);
        if self.gap.touches(reaction.origin.at) {
            found.push(FoundSpan::Broken);
            return;
        }
        found.push(FoundSpan::Whole(Span {
            tid: Some(tid),
            fiber: mounted.and_then(Mounted::fiber),
            cpu: moment.cpu,
            name: Some(reaction.origin.name),
            parts: reaction.parts.to_vec(),
            ..Span::between(reaction.origin.at, now)
        }));
    }
}

impl Follows for Reactions {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let now = moment.event.time;
        let is_interrupted = moment.cpu.is_some_and(|cpu| self.handlers.on(cpu).is_some());
        match moment.kernel {
            Some(Kernel::Waking { tid, .. } | Kernel::Woken { tid, .. }) => self.wake(tid, moment),
            Some(Kernel::Gone { tid }) => _ = self.open.remove(&tid),
            _ => {}
        }
        let is_handlers = matches!(moment.kernel, Some(Kernel::Enter(_) | Kernel::Exit(_)));
        if let Some(tid) = moment.tid.filter(|tid| *tid != Tid(0) && !is_interrupted && !is_handlers) {
            self.act(tid, moment, found);
        }
        if let Some(Kernel::Switch { next, .. }) = moment.kernel {
            match self.open.get_mut(&next.tid) {
                Some(Some(reaction)) if reaction.part == 2 => reaction.enter(3, now),
                Some(None) => _ = self.open.remove(&next.tid),
                _ => {}
            }
        }
        self.handlers.take(moment);
    }

    fn lose(&mut self, loss: &Loss, found: &mut Vec<FoundSpan>) {
        self.handlers.lose(loss);
        if loss.pid.is_none() {
            self.gap.add(loss);
            found.extend(self.open.drain().filter_map(|(_, reaction)| reaction.map(|_| FoundSpan::Broken)));
        }
    }

    fn starts(&mut self, tid: Tid, since: Time, _: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        match self.open.get_mut(&tid) {
            // It was woken after the last record of its CPU.
            Some(Some(reaction)) if reaction.part == 2 => reaction.enter(3, since.max(reaction.since)),
            Some(_) => self.doubts(tid, found),
            None => {}
        }
    }

    fn doubts(&mut self, tid: Tid, found: &mut Vec<FoundSpan>) {
        found.extend(self.open.remove(&tid).flatten().map(|_| FoundSpan::Broken));
    }

    fn cut(&mut self, _: Time) -> u64 {
        self.open.values().flatten().count() as u64
    }
}
