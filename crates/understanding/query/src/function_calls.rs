//! Calls of functions, from entry to exit. A call stack belongs to the fiber that its thread executes, if it executes one.

use crate::finder::SpanFinder;
use crate::gap::Gap;
use crate::span::{Found, Span};
use foldhash::{HashMap, HashMapExt};
use sordino_event::functions::{CALL_SITE, ENTRY, EXIT, FUNCTION};
use sordino_event::{Class, Classes, Loss, Nanos, Pid, Tid, Time, View};
use sordino_timeline::{FiberEvent, FiberId, Moment, Mounted};

/// The names of the parts of a call.
pub(crate) const PARTS: [&str; 4] = ["own", "in calls", "other fibers", "unknown"];

/// The maximum depth of a call stack. A deeper one has lost its exits.
const DEPTH_MAX: usize = 1 << 16;

/// The calls that have not returned.
#[derive(Debug)]
pub(crate) struct FunctionCalls {
    /// Indexed by class: true for entries, and the indexes of the fields.
    events: Vec<Option<(bool, [usize; 2])>>,
    stacks: HashMap<Owner, CallStack>,
    /// The times until which records of programs are missing.
    gaps: HashMap<Pid, Gap>,
}

/// The owner of a call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Thread(Pid, Tid),
    Fiber(FiberId),
}

impl Owner {
    fn pid(self) -> Pid {
        match self {
            Self::Thread(pid, _) => pid,
            Self::Fiber(fiber) => fiber.pid,
        }
    }
}

/// The functions that were entered and not left, the last one at the end.
#[derive(Debug, Default)]
struct CallStack {
    frames: Vec<Frame>,
    /// The time since which its thread executes something else: another fiber, or a fiber.
    away_since: Option<Time>,
    /// The number of calls that were given up as records were missing: their exits are counted already.
    given_up: usize,
}

/// A function that was entered.
#[derive(Debug)]
struct Frame {
    /// The function and the address behind the call: an exit with the same ones ends it.
    of: [u64; 2],
    from: Time,
    in_calls: Nanos,
    /// The time of other fibers while it was the innermost function.
    away: Nanos,
    unknown: Nanos,
}

impl CallStack {
    fn enter(&mut self, of: [u64; 2], from: Time) {
        let zero = Nanos::ZERO;
        self.frames.push(Frame { of, from, in_calls: zero, away: zero, unknown: zero });
    }

    /// Removes the innermost call with this identity, and those inside of it, of which no exit was recorded. Returns
    /// it with the number of the latter.
    fn exit(&mut self, of: [u64; 2], now: Time) -> Option<(Frame, usize)> {
        let index = self.frames.iter().rposition(|frame| frame.of == of)?;
        // Such a call ended at an unknown time: from its begin on, nothing shows whose time it was.
        let unknown = self.frames.get(index + 1).map_or(Nanos::ZERO, |inner| now - inner.from);
        let without_exit = self.frames.drain(index + 1..).count();
        let mut frame = self.frames.pop()?;
        frame.unknown += unknown;
        if let Some(outer) = self.frames.last_mut() {
            outer.in_calls += now - frame.from;
        }
        Some((frame, without_exit))
    }

    /// Notes that its thread executes something else from now on.
    fn leave(&mut self, now: Time) {
        self.away_since = Some(now);
    }

    /// Returns the time since it was left, and forgets that.
    fn come_back(&mut self, now: Time) -> Nanos {
        self.away_since.take().map_or(Nanos::ZERO, |since| now - since)
    }

    /// Gives up all calls, and returns their number.
    fn give_up(&mut self) -> usize {
        let count = self.frames.drain(..).count();
        self.away_since = None;
        self.given_up += count;
        count
    }
}

impl FunctionCalls {
    /// Creates the finder; `None` if no trace has the event of an entry.
    pub(crate) fn new(classes: &Classes) -> Option<Self> {
        let event = |class: &Class| {
            let is_entry = class.name == ENTRY;
            let fields = [FUNCTION, CALL_SITE].map(|name| class.field(name));
            let [Some(function), Some(call_site)] = fields else { return None };
            (is_entry || class.name == EXIT).then_some((is_entry, [function, call_site]))
        };
        let events: Vec<_> = classes.iter().map(|(_, class)| event(class)).collect();
        let has_entries = events.iter().flatten().any(|(is_entry, _)| *is_entry);
        has_entries.then(|| Self { events, stacks: HashMap::new(), gaps: HashMap::new() })
    }

    /// Returns the owner of the call stack on which an event's thread is, if that is known.
    fn owner(moment: &Moment<'_>) -> Option<Owner> {
        match moment.fiber {
            Mounted::Fiber(fiber) => Some(Owner::Fiber(fiber)),
            Mounted::Outside | Mounted::Scheduler => Some(Owner::Thread(moment.pid()?, moment.tid?)),
            Mounted::Unknown => None,
        }
    }

