//! The effect of each record on the fibers.

use super::{Contradiction, Fibers, Inconsistency, KnownFiber};
use crate::fiber::{FiberEvent, FiberId, FiberState, FiberSwitchReason, Mounted, PresentState, ReadySince};
use sordino_event::{Pid, Tid, Time};
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// The origin of a record: its thread and its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordOrigin {
    pub(crate) pid: Pid,
    pub(crate) tid: Tid,
    pub(crate) time: Time,
}

impl RecordOrigin {
    fn fiber(self, number: u64) -> FiberId {
        FiberId { pid: self.pid, number }
    }

    fn contradiction(self, what: Inconsistency) -> Contradiction {
        Contradiction { time: self.time, pid: Some(self.pid), tid: Some(self.tid), what }
    }
}

impl Fibers {
    /// Applies a record. Returns the code that recorded it, which a switch leaves.
    pub(crate) fn apply(&mut self, at: RecordOrigin, event: &FiberEvent<'_>) -> Mounted {
        self.programs.insert(at.pid);
        let mounted = self.mounted(at.pid, at.tid);
        let mut found = Vec::new();
        let by = match *event {
            FiberEvent::Enter => {
                if let Mounted::Fiber(fiber) = mounted {
                    found.push(Inconsistency::EnteredInside { fiber: fiber.number });
                    self.doubt(fiber, at);
                }
                self.mount(at, Mounted::Scheduler);
                Mounted::Scheduler
            }
            FiberEvent::Leave => {
                if let Mounted::Fiber(fiber) = mounted {
                    found.push(Inconsistency::LeftInside { fiber: fiber.number });
                    self.doubt(fiber, at);
                }
                // In a process with losses, a thread without an entry is unknown.
                if self.is_whole(at.pid) {
                    self.threads.remove(&(at.pid, at.tid));
                } else {
                    self.mount(at, Mounted::Outside);
                }
                mounted
            }
            FiberEvent::New { fiber, name } => {
                self.make(at, at.fiber(fiber), name, &mut found);
                mounted
            }
            FiberEvent::Present { fiber, name, state } => {
                self.show(at, at.fiber(fiber), name, state, &mut found);
                mounted
            }
            FiberEvent::Switch { from, to, why, on } => {
                self.leave(at, mounted, from, (why, on), &mut found);
                self.come(at, to, &mut found);
                from.map_or(Mounted::Scheduler, |number| Mounted::Fiber(at.fiber(number)))
            }
            FiberEvent::End { fiber } => {
                self.end(at.fiber(fiber));
                mounted
            }
            FiberEvent::Wake { fiber, by } => {
                self.wake(at, at.fiber(fiber), by, &mut found);
                mounted
            }
            FiberEvent::Rename { fiber, name } => {
                let named = self.evidence(at.pid, at.time);
                let record = self.known(at, at.fiber(fiber), &mut found);
                (record.name, record.named) = (text(name), named);
                mounted
            }
            FiberEvent::Malformed => {
                found.push(Inconsistency::Malformed);
                mounted
            }
        };
        found.into_iter().for_each(|what| self.count(at.contradiction(what)));
        by
    }

    /// Applies the end of a thread.
    pub(crate) fn end_thread(&mut self, at: RecordOrigin) {
        let mounted = self.mounted(at.pid, at.tid);
        if let Mounted::Fiber(fiber) = mounted {
            self.doubt(fiber, at);
        }
        self.threads.remove(&(at.pid, at.tid));
        if let Mounted::Fiber(fiber) = mounted {
            self.count(at.contradiction(Inconsistency::ThreadEnded { fiber: fiber.number }));
        }
    }

    pub(super) fn count(&mut self, contradiction: Contradiction) {
        self.latest.get_or_insert(contradiction);
        self.contradictions.entry(contradiction.what.kind()).or_insert((0, contradiction)).0 += 1;
    }

    fn make(&mut self, at: RecordOrigin, fiber: FiberId, name: &[u8], found: &mut Vec<Inconsistency>) {
        if let Some(record) = self.fibers.get(&fiber)
            && self.holds(fiber.pid, record.seen)
        {
            found.push(Inconsistency::Reused { fiber: fiber.number });
            self.doubt(fiber, at);
        }
        let seen = self.evidence(at.pid, at.time);
        let state = FiberState::Ready { since: ReadySince::Made };
        let record = KnownFiber {
            name: text(name),
            named: seen,
            state,
            seen,
            thread: at.tid,
            woken: None,
            has_ended: false,
        };
        self.fibers.insert(fiber, record);
        self.prune();
    }

