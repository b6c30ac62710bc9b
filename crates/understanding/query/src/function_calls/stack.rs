//! The call stacks of a program's threads and fibers.

use crate::record_gap::RecordGap;
use crate::span::{FoundSpan, Span};
use foldhash::HashMap;
use sordino_event::{Loss, Nanos, Tid, Time};
use sordino_timeline::{FiberId, Moment};

/// The maximum depth of a call stack. A deeper one has lost its exits.
const DEPTH_MAX: usize = 1 << 16;

/// The call stacks of a program that has entered functions.
#[derive(Debug, Default)]
pub(super) struct ProgramStacks {
    /// The call stacks that have calls.
    stacks: HashMap<StackOwner, CallStack>,
    /// The number of calls that were given up as records were missing: their exits are counted already.
    given_up: usize,
    /// The time until which records are missing.
    gap: RecordGap,
}

/// The owner of a call stack in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum StackOwner {
    Thread(Tid),
    Fiber(u64),
}

/// The functions that were entered and not left, the last one at the end.
#[derive(Debug, Default)]
struct CallStack {
    frames: Vec<CallFrame>,
    /// The time since which its thread executes something else: another fiber, or, if the stack is the thread's own, a
    /// fiber.
    away_since: Option<Time>,
}

/// A function that was entered.
#[derive(Debug)]
struct CallFrame {
    /// The function and the address behind the call: an exit with the same ones ends it.
    of: [u64; 2],
    from: Time,
    in_calls: Nanos,
    /// The time that other fibers took while it was the innermost function.
    away: Nanos,
    unknown: Nanos,
}

impl ProgramStacks {
    pub(super) fn enter(&mut self, owner: StackOwner, of: [u64; 2], now: Time, found: &mut Vec<FoundSpan>) {
        let stack = self.stacks.entry(owner).or_default();
        if stack.frames.len() == DEPTH_MAX {
            self.given_up += DEPTH_MAX;
            stack.frames.drain(..).for_each(|_| found.push(FoundSpan::Broken));
        }
        stack.settle(now);
        stack.enter(of, now);
    }

    /// Removes the call that ends, and adds its span.
    pub(super) fn exit(
        &mut self,
        owner: StackOwner,
        of: [u64; 2],
        moment: &Moment<'_>,
        found: &mut Vec<FoundSpan>,
    ) {
        let Some((frame, without_exit)) = self.pop(owner, of, moment.event.time) else {
            match self.given_up.checked_sub(1) {
                Some(left) => self.given_up = left,
                None => found.push(FoundSpan::Broken),
            }
            return;
        };
        found.extend((0..without_exit).map(|_| FoundSpan::Broken));
        found.push(match self.gap.touches(frame.from) {
            true => FoundSpan::Broken,
            false => FoundSpan::Whole(frame.span(moment)),
        });
    }

    /// Removes the call that ends. Returns it with the number of calls inside of it of which no exit was recorded.
    fn pop(&mut self, owner: StackOwner, of: [u64; 2], now: Time) -> Option<(CallFrame, usize)> {
        let stack = self.stacks.get_mut(&owner)?;
        stack.settle(now);
        let exited = stack.exit(of, now);
        if stack.frames.is_empty() {
            self.stacks.remove(&owner);
        }
        exited
    }

    /// Gives up all calls: any of the threads may have left a function meanwhile.
    pub(super) fn lose(&mut self, loss: &Loss, found: &mut Vec<FoundSpan>) {
        self.gap.add(loss);
        let before = found.len();
        self.give_up(found);
        self.given_up += found.len() - before;
    }

    /// Forgets the call stack of a thread or a fiber that has ended, or of an earlier one with its number.
    pub(super) fn end(&mut self, owner: StackOwner, found: &mut Vec<FoundSpan>) {
        let stack = self.stacks.remove(&owner);
        found.extend(stack.into_iter().flat_map(|stack| stack.frames).map(|_| FoundSpan::Broken));
    }

    /// Forgets all call stacks.
    pub(super) fn give_up(&mut self, found: &mut Vec<FoundSpan>) {
        found.extend(self.stacks.drain().flat_map(|(_, stack)| stack.frames).map(|_| FoundSpan::Broken));
    }

    /// Returns the number of calls that have not returned.
    pub(super) fn count(&self) -> usize {
        self.stacks.values().map(|stack| stack.frames.len()).sum()
    }

    /// Follows a thread from one call stack to another.
    pub(super) fn switch(
        &mut self,
        [from, to]: [Option<u64>; 2],
        moment: &Moment<'_>,
        found: &mut Vec<FoundSpan>,
    ) {
        let Some(tid) = moment.tid else { return };
        let owner = |fiber: Option<u64>| fiber.map_or(StackOwner::Thread(tid), StackOwner::Fiber);
        let now = moment.event.time;
        self.stacks.get_mut(&owner(from)).into_iter().for_each(|stack| stack.leave(now));
        from.into_iter().for_each(|fiber| self.end_fiber(fiber, moment, found));
        if let Some(stack) = self.stacks.get_mut(&owner(to)) {
            let away = stack.come_back(now);
            stack.frames.last_mut().into_iter().for_each(|frame| frame.away += away);
        }
    }

    /// Forgets the call stack of a fiber if the fiber has ended by now. A fiber that records its own end is still in
    /// functions until its thread leaves it.
    pub(super) fn end_fiber(&mut self, fiber: u64, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let id = moment.pid().map(|pid| FiberId { pid, number: fiber });
        if id.is_some_and(|id| moment.system.fibers().last_thread(id).is_none()) {
            self.end(StackOwner::Fiber(fiber), found);
        }
    }
}

impl CallStack {
    fn enter(&mut self, of: [u64; 2], from: Time) {
        let zero = Nanos::ZERO;
        self.frames.push(CallFrame { of, from, in_calls: zero, away: zero, unknown: zero });
    }

    /// Removes the innermost call with this identity, and those inside of it, of which no exit was recorded. Returns it
    /// with the number of the latter.
    fn exit(&mut self, of: [u64; 2], now: Time) -> Option<(CallFrame, usize)> {
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

    /// Adds the time since the stack was left to the innermost call, as unknown: no record shows when the stack
    /// continued.
    fn settle(&mut self, now: Time) {
        let away = self.come_back(now);
        self.frames.last_mut().into_iter().for_each(|frame| frame.unknown += away);
    }
}

impl CallFrame {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fibers_and_threads_without_calls_take_no_memory() {
        let (mut program, mut found) = (ProgramStacks::default(), Vec::new());
        for number in 0..3 {
            for owner in [StackOwner::Fiber(number), StackOwner::Thread(Tid(number as i32))] {
                program.enter(owner, [1, 2], Time(5), &mut found);
                assert_eq!((program.stacks.len(), program.count()), (1, 1));
                assert!(program.pop(owner, [1, 2], Time(7)).is_some());
            }
        }
        assert!(program.stacks.is_empty() && found.is_empty());
    }
}
