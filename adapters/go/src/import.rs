//! All generations of a trace, one after the other.

use crate::batch::BatchFailure;
use crate::error::{Error, TraceDamage, TraceFault};
use crate::generation::{ClockSnapshot, Generation, GenerationReader};
use crate::order;
use crate::record::TimedRecord;
use crate::scheduler::Scheduler;
use crate::trace::FiberTrace;
use sordino_ctf::Uuid;
use std::collections::{BTreeSet, VecDeque};
use std::io::{Read, Write};

/// The maximum number of records that wait for the next generation.
const MAX_WAITING: usize = 1 << 20;

/// Facts about an imported trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportSummary {
    /// The second number of the version of Go's format.
    pub version: u32,
    /// The number of generations that were imported, wholly or in part.
    pub generations: u64,
    /// The clock snapshots of the first generation and of the one in which the two clocks differ most, if the version
    /// has any.
    pub snapshots: Option<[ClockSnapshot; 2]>,
    /// The ids of the threads.
    pub threads: BTreeSet<i32>,
    /// The number of goroutines that were made.
    pub made: u64,
    /// The number of goroutines that are older than the trace.
    pub older: u64,
    /// The number of events that do not follow from those before them.
    pub contradictions: u64,
    /// The number of events that lie more than a second before an earlier one of their order; they have its time.
    pub moved: u64,
    /// The number of written events.
    pub records: u64,
    /// The damage from which on nothing was imported; the recording has a loss there.
    pub end: Option<TraceDamage>,
}

/// Records on their way into the trace.
struct RecordOutlet<W> {
    trace: FiberTrace<W>,
    /// Records of earlier generations that are not older than the beginning of the present one.
    waiting: VecDeque<TimedRecord>,
    /// Records that are not older than the beginning of the next generation.
    kept: VecDeque<TimedRecord>,
    /// The beginning of the next generation.
    until: u64,
}

impl<W: Write> RecordOutlet<W> {
    /// Writes a record behind all earlier ones.
    fn take(&mut self, record: TimedRecord) -> Result<(), ImportInterruption> {
        while self.waiting.front().is_some_and(|waiting| waiting.time <= record.time) {
            self.put_waiting()?;
        }
        self.put(record)
    }

    fn put_waiting(&mut self) -> Result<(), ImportInterruption> {
        self.waiting.pop_front().map_or(Ok(()), |record| self.put(record))
    }

    fn put(&mut self, record: TimedRecord) -> Result<(), ImportInterruption> {
        if record.time < self.until && self.kept.is_empty() {
            return self.write(&record);
        }
        self.kept.push_back(record);
        match self.kept.len() > MAX_WAITING {
            true => self.kept.pop_front().map_or(Ok(()), |first| self.write(&first)),
            false => Ok(()),
        }
    }

    fn write(&mut self, record: &TimedRecord) -> Result<(), ImportInterruption> {
        self.trace.write(record).map_err(|error| ImportInterruption::Error(Error::Write(error)))
    }

    /// Ends a generation: its kept records wait for the next one.
    fn end(&mut self) -> Result<(), ImportInterruption> {
        while !self.waiting.is_empty() {
            self.put_waiting()?;
        }
        self.waiting = std::mem::take(&mut self.kept);
        Ok(())
    }
}

/// The reason why a generation is not imported to its end.
enum ImportInterruption {
    TraceDamage(TraceDamage),
    Error(Error),
}

impl From<TraceDamage> for ImportInterruption {
    fn from(damage: TraceDamage) -> Self {
        Self::TraceDamage(damage)
    }
}

/// Imports a trace: writes the stream of a CTF trace, whose metadata [`metadata`](crate::metadata) returns.
///
/// # Errors
/// The input is no trace, has an unknown version or not one whole generation; reading or writing fails.
pub fn import<R: Read, W: Write>(input: R, uuid: Uuid, out: W) -> Result<(ImportSummary, W), Error> {
    let mut generations = GenerationReader::new(input)?;
    let mut summary = ImportSummary { version: generations.version().0, ..ImportSummary::default() };
    let mut scheduler = Scheduler::default();
    let trace = FiberTrace::new(out, uuid).map_err(Error::Write)?;
    let (waiting, kept) = (VecDeque::new(), VecDeque::new());
    let mut outlet = RecordOutlet { trace, waiting, kept, until: u64::MAX };
    let nothing = |generations: &GenerationReader<R>| generations.damage(TraceFault::CutBehind);
    let mut present = match read(&mut generations)? {
        Ok(Some(first)) => first,
        Ok(None) => return Err(Error::Nothing(nothing(&generations))),
        Err(damage) => return Err(Error::Nothing(damage)),
    };
    loop {
        // Threads begin a generation at different times, so the beginning of the next one has to be known.
        let next = read(&mut generations)?;
        outlet.until = next.as_ref().ok().and_then(Option::as_ref).map_or(u64::MAX, |next| next.begin);
        summary.generations += 1;
        summary.see(&present);
        let applied =
            order::apply(present, generations.version(), &mut scheduler, |record| outlet.take(record));
        match applied {
            Ok(()) => {}
            Err(ImportInterruption::TraceDamage(damage)) => summary.end = Some(damage),
            Err(ImportInterruption::Error(error)) => return Err(error),
        }
        let ended = outlet.end();
        if let Err(ImportInterruption::Error(error)) = ended {
            return Err(error);
        }
        match next {
            _ if summary.end.is_some() => break,
            Ok(Some(next)) => present = next,
            Ok(None) => break,
            Err(damage) => {
                summary.end = Some(damage);
                break;
            }
        }
    }
    if summary.end.is_none() {
        outlet.waiting.extend(scheduler.finish());
    }
    let (records, out) = outlet.trace.finish(outlet.waiting, summary.end.is_some()).map_err(Error::Write)?;
    summary.records = records;
    summary.threads = scheduler.threads().collect();
    (summary.made, summary.older) = (scheduler.made, scheduler.older);
    (summary.contradictions, summary.moved) = (scheduler.contradictions, scheduler.moved);
    Ok((summary, out))
}

impl ImportSummary {
    /// Adds the clock snapshot of a generation.
    fn see(&mut self, generation: &Generation) {
        let Some(snapshot) = generation.snapshot else { return };
        let [_, worst] = self.snapshots.get_or_insert([snapshot; 2]);
        if snapshot.skew() > worst.skew() {
            *worst = snapshot;
        }
    }
}

/// Reads the next generation, and separates damage from failures.
fn read<R: Read>(
    generations: &mut GenerationReader<R>,
) -> Result<Result<Option<Generation>, TraceDamage>, Error> {
    match generations.next() {
        Ok(next) => Ok(Ok(next)),
        Err(BatchFailure::TraceDamage(damage)) => Ok(Err(damage)),
        Err(BatchFailure::Error(error)) => Err(error),
    }
}