    fn enter(&mut self, of: [u64; 2], moment: &Moment<'_>, found: &mut Vec<Found>) {
        let Some(owner) = Self::owner(moment) else { return };
        let now = moment.event.time;
        let stack = self.stacks.entry(owner).or_default();
        if stack.frames.len() == DEPTH_MAX {
            let count = stack.give_up();
            found.extend((0..count).map(|_| Found::Broken));
        }
        stack.settle(now);
        stack.enter(of, now);
    }

    fn exit(&mut self, of: [u64; 2], moment: &Moment<'_>, found: &mut Vec<Found>) {
        let now = moment.event.time;
        let stack = Self::owner(moment).and_then(|owner| self.stacks.get_mut(&owner));
        let Some(stack) = stack else { return found.push(Found::Broken) };
        stack.settle(now);
        let Some((frame, without_exit)) = stack.exit(of, now) else {
            match stack.given_up.checked_sub(1) {
                Some(left) => stack.given_up = left,
                None => found.push(Found::Broken),
            }
            return;
        };
        found.extend((0..without_exit).map(|_| Found::Broken));
        let gap = moment.pid().and_then(|pid| self.gaps.get(&pid)).copied().unwrap_or_default();
        found.push(match gap.touches(frame.from) {
            true => Found::Broken,
            false => Found::Whole(frame.span(moment)),
        });
    }

    /// Follows a thread from one call stack to another.
    fn switch(&mut self, [from, to]: [Option<u64>; 2], moment: &Moment<'_>) {
        let (Some(pid), Some(tid), now) = (moment.pid(), moment.tid, moment.event.time) else { return };
        let owner = |fiber: Option<u64>| match fiber {
            Some(number) => Owner::Fiber(FiberId { pid, number }),
            None => Owner::Thread(pid, tid),
        };
        self.stacks.get_mut(&owner(from)).into_iter().for_each(|stack| stack.leave(now));
        if let Some(stack) = self.stacks.get_mut(&owner(to)) {
            let away = stack.come_back(now);
            stack.frames.last_mut().into_iter().for_each(|frame| frame.away += away);
        }
    }

    /// Forgets the call stack of a fiber that has ended: its number may be used again.
    fn end(&mut self, number: u64, moment: &Moment<'_>, found: &mut Vec<Found>) {
        let Some(pid) = moment.pid() else { return };
        let stack = self.stacks.remove(&Owner::Fiber(FiberId { pid, number }));
        found.extend(stack.into_iter().flat_map(|stack| stack.frames).map(|_| Found::Broken));
    }
}

impl CallStack {
    /// Gives the time since the stack was left to the innermost call, as unknown: nothing showed when it went on.
    fn settle(&mut self, now: Time) {
        let away = self.come_back(now);
        self.frames.last_mut().into_iter().for_each(|frame| frame.unknown += away);
    }
}

impl Frame {
    fn span(&self, moment: &Moment<'_>) -> Span {
        let (from, now) = (self.from, moment.event.time);
        let own = now - from - self.in_calls - self.away - self.unknown;
        Span {
            tid: moment.tid,
            fiber: moment.fiber_id(),
            cpu: moment.cpu,
            address: Some(self.of[0]),
            parts: vec![own, self.in_calls, self.away, self.unknown],
            ..Span::between(from, now)
        }
    }
}

impl SpanFinder for FunctionCalls {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<Found>) {
        match moment.about_fibers() {
            Some(FiberEvent::Switch { from, to, .. }) => return self.switch([from, to], moment),
            Some(FiberEvent::New { fiber, .. } | FiberEvent::End { fiber }) => {
                // A fiber that records its own end is in functions that do not return.
                let is_itself = moment.fiber_id().is_some_and(|own| own.number == fiber);
                if !is_itself {
                    self.end(fiber, moment, found);
                }
                return;
            }
            _ => {}
        }
        let Some((is_entry, fields)) = self.events.get(moment.event.class.index()).copied().flatten() else {
            return;
        };
        let value = |field: usize| match moment.event.value(field) {
            Some(View::Unsigned(value, _)) => Some(value),
            Some(View::Signed(value, _)) => Some(value.cast_unsigned()),
            _ => None,
        };
        match fields.map(value) {
            [Some(function), Some(call_site)] if is_entry => self.enter([function, call_site], moment, found),
            [Some(function), Some(call_site)] => self.exit([function, call_site], moment, found),
            _ => found.push(Found::Broken),
        }
    }

    /// Gives up all calls of the program: any of its threads may have left a function meanwhile.
    fn lose(&mut self, loss: &Loss, found: &mut Vec<Found>) {
        let Some(pid) = loss.pid else { return };
        self.gaps.entry(pid).or_default().add(loss);
        let of_program = self.stacks.iter_mut().filter(|(owner, _)| owner.pid() == pid);
        let count: usize = of_program.map(|(_, stack)| stack.give_up()).sum();
        found.extend((0..count).map(|_| Found::Broken));
    }

    /// Returns the number of calls that have not returned.
    fn finish(&mut self, _end: Time, _found: &mut Vec<Found>) -> u64 {
        self.stacks.values().map(|stack| stack.frames.len() as u64).sum()
    }
}