    /// Applies the state of a fiber that may be older than the records.
    fn show(
        &mut self,
        at: RecordOrigin,
        fiber: FiberId,
        name: &[u8],
        state: PresentState,
        found: &mut Vec<Inconsistency>,
    ) {
        if !self.fibers.contains_key(&fiber) {
            self.prune();
        }
        let seen = self.evidence(at.pid, at.time);
        let shown = match state {
            PresentState::Unknown => FiberState::Unknown,
            PresentState::Mounted => FiberState::Mounted { tid: at.tid },
            PresentState::Ready => FiberState::Unmounted,
            PresentState::Blocked => FiberState::Blocked { on: None },
        };
        if state == PresentState::Mounted {
            self.leave_others(at, fiber, found);
            if let Mounted::Fiber(believed) = self.mounted(at.pid, at.tid)
                && believed != fiber
            {
                found.push(Inconsistency::OtherFiber { mounted: believed.number, leaves: fiber.number });
                self.doubt(believed, at);
            }
            self.mount(at, Mounted::Fiber(fiber));
        } else if let FiberState::Mounted { tid } = *self.state(fiber) {
            if state != PresentState::Unknown {
                // The switch from it is missing.
                found.push(Inconsistency::OtherFiber { mounted: fiber.number, leaves: 0 });
            }
            self.mount(RecordOrigin { tid, ..at }, Mounted::Unknown);
        }
        let known = self.fibers.remove(&fiber);
        let (old_name, old_named) = known.map_or((None, seen), |known| (known.name, known.named));
        let name = text(name);
        let named = if name.is_some() { seen } else { old_named };
        let name = name.or(old_name);
        let record =
            KnownFiber { name, named, state: shown, seen, thread: at.tid, woken: None, has_ended: false };
        self.fibers.insert(fiber, record);
    }

    /// Takes the fiber from the thread that leaves by a switch.
    fn leave(
        &mut self,
        at: RecordOrigin,
        mounted: Mounted,
        from: Option<u64>,
        (why, on): (FiberSwitchReason, &[u8]),
        found: &mut Vec<Inconsistency>,
    ) {
        let leaves = from.map(|number| at.fiber(number));
        if let Mounted::Fiber(believed) = mounted
            && Some(believed) != leaves
        {
            let leaves = from.unwrap_or(0);
            found.push(Inconsistency::OtherFiber { mounted: believed.number, leaves });
            self.doubt(believed, at);
        }
        let Some(fiber) = leaves else { return };
        let is_elsewhere = match mounted {
            Mounted::Scheduler => true,
            // It may have got the fiber before the recording began, unless records show the fiber without a thread.
            Mounted::Outside => {
                !matches!(self.state(fiber), FiberState::Unknown | FiberState::Mounted { .. })
            }
            Mounted::Fiber(_) | Mounted::Unknown => false,
        };
        if is_elsewhere {
            found.push(Inconsistency::OtherFiber { mounted: 0, leaves: fiber.number });
        }
        self.leave_others(at, fiber, found);
        // Only then no wake-up and no end of the fiber can be missing.
        let is_certain = *self.state(fiber) == FiberState::Mounted { tid: at.tid };
        let seen = self.evidence(at.pid, at.time);
        let hole = self.holes.get(&at.pid).copied();
        let record = self.known(at, fiber, found);
        if why == FiberSwitchReason::Ended || is_certain && record.has_ended {
            self.remove(fiber);
            return;
        }
        let woken = record.woken.take().filter(|(_, seen)| seen.holds(hole));
        let woken = woken.map(|(by, _)| FiberState::Ready { since: ReadySince::Woken { by } });
        record.state = match (why, woken) {
            (FiberSwitchReason::Yielded, _) => FiberState::Ready { since: ReadySince::Yielded },
            (FiberSwitchReason::SliceOver, _) => FiberState::Ready { since: ReadySince::SliceOver },
            (_, Some(ready)) => ready,
            (FiberSwitchReason::Blocked, None) if is_certain => FiberState::Blocked { on: text(on) },
            (FiberSwitchReason::Blocked, None) => FiberState::Unmounted,
            (_, None) if is_certain => FiberState::Unmounted,
            (_, None) => FiberState::Unknown,
        };
        (record.seen, record.thread) = (seen, at.tid);
    }

