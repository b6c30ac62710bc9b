//! The events of a generation in one order.
//!
//! Each thread's events are in the order of time. Between threads, times do not decide alone: an event about another
//! goroutine has a sequence number, and waits for the event before it.

use crate::batch::GoBatch;
use crate::cursor::ByteCursor;
use crate::error::{TraceDamage, TraceFault};
use crate::format::{GoVersion, MAX_ARGUMENTS};
use crate::generation::{Generation, GoTables, later};
use crate::record::TimedRecord;
use crate::scheduler::{Scheduler, TimedEvent};
use foldhash::{HashMap, HashMapExt};
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, BinaryHeap};

/// The events of one thread, or of none, and the next of them.
#[derive(Debug)]
struct ThreadEvents {
    thread: Option<i32>,
    batches: std::vec::IntoIter<GoBatch>,
    batch: Option<GoBatch>,
    at: ByteCursor,
    next: TimedEvent,
}

impl ThreadEvents {
    /// Reads the next event. Returns false at the end.
    fn read(&mut self, version: GoVersion) -> Result<bool, TraceDamage> {
        while self.batch.as_ref().is_none_or(|batch| self.at.is_at_end(&batch.data)) {
            self.batch = self.batches.next();
            let Some(batch) = &self.batch else { return Ok(false) };
            (self.at, self.next.time) = (ByteCursor::default(), batch.time);
        }
        let Some(batch) = &self.batch else { return Ok(false) };
        let (begin, time) = (self.at, self.next.time);
        self.next =
            event(version, &batch.data, &mut self.at, time).map_err(|fault| batch.damage(begin, fault))?;
        Ok(true)
    }
}

fn event(version: GoVersion, data: &[u8], at: &mut ByteCursor, last: u64) -> Result<TimedEvent, TraceFault> {
    let kind = at.byte(data).ok_or(TraceFault::Arguments)?;
    let count = version.arguments(kind).ok_or(TraceFault::NoEvent { found: kind })?;
    let time = later(last, at.integer(data).ok_or(TraceFault::Arguments)?)?;
    let mut arguments = [0; MAX_ARGUMENTS - 1];
    for argument in arguments.iter_mut().take(count - 1) {
        *argument = at.integer(data).ok_or(TraceFault::Arguments)?;
    }
    Ok(TimedEvent { kind, time, arguments })
}

/// The events of a generation's threads, by the time of the next one of each.
struct MergedThreads {
    threads: Vec<ThreadEvents>,
    ready: BinaryHeap<Reverse<(u64, usize)>>,
    /// The threads whose next event waits, by its time.
    blocked: BTreeSet<(u64, usize)>,
    /// The same threads by the goroutine for which they wait.
    waiting: HashMap<u64, Vec<usize>>,
}

impl MergedThreads {
    fn push(&mut self, index: usize, version: GoVersion) -> Result<(), TraceDamage> {
        if self.threads[index].read(version)? {
            self.ready.push(Reverse((self.threads[index].next.time, index)));
        }
        Ok(())
    }

    /// Returns the thread with the next event, and true if that event still waits for others.
    fn pop(&mut self, scheduler: &Scheduler) -> Option<(usize, bool)> {
        while let Some(Reverse((time, index))) = self.ready.pop() {
            let Some(number) = scheduler.waits_for(&self.threads[index].next) else {
                return Some((index, false));
            };
            self.blocked.insert((time, index));
            self.waiting.entry(number).or_default().push(index);
        }
        let (_, index) = self.blocked.pop_first()?;
        let [number, ..] = self.threads[index].next.arguments;
        if let Entry::Occupied(mut waiting) = self.waiting.entry(number) {
            waiting.get_mut().retain(|other| *other != index);
            if waiting.get().is_empty() {
                waiting.remove();
            }
        }
        Some((index, true))
    }

    /// Tries the threads again that wait for a goroutine.
    fn wake(&mut self, number: u64) {
        for index in self.waiting.remove(&number).unwrap_or_default() {
            let time = self.threads[index].next.time;
            self.blocked.remove(&(time, index));
            self.ready.push(Reverse((time, index)));
        }
    }
}

/// Applies the events of a generation in their order, and passes the records that follow to `take`, in the order of
/// time.
///
/// # Errors
/// The first damaged event, behind all records of the events before it; an error of `take`.
pub(crate) fn apply<E: From<TraceDamage>>(
    generation: Generation,
    version: GoVersion,
    scheduler: &mut Scheduler,
    mut take: impl FnMut(TimedRecord) -> Result<(), E>,
) -> Result<(), E> {
    let Generation { number, threads, tables, .. } = generation;
    scheduler.begin(number);
    let threads = threads.into_iter().map(|(thread, batches)| ThreadEvents {
        thread,
        batches: batches.into_iter(),
        batch: None,
        at: ByteCursor::default(),
        next: TimedEvent::default(),
    });
    let mut merged = MergedThreads {
        threads: threads.collect(),
        ready: BinaryHeap::new(),
        blocked: BTreeSet::new(),
        waiting: HashMap::new(),
    };
    for index in 0..merged.threads.len() {
        merged.push(index, version)?;
    }
    let (mut records, mut last) = (Vec::new(), 0);
    while let Some((index, is_forced)) = merged.pop(scheduler) {
        scheduler.contradictions += u64::from(is_forced);
        let changed = step(&merged.threads[index], scheduler, &tables, &mut records)?;
        for mut record in records.drain(..) {
            last = last.max(record.time);
            record.time = last;
            take(record)?;
        }
        changed.into_iter().flatten().for_each(|number| merged.wake(number));
        merged.push(index, version)?;
    }
    Ok(())
}

fn step(
    events: &ThreadEvents,
    scheduler: &mut Scheduler,
    tables: &GoTables,
    records: &mut Vec<TimedRecord>,
) -> Result<[Option<u64>; 2], TraceDamage> {
    let applied = scheduler.apply(events.thread, &events.next, tables, records);
    applied.map_err(|fault| match &events.batch {
        Some(batch) => batch.damage(events.at, fault),
        None => TraceDamage { offset: 0, generation: 0, fault },
    })
}
