//! The events of a generation in one order.
//!
//! Each thread's events are in the order of time. Between threads, times do not decide alone: an event about another
//! goroutine has a sequence number, and waits for the event before it.

use crate::batch::GoBatch;
use crate::cursor::ByteCursor;
use crate::error::{TraceDamage, TraceFault};
use crate::format::{GoVersion, MAX_ARGUMENTS};
use crate::generation::{Generation, GoTables, HERTZ, later};
use crate::record::TimedRecord;
use crate::scheduler::{Scheduler, TimedEvent};
use foldhash::{HashMap, HashMapExt};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// The events of one thread, or of none, and the next of them.
#[derive(Debug)]
struct ThreadEvents {
    thread: Option<i32>,
    batches: std::vec::IntoIter<GoBatch>,
    batch: Option<GoBatch>,
    at: ByteCursor,
    next: TimedEvent,
    /// The damage that stands in the place of the next event, whose time is that of the event before it.
    damage: Option<TraceDamage>,
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
    /// The first thread that waits for each place in the sequence of a goroutine. A second one contradicts it.
    waiting: HashMap<(u64, u64), usize>,
}

impl MergedThreads {
    fn push(&mut self, index: usize, version: GoVersion) {
        let thread = &mut self.threads[index];
        match thread.read(version) {
            Ok(false) => return,
            Ok(true) => {}
            Err(damage) => thread.damage = Some(damage),
        }
        self.ready.push(Reverse((thread.next.time, index)));
    }

    /// Returns the thread with the next event, and true if that event still waits for others.
    fn pop(&mut self, scheduler: &Scheduler) -> Option<(usize, bool)> {
        while let Some(Reverse((time, index))) = self.ready.pop() {
            let thread = &self.threads[index];
            match scheduler.waits_for(&thread.next) {
                Some(place) if thread.damage.is_none() => {
                    self.blocked.insert((time, index));
                    self.waiting.entry(place).or_insert(index);
                }
                _ => return Some((index, false)),
            }
        }
        let (_, index) = self.blocked.pop_first()?;
        if let Some(place) = scheduler.waits_for(&self.threads[index].next)
            && self.waiting.get(&place) == Some(&index)
        {
            self.waiting.remove(&place);
        }
        Some((index, true))
    }

    /// Tries the thread again that waits for this place.
    fn wake(&mut self, place: (u64, u64)) {
        if let Some(index) = self.waiting.remove(&place) {
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
/// The first damaged event, behind the records of all threads' events until the time of the event before it; an error
/// of `take`.
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
        damage: None,
    });
    let mut merged = MergedThreads {
        threads: threads.collect(),
        ready: BinaryHeap::new(),
        blocked: BTreeSet::new(),
        waiting: HashMap::new(),
    };
    for index in 0..merged.threads.len() {
        merged.push(index, version);
    }
    let (mut records, mut last) = (Vec::new(), 0);
    while let Some((index, is_forced)) = merged.pop(scheduler) {
        if let Some(damage) = merged.threads[index].damage.take() {
            return Err(damage.into());
        }
        scheduler.contradictions += u64::from(is_forced);
        let changed = step(&merged.threads[index], scheduler, &tables, &mut records)?;
        for mut record in records.drain(..) {
            scheduler.moved += u64::from(record.time.saturating_add(HERTZ) < last);
            last = last.max(record.time);
            record.time = last;
            take(record)?;
        }
        let places = changed.into_iter().flatten().filter_map(|number| scheduler.next_of(number));
        places.for_each(|place| merged.wake(place));
        merged.push(index, version);
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