    /// Puts the fiber on the thread that comes by a switch.
    fn come(&mut self, at: RecordOrigin, to: Option<u64>, found: &mut Vec<Inconsistency>) {
        let Some(number) = to else {
            self.mount(at, Mounted::Scheduler);
            return;
        };
        let fiber = at.fiber(number);
        self.leave_others(at, fiber, found);
        let seen = self.evidence(at.pid, at.time);
        let record = self.known(at, fiber, found);
        (record.state, record.seen) = (FiberState::Mounted { tid: at.tid }, seen);
        (record.thread, record.woken, record.has_ended) = (at.tid, None, false);
        self.mount(at, Mounted::Fiber(fiber));
    }

    /// Makes another thread's fiber unknown, if it is this one.
    fn leave_others(&mut self, at: RecordOrigin, fiber: FiberId, found: &mut Vec<Inconsistency>) {
        let FiberState::Mounted { tid: other } = *self.state(fiber) else { return };
        if other != at.tid {
            found.push(Inconsistency::OnTwoThreads { fiber: fiber.number, other });
            self.mount(RecordOrigin { tid: other, ..at }, Mounted::Unknown);
        }
    }

    fn end(&mut self, fiber: FiberId) {
        let Some(record) = self.fibers.get(&fiber) else { return };
        let is_mounted = matches!(record.state, FiberState::Mounted { .. });
        if is_mounted && self.holds(fiber.pid, record.seen) {
            self.fibers.get_mut(&fiber).into_iter().for_each(|record| record.has_ended = true);
        } else {
            self.remove(fiber);
        }
    }

    fn wake(&mut self, at: RecordOrigin, fiber: FiberId, by: Option<u64>, found: &mut Vec<Inconsistency>) {
        let seen = self.evidence(at.pid, at.time);
        self.known(at, fiber, found);
        let ready = FiberState::Ready { since: ReadySince::Woken { by } };
        let is_off = match self.state(fiber) {
            FiberState::Blocked { .. } | FiberState::Unmounted => true,
            FiberState::Ready { since } => matches!(since, ReadySince::Woken { .. }),
            FiberState::Mounted { .. } | FiberState::Unknown => false,
        };
        let is_ready = matches!(self.state(fiber), FiberState::Ready { .. });
        let Some(record) = self.fibers.get_mut(&fiber) else { return };
        if is_off {
            (record.state, record.seen) = (ready, seen);
        } else if !is_ready {
            record.woken = Some((by, seen));
        }
    }

    /// Returns the entry of a fiber, and adds one if there is none.
    fn known(&mut self, at: RecordOrigin, fiber: FiberId, found: &mut Vec<Inconsistency>) -> &mut KnownFiber {
        if !self.fibers.contains_key(&fiber) {
            if self.is_whole(at.pid) {
                found.push(Inconsistency::Unmade { fiber: fiber.number });
            }
            self.prune();
        }
        let seen = self.evidence(at.pid, at.time);
        match self.fibers.entry(fiber) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unmade) => unmade.insert(KnownFiber {
                name: None,
                named: seen,
                state: FiberState::Unknown,
                seen,
                thread: at.tid,
                woken: None,
                has_ended: false,
            }),
        }
    }

    /// Makes the state of a fiber unknown, and the thread that it was on.
    fn doubt(&mut self, fiber: FiberId, at: RecordOrigin) {
        if let FiberState::Mounted { tid } = *self.state(fiber) {
            self.mount(RecordOrigin { tid, ..at }, Mounted::Unknown);
        }
        if let Some(record) = self.fibers.get_mut(&fiber) {
            (record.state, record.woken) = (FiberState::Unknown, None);
        }
    }

    fn mount(&mut self, at: RecordOrigin, mounted: Mounted) {
        let seen = self.evidence(at.pid, at.time);
        self.threads.insert((at.pid, at.tid), (mounted, seen));
    }
}

fn text(bytes: &[u8]) -> Option<Arc<str>> {
    (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes).into())
}
