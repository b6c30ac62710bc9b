//! The merge of many sources into one order.

use crate::Source;
use sordino_event::{Classes, Domain, Event, Loss, Nanos, Step, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// The next item of the merged sources.
#[derive(Debug)]
pub enum Merged<'a> {
    /// An event; never earlier than the item before.
    Event(&'a Event),
    /// Records are missing from the source with this index. The item stands in the order where the loss begins.
    Loss(&'a Loss, usize),
    /// The event that follows broke the order of its source and was moved.
    Disorder(Disorder),
}

/// A source's time went back, which is an error of the [`Source`].
///
/// The event that follows was given the time of its predecessor in the same source: [`at`](Self::at).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disorder {
    /// The source's index, from 0 in the order in which they were given.
    pub source: usize,
    /// The time that the event has now.
    pub at: Time,
    /// The difference to its own, earlier time.
    pub back: Nanos,
}

/// A source that cannot be read further. The others can: call again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("source {number} can't be read further")]
pub struct SourceError<E> {
    /// The source's index, from 0 in the order in which they were given.
    pub number: usize,
    /// The error that the source returned.
    #[source]
    pub error: E,
}

/// Merges sources by time; holds one event of each.
///
/// The order is total and does not depend on chance: by time; at one time losses first, then the kernel's events before
/// those of programs, then by CPU (an unknown one first), then by the source's index. Events that lie within some 50 ns
/// on different CPUs get *an* order, which is no evidence for their true one: the clock readings are not fenced.
#[derive(Debug)]
pub struct Merge<S> {
    lanes: Vec<MergeLane<S>>,
    /// The earliest item. Its lane stays out of the heap, as its next item often is the earliest again.
    front: Option<MergeKey>,
    /// The other lanes that hold an item, the earliest on top.
    heap: BinaryHeap<Reverse<MergeKey>>,
    /// True if the item of the earliest lane was returned: the lane has to be filled anew.
    taken: bool,
    /// The number of lanes that were filled for the first time.
    primed: usize,
    /// True for classes of the kernel; indexed by class.
    is_kernel: Vec<bool>,
}

#[derive(Debug)]
struct MergeLane<S> {
    source: S,
    event: Event,
    /// The kind of the item; if it is a loss, `event` is stale.
    holds: Holds,
    last: Time,
}

#[derive(Debug)]
enum Holds {
    Event,
    Disordered(Nanos),
    Loss(Loss),
}

/// The position of an item in the merge, by the derived order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MergeKey {
    time: Time,
    rank: MergeRank,
    /// The CPU's number plus one; 0 if it is unknown.
    cpu: u64,
    lane: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MergeRank {
    Loss,
    Kernel,
    User,
}

impl<S: Source> Merge<S> {
    /// Merges `sources`, whose events are of `classes`. Reads nothing yet.
    pub fn new(classes: &Classes, sources: impl IntoIterator<Item = S>) -> Self {
        let lane =
            |source| MergeLane { source, event: Event::default(), holds: Holds::Event, last: Time::MIN };
        let lanes: Vec<_> = sources.into_iter().map(lane).collect();
        Self {
            heap: BinaryHeap::with_capacity(lanes.len()),
            lanes,
            front: None,
            taken: false,
            primed: 0,
            is_kernel: classes.iter().map(|(_, class)| class.domain == Domain::Kernel).collect(),
        }
    }

    /// Returns the next item in the order of time; `None` when all sources have ended.
    ///
    /// # Errors
    /// When a source fails. It is left out from then on; the next call continues with the others.
    #[expect(clippy::should_implement_trait, reason = "what it yields borrows from it")]
    pub fn next(&mut self) -> Result<Option<Merged<'_>>, SourceError<S::Error>> {
        while let Some(lane) = self.lanes.get_mut(self.primed) {
            let number = self.primed;
            self.primed += 1;
            self.heap.extend(lane.fill(number, &self.is_kernel)?.map(Reverse));
        }
        if std::mem::take(&mut self.taken) {
            self.replace()?;
        } else if self.front.is_none() {
            self.front = self.heap.pop().map(|Reverse(key)| key);
        }
        let Some(key) = &self.front else { return Ok(None) };
        let lane = &mut self.lanes[key.lane];
        if let Holds::Disordered(back) = lane.holds {
            lane.holds = Holds::Event;
            return Ok(Some(Merged::Disorder(Disorder { source: key.lane, at: key.time, back })));
        }
        self.taken = true;
        Ok(Some(match &lane.holds {
            Holds::Loss(loss) => Merged::Loss(loss, key.lane),
            _ => Merged::Event(&lane.event),
        }))
    }

    /// Fills the earliest lane anew, or removes it.
    fn replace(&mut self) -> Result<(), SourceError<S::Error>> {
        let Some(MergeKey { lane: number, .. }) = self.front.take() else { return Ok(()) };
        let filled = self.lanes[number].fill(number, &self.is_kernel);
        self.front = match (&filled, self.heap.peek_mut()) {
            (Ok(Some(key)), Some(mut top)) if top.0 < *key => {
                Some(std::mem::replace(&mut *top, Reverse(*key)).0)
            }
            (Ok(Some(key)), _) => Some(*key),
            (_, top) => top.map(|top| PeekMut::pop(top).0),
        };
        filled.map(drop)
    }
}

impl<S: Source> MergeLane<S> {
    /// Reads the source's next item. Returns its position in the order, or `None` at the end.
    #[inline]
    fn fill(&mut self, number: usize, is_kernel: &[bool]) -> Result<Option<MergeKey>, SourceError<S::Error>> {
        let step = self.source.next(&mut self.event);
        match step.map_err(|error| SourceError { number, error })? {
            Step::Event => {
                let back = self.last - self.event.time;
                self.holds = if back > Nanos::ZERO { Holds::Disordered(back) } else { Holds::Event };
                self.last = self.last.max(self.event.time);
                self.event.time = self.last;
                let kernel = is_kernel.get(self.event.class.index()).is_some_and(|&kernel| kernel);
                let rank = if kernel { MergeRank::Kernel } else { MergeRank::User };
                let cpu = self.event.cpu.map_or(0, |cpu| u64::from(cpu.0) + 1);
                Ok(Some(MergeKey { time: self.last, rank, cpu, lane: number }))
            }
            Step::Loss(loss) => {
                // A loss may begin before the last event that was read: packets report it late.
                self.last = self.last.max(loss.from);
                let cpu = loss.cpu.map_or(0, |cpu| u64::from(cpu.0) + 1);
                self.holds = Holds::Loss(loss);
                Ok(Some(MergeKey { time: self.last, rank: MergeRank::Loss, cpu, lane: number }))
            }
            Step::End => Ok(None),
        }
    }
}
