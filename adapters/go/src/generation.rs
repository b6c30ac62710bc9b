//! Generations: the parts of a trace, each with its own tables and its own clock.

use crate::batch::{BatchFailure, BatchKind, BatchReader, GoBatch, MAX_BYTES as BATCH_BYTES, UNIT};
use crate::cursor::ByteCursor;
use crate::error::{Error, TraceDamage, TraceFault};
use crate::format::{ENDS, GoVersion, SNAPSHOTS, event};
use foldhash::HashMap;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

/// The ticks per second of the trace's clock on Linux: `nanotime` in units of 64 ns.
pub(crate) const HERTZ: u64 = 1_000_000_000 / UNIT;
/// The maximum number of bytes of memory for a generation; two of them are in memory at once.
pub(crate) const MAX_BYTES: u64 = 512 << 20;
/// The estimated cost of a batch or of an entry of a table, beside its data, in bytes.
const ENTRY: u64 = 96;
/// The estimated cost of a thread, beside its batches, in bytes.
const THREAD: u64 = 640;
/// The number of frames from which on the runtime cuts a stack.
const MAX_FRAMES: u64 = 128;
/// The maximum length of a string in bytes.
const MAX_STRING: u64 = 1 << 10;
/// The time in nanoseconds by which the two readings of one snapshot may differ: the thread may be preempted in
/// between.
const MAX_SKEW: u64 = 1_000_000_000;

/// The trace's clock, `CLOCK_MONOTONIC` and the time of day, read one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSnapshot {
    /// The trace's clock in nanoseconds, in steps of 64.
    pub trace: u64,
    /// The reading of `CLOCK_MONOTONIC` in nanoseconds.
    pub monotonic: u64,
    /// The time of day in nanoseconds since the epoch.
    pub wall: i64,
}

impl ClockSnapshot {
    /// Returns the difference between the trace's clock and `CLOCK_MONOTONIC` in nanoseconds.
    pub fn skew(&self) -> u64 {
        self.trace.abs_diff(self.monotonic)
    }

    /// Returns the time of day at which `CLOCK_MONOTONIC` was 0, in nanoseconds since the epoch.
    pub fn monotonic_zero(&self) -> i64 {
        self.wall.saturating_sub_unsigned(self.monotonic)
    }
}

/// A generation with all of its batches.
#[derive(Debug, Default)]
pub(crate) struct Generation {
    pub(crate) number: u64,
    /// The batches of each thread, and of none, in the order of the file.
    pub(crate) threads: BTreeMap<Option<i32>, Vec<GoBatch>>,
    pub(crate) tables: GoTables,
    pub(crate) snapshot: Option<ClockSnapshot>,
    /// The time of its first batch, in units of 64 ns.
    pub(crate) begin: u64,
    has_frequency: bool,
    bytes: u64,
}

/// The strings of a generation, and its stacks as far as they name goroutines.
#[derive(Debug, Default)]
pub(crate) struct GoTables {
    strings: HashMap<u64, Arc<str>>,
    /// The outermost function of each stack, as the number of its name.
    roots: HashMap<u64, u64>,
}

impl GoTables {
    pub(crate) fn string(&self, number: u64) -> Option<&Arc<str>> {
        self.strings.get(&number)
    }

    /// Returns the outermost function of a stack, which is the one that its goroutine was started with.
    pub(crate) fn root(&self, stack: u64) -> Option<&Arc<str>> {
        self.string(*self.roots.get(&stack)?)
    }
}

/// A reader of generations.
#[derive(Debug)]
pub(crate) struct GenerationReader<R> {
    batches: BatchReader<R>,
    /// The first batch of the next generation, where no event ends the one before.
    ahead: Option<GoBatch>,
    last: u64,
}

impl<R: Read> GenerationReader<R> {
    pub(crate) fn new(input: R) -> Result<Self, Error> {
        Ok(Self { batches: BatchReader::new(input)?, ahead: None, last: 0 })
    }

    pub(crate) fn version(&self) -> GoVersion {
        self.batches.version()
    }

    /// Returns a fault at the present place as damage.
    pub(crate) fn damage(&self, fault: TraceFault) -> TraceDamage {
        self.batches.damage(fault)
    }

    /// Returns the next generation; `None` at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<Generation>, BatchFailure> {
        let version = self.version();
        let mut generation = Generation::default();
        loop {
            let next = match self.ahead.take() {
                Some(batch) => Some(batch),
                None => self.batches.next()?,
            };
            let Some(batch) = next else {
                if generation.number == 0 {
                    return Ok(None);
                }
                if version >= ENDS {
                    return Err(self.damage(TraceFault::CutBehind).into());
                }
                break;
            };
            if batch.kind == BatchKind::EndOfGeneration {
                break;
            }
            if generation.number == 0 {
                // The first generation of a snapshot may have any number.
                if batch.generation == 0
                    || self.last != 0 && Some(batch.generation) != self.last.checked_add(1)
                {
                    let found = batch.generation;
                    return Err(batch.damage(ByteCursor::default(), TraceFault::Sequence { found }).into());
                }
                (generation.number, generation.begin) = (batch.generation, batch.time);
            } else if batch.generation != generation.number {
                if version >= ENDS {
                    let found = batch.generation;
                    return Err(batch.damage(ByteCursor::default(), TraceFault::Sequence { found }).into());
                }
                self.ahead = Some(batch);
                break;
            }
            generation.add(batch, version)?;
        }
        self.last = generation.number;
        let missing = |fault| {
            BatchFailure::TraceDamage(TraceDamage { generation: generation.number, ..self.damage(fault) })
        };
        if generation.number == 0 {
            return Err(missing(TraceFault::Sequence { found: 0 }));
        }
        // The table of strings, which each generation has, is the last that its end writes.
        if version < ENDS && generation.tables.strings.is_empty() {
            return Err(missing(TraceFault::CutBehind));
        }
        if !generation.has_frequency {
            return Err(missing(TraceFault::Frequency { hertz: 0 }));
        }
        if version >= SNAPSHOTS && generation.snapshot.is_none() {
            return Err(missing(TraceFault::Snapshot));
        }
        Ok(Some(generation))
    }
}

