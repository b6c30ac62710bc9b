//! Batches: events of one thread, or entries of one table.

use crate::cursor::ByteCursor;
use crate::error::{Error, TraceDamage, TraceFault};
use crate::format::{ENDS, GoVersion, HEADER, SNAPSHOTS, event};
use std::io::{BufReader, ErrorKind, Read};

/// The maximum number of bytes of a batch.
pub(crate) const MAX_BYTES: u64 = 64 << 10;
/// The greatest id of a thread on Linux, `PID_MAX_LIMIT`.
pub(crate) const MAX_THREAD: u64 = 1 << 22;
/// The thread of a batch that belongs to none.
const NO_THREAD: u64 = u64::MAX;
/// The number of nanoseconds in a unit of the trace's time.
pub(crate) const UNIT: u64 = 64;

/// The content of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchKind {
    Events,
    Strings,
    Stacks,
    Sync,
    EndOfGeneration,
    /// Samples of the profiler, and data of experiments, which are not imported.
    Other,
}

/// A batch of one generation.
#[derive(Clone, Debug)]
pub(crate) struct GoBatch {
    pub(crate) kind: BatchKind,
    /// The offset of its data in the file, in bytes.
    pub(crate) offset: u64,
    pub(crate) generation: u64,
    /// The thread that wrote it, if it has one.
    pub(crate) thread: Option<i32>,
    /// The time from which on its events count, in units of 64 ns.
    pub(crate) time: u64,
    pub(crate) data: Vec<u8>,
}

impl GoBatch {
    /// Returns the fault at a position in the batch as damage.
    pub(crate) fn damage(&self, at: ByteCursor, fault: TraceFault) -> TraceDamage {
        TraceDamage { offset: self.offset + at.at() as u64, generation: self.generation, fault }
    }
}

/// A fault, or a failure to read.
#[derive(Debug)]
pub(crate) enum BatchFailure {
    TraceDamage(TraceDamage),
    Error(Error),
}

impl From<TraceDamage> for BatchFailure {
    fn from(damage: TraceDamage) -> Self {
        Self::TraceDamage(damage)
    }
}

/// A reader of the batches of a trace, one after the other.
#[derive(Debug)]
pub(crate) struct BatchReader<R> {
    input: BufReader<R>,
    version: GoVersion,
    /// The number of bytes that were read.
    offset: u64,
    generation: u64,
}

impl<R: Read> BatchReader<R> {
    /// Reads the header of a trace.
    pub(crate) fn new(input: R) -> Result<Self, Error> {
        let mut input = BufReader::new(input);
        let mut header = Vec::new();
        input.by_ref().take(HEADER as u64).read_to_end(&mut header).map_err(Error::Read)?;
        let begin = || Error::NoTrace { begin: header.escape_ascii().to_string() };
        let minor = GoVersion::in_header(&header).ok_or_else(begin)?;
        let version = GoVersion::known(minor).ok_or(Error::UnknownVersion { minor })?;
        Ok(Self { input, version, offset: HEADER as u64, generation: 0 })
    }

    pub(crate) fn version(&self) -> GoVersion {
        self.version
    }

    /// Returns a fault at the present place as damage.
    pub(crate) fn damage(&self, fault: TraceFault) -> TraceDamage {
        TraceDamage { offset: self.offset, generation: self.generation, fault }
    }

    /// Returns the next batch; `None` at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<GoBatch>, BatchFailure> {
        let begin = self.offset;
        let Some(kind) = self.byte()? else { return Ok(None) };
        let at_begin = |fault| TraceDamage { offset: begin, generation: self.generation, fault };
        let kind = match kind {
            event::EVENT_BATCH => BatchKind::Events,
            event::EXPERIMENTAL_BATCH if self.version > GoVersion(22) => BatchKind::Other,
            event::END_OF_GENERATION if self.version >= ENDS => {
                let (offset, generation) = (self.offset, self.generation);
                let kind = BatchKind::EndOfGeneration;
                return Ok(Some(GoBatch {
                    kind,
                    offset,
                    generation,
                    thread: None,
                    time: 0,
                    data: Vec::new(),
                }));
            }
            found => return Err(at_begin(TraceFault::NoBatch { found }).into()),
        };
        if kind == BatchKind::Other {
            // The number of the experiment.
            self.byte()?.ok_or_else(|| self.damage(TraceFault::CutInside))?;
        }
        let generation = self.integer()?;
        self.generation = generation;
        let (thread, time, bytes) = (self.integer()?, self.integer()?, self.integer()?);
        let at_begin = |fault| TraceDamage { offset: begin, generation, fault };
        if bytes > MAX_BYTES {
            return Err(at_begin(TraceFault::LargeBatch { bytes }).into());
        }
        if time > i64::MAX as u64 / UNIT {
            return Err(at_begin(TraceFault::Time { time }).into());
        }
        if thread != NO_THREAD && !(1..=MAX_THREAD).contains(&thread) {
            return Err(at_begin(TraceFault::Thread { thread }).into());
        }
        let thread = i32::try_from(thread).ok();
        let (offset, data) = (self.offset, self.data(bytes)?);
        let kind = self.content(kind, &data);
        Ok(Some(GoBatch { kind, offset, generation, thread, time, data }))
    }

    /// Returns the content of a batch, which its first byte shows.
    fn content(&self, kind: BatchKind, data: &[u8]) -> BatchKind {
        let has_snapshots = self.version >= SNAPSHOTS;
        match data.first() {
            _ if kind != BatchKind::Events => kind,
            Some(&event::STRINGS) => BatchKind::Strings,
            Some(&event::STACKS) => BatchKind::Stacks,
            Some(&event::CPU_SAMPLES) => BatchKind::Other,
            Some(&event::FREQUENCY) if !has_snapshots => BatchKind::Sync,
            Some(&event::SYNC) if has_snapshots => BatchKind::Sync,
            _ => BatchKind::Events,
        }
    }

    fn byte(&mut self) -> Result<Option<u8>, BatchFailure> {
        let mut byte = [0];
        loop {
            return match self.input.read(&mut byte) {
                Ok(0) => Ok(None),
                Ok(_) => {
                    self.offset += 1;
                    Ok(Some(byte[0]))
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(BatchFailure::Error(Error::Read(error))),
            };
        }
    }

    fn integer(&mut self) -> Result<u64, BatchFailure> {
        let mut bytes = [0; 10];
        for count in 0..bytes.len() {
            bytes[count] = self.byte()?.ok_or_else(|| self.damage(TraceFault::CutInside))?;
            if bytes[count] < 0x80 {
                let value = ByteCursor::default().integer(&bytes[..=count]);
                return Ok(value.ok_or_else(|| self.damage(TraceFault::Arguments))?);
            }
        }
        Err(self.damage(TraceFault::Arguments).into())
    }

    /// Reads that many bytes, and allocates no more than there are.
    fn data(&mut self, bytes: u64) -> Result<Vec<u8>, BatchFailure> {
        let mut data = Vec::new();
        let read = self.input.by_ref().take(bytes).read_to_end(&mut data);
        self.offset += data.len() as u64;
        read.map_err(|error| BatchFailure::Error(Error::Read(error)))?;
        if (data.len() as u64) < bytes {
            return Err(self.damage(TraceFault::CutInside).into());
        }
        data.shrink_to_fit();
        Ok(data)
    }
}