impl Generation {
    fn add(&mut self, batch: GoBatch, version: GoVersion) -> Result<(), TraceDamage> {
        let begin = ByteCursor::default();
        self.charge(batch.data.len() as u64 + ENTRY).map_err(|fault| batch.damage(begin, fault))?;
        self.begin = self.begin.min(batch.time);
        let mut at = begin;
        match batch.kind {
            BatchKind::Strings => self.add_strings(&batch.data, &mut at),
            BatchKind::Stacks => self.add_stacks(&batch.data, &mut at),
            BatchKind::Sync => self.add_sync(&batch, &mut at, version),
            BatchKind::Events => {
                if !self.threads.contains_key(&batch.thread) {
                    self.charge(THREAD).map_err(|fault| batch.damage(begin, fault))?;
                }
                self.threads.entry(batch.thread).or_default().push(batch);
                return Ok(());
            }
            BatchKind::Other | BatchKind::EndOfGeneration => Ok(()),
        }
        .map_err(|fault| batch.damage(at, fault))
    }

    fn charge(&mut self, bytes: u64) -> Result<(), TraceFault> {
        self.bytes += bytes;
        if self.bytes > MAX_BYTES { Err(TraceFault::LargeGeneration) } else { Ok(()) }
    }

    fn add_strings(&mut self, data: &[u8], at: &mut ByteCursor) -> Result<(), TraceFault> {
        at.byte(data);
        while !at.is_at_end(data) {
            expect(data, at, event::STRING)?;
            let number = integer(data, at)?;
            let length = integer(data, at)?;
            let text = at.take(data, length).filter(|_| length <= MAX_STRING).ok_or(TraceFault::Arguments)?;
            self.charge(text.len() as u64 + ENTRY)?;
            // A string in a record ends at its first zero byte.
            let text = String::from_utf8_lossy(text).replace('\0', "\u{fffd}");
            self.tables.strings.insert(number, text.into());
        }
        Ok(())
    }

    fn add_stacks(&mut self, data: &[u8], at: &mut ByteCursor) -> Result<(), TraceFault> {
        at.byte(data);
        while !at.is_at_end(data) {
            expect(data, at, event::STACK)?;
            let number = integer(data, at)?;
            let frames = integer(data, at)?;
            if frames > BATCH_BYTES {
                return Err(TraceFault::Arguments);
            }
            let mut root = None;
            for _ in 0..frames {
                let _counter = integer(data, at)?;
                root = Some(integer(data, at)?);
                let (_file, _line) = (integer(data, at)?, integer(data, at)?);
            }
            self.charge(ENTRY)?;
            if let Some(root) = root.filter(|_| frames < MAX_FRAMES) {
                self.tables.roots.insert(number, root);
            }
        }
        Ok(())
    }

    fn add_sync(
        &mut self,
        batch: &GoBatch,
        at: &mut ByteCursor,
        version: GoVersion,
    ) -> Result<(), TraceFault> {
        let data = &batch.data;
        if version >= SNAPSHOTS {
            at.byte(data);
        }
        let mut time = batch.time;
        while !at.is_at_end(data) {
            match at.byte(data) {
                Some(event::FREQUENCY) => {
                    let hertz = integer(data, at)?;
                    if hertz != HERTZ {
                        return Err(TraceFault::Frequency { hertz });
                    }
                    self.has_frequency = true;
                }
                Some(event::CLOCK_SNAPSHOT) if version >= SNAPSHOTS => {
                    time = later(time, integer(data, at)?)?;
                    let monotonic = integer(data, at)?;
                    let (seconds, nanos) = (integer(data, at)?, integer(data, at)?);
                    let wall = seconds.checked_mul(1_000_000_000).and_then(|wall| wall.checked_add(nanos));
                    let wall = wall.and_then(|wall| i64::try_from(wall).ok()).ok_or(TraceFault::Snapshot)?;
                    let snapshot = ClockSnapshot { trace: time * UNIT, monotonic, wall };
                    if snapshot.skew() > MAX_SKEW {
                        return Err(TraceFault::Snapshot);
                    }
                    self.snapshot = Some(snapshot);
                }
                found => return Err(TraceFault::NoEvent { found: found.unwrap_or_default() }),
            }
        }
        Ok(())
    }
}

/// Returns the time that lies so much after another one, both in units of 64 ns.
pub(crate) fn later(time: u64, by: u64) -> Result<u64, TraceFault> {
    time.checked_add(by).filter(|time| *time <= i64::MAX as u64 / UNIT).ok_or(TraceFault::Time { time: by })
}

fn integer(data: &[u8], at: &mut ByteCursor) -> Result<u64, TraceFault> {
    at.integer(data).ok_or(TraceFault::Arguments)
}

fn expect(data: &[u8], at: &mut ByteCursor, kind: u8) -> Result<(), TraceFault> {
    match at.byte(data) {
        Some(found) if found == kind => Ok(()),
        found => Err(TraceFault::NoEvent { found: found.unwrap_or_default() }),
    }
}
