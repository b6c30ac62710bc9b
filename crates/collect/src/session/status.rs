//! How a session is.

use super::{Session, Sink, cpu_seconds};
use crate::drain::{ProgramFill, StreamFill};
use crate::intake::Memory;
use crate::missing::Missing;
use crate::placement::RecorderCpus;
use crate::program::Traced;
use crate::rank::Rank;
use crate::shortfall::Shortfall;
use crate::summary::{ProgramSummary, Summary};
use crate::unanswered::{Unanswered, Unrecorded};
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How a session is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Of this structure.
    pub schema: u32,
    /// What it is called.
    pub name: String,
    /// Its recorder.
    pub recorder: u32,
    /// For how long it has been recording.
    pub duration_ns: u64,
    /// What could not be written so far.
    #[serde(default)]
    pub missing: Missing,
    /// Whether its buffers overwrite and snapshots are taken of them; else it writes to disk.
    pub overwrite: bool,
    /// Where its recordings are.
    pub output: PathBuf,
    /// The newest hundred of those that are there, oldest first, the one that is being written last.
    pub recordings: Vec<RecordingStatus>,
    /// How many are being finished.
    pub open: usize,
    /// How often an event, or a program's end, was a reason to take a snapshot.
    pub triggers: u64,
    /// The rules by which tracepoints are recorded.
    pub user: Vec<String>,
    /// The kernel's events.
    pub kernel: Vec<String>,
    /// The programs.
    pub programs: Vec<ProgramStatus>,
    /// Unanswered hits that the present chunk, or memory, lacks, of running and of ended programs.
    #[serde(default)]
    pub unanswered: Unanswered,
    /// Programs that registered and could not be recorded.
    #[serde(default)]
    pub unrecorded: Unrecorded,
    /// Programs that have ended and of which snapshots still have something.
    pub ended: usize,
    /// Programs that have ended and of which they no longer have.
    pub forgotten: u64,
    /// CPU time that the recorder took, in seconds.
    pub recorder_cpu_seconds: f64,
    /// The CPUs of its threads.
    #[serde(default)]
    pub recorder_cpus: RecorderCpus,
    /// Processes that it has looked at in `/proc` to find programs, each as often as it did.
    #[serde(default)]
    pub processes_looked_at: u64,
    /// The memory of the programs' rings.
    #[serde(default)]
    pub memory: MemoryStatus,
    /// What it was to record and has not so far.
    #[serde(default)]
    pub shortfall: Shortfall,
    /// What else there is to know.
    pub notes: Vec<String>,
}

/// The memory of the programs' rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// Bytes that they have.
    pub used: u64,
    /// Bytes that they may have (`--max-memory`).
    pub budget: u64,
    /// The number of times that a ring did not get the memory that it needed.
    pub short: u64,
}

/// One of a session's recordings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordingStatus {
    /// Where it lies.
    pub directory: PathBuf,
    /// Why it was taken, if it is a snapshot.
    pub reason: Option<String>,
    /// How bad that is, of a snapshot that is ranked.
    #[serde(default)]
    pub rank: Option<Rank>,
    /// Its events, if they were counted.
    pub events: Option<u64>,
    /// The programs' events of one that is not complete yet, up to each ring's last whole sub-buffer on disk. Who asks counts them, see
    /// [`user_events_so_far`](crate::user_events_so_far), and not the recorder.
    #[serde(default)]
    pub user_events_so_far: Option<u64>,
    /// Bytes.
    pub bytes: u64,
    /// Records that are known to be missing.
    pub lost: u64,
    /// Whether it is complete.
    pub finished: bool,
}

/// A program that is being recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramStatus {
    /// Its process.
    pub pid: i32,
    /// The process in its own pid namespace.
    pub own_pid: i32,
    /// Its name.
    pub name: String,
    /// Its rings.
    pub rings: Vec<RingStatus>,
    /// Hits that came before the recorder's answer.
    #[serde(default)]
    pub unanswered: Unanswered,
    /// What else there is to know.
    pub notes: Vec<String>,
}

/// A ring.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RingStatus {
    /// Whose; `None` for the shared one.
    pub cpu: Option<u32>,
    /// Bytes that wait to be written, or to be overwritten.
    pub filled: u64,
    /// Bytes that it holds at most.
    pub size: u64,
    /// Bytes of the present chunk on disk.
    pub bytes: u64,
    /// Records lost because it was full.
    pub ring_full: u64,
    /// Records lost because they were too large.
    pub too_large: u64,
    /// Sub-buffers that could not be written to disk.
    pub unwritten: u64,
    /// Bytes of records in them.
    #[serde(default)]
    pub unwritten_bytes: u64,
    /// What is wrong with it.
    pub problem: Option<String>,
}

/// As many recordings are told of: each one's summary is read.
const MOST: usize = 100;

impl Session<'_> {
    /// What of the present chunk could not be written.
    fn missing(&self, fills: &[ProgramFill]) -> Missing {
        let Sink::Chunk(chunk) = &self.sink else { return Missing::default() };
        let mut missing = chunk.summary.missing();
        for stream in
            fills.iter().flat_map(|fill| &fill.streams).filter(|stream| stream.unwritten.packets > 0)
        {
            missing.add(Missing {
                sub_buffers: stream.unwritten.packets,
                bytes: stream.unwritten.bytes,
                reason: stream.problem.clone(),
                ..Missing::default()
            });
        }
        missing.add(Missing { kernel_events: self.kernel_lost, ..Missing::default() });
        missing
    }

    /// The memory of the programs' rings.
    pub(super) fn memory(&self) -> MemoryStatus {
        let Memory { used, budget, short } = self.intake.memory();
        MemoryStatus { used, budget, short }
    }

    /// How it is now.
    pub(super) fn status(&mut self) -> Status {
        let fills = self.collector.fill();
        self.has_events |= fills.iter().any(ProgramFill::has_any);
        let program = |program: &Traced| {
            let fill = fills.iter().find(|fill| fill.number == program.number());
            ProgramStatus {
                pid: program.trace.pid,
                own_pid: program.trace.identity.own_pid,
                name: program.trace.identity.name.clone(),
                rings: fill.map_or(Vec::new(), |fill: &ProgramFill| fill.streams.iter().map(ring).collect()),
                unanswered: program.trace.unanswered(),
                notes: program.notes.clone(),
            }
        };
        let (ended, forgotten) = match &self.sink {
            Sink::Memory(memory) => memory.ended(),
            Sink::Chunk(_) => (0, 0),
        };
        let mut status = Status {
            schema: 1,
            name: self.options.name.clone(),
            recorder: std::process::id(),
            duration_ns: self.began.elapsed().as_nanos() as u64,
            overwrite: self.options.geometry.overwrite,
            user: self.user.patterns(),
            kernel: self.template.kernel_events.clone(),
            programs: self.programs.iter().map(program).collect(),
            unrecorded: self.template.unrecorded,
            ended,
            forgotten,
            recorder_cpu_seconds: cpu_seconds(ClockId::ProcessCPUTime),
            recorder_cpus: self.placement.cpus(),
            processes_looked_at: self.search.looked_at(),
            memory: self.memory(),
            shortfall: self.shortfall(),
            notes: self.template.notes.clone(),
            ..Status::default()
        };
        if let Some(outlet) = &self.outlet {
            status.output = outlet.series.path().to_owned();
            status.missing = outlet.missing.clone();
            (status.open, status.triggers) = (outlet.writer.open(), outlet.triggers);
            let older = outlet.series.finished().len().saturating_sub(MOST);
            status.recordings = outlet.series.finished().skip(older).filter_map(recording).collect();
            status.notes.extend(outlet.notes.iter().cloned());
        }
        status.missing.add(self.missing(&fills));
        let running = self.programs.iter().map(|program| program.trace.unanswered());
        status.unanswered = running.fold(Unanswered::default(), Unanswered::and);
        if let Sink::Chunk(chunk) = &self.sink {
            status.unanswered = status.unanswered.and(chunk.summary.unanswered());
            status.unrecorded = chunk.summary.unrecorded;
            status.programs.extend(chunk.summary.programs.iter().filter_map(ended_incomplete));
            status.recordings.extend(recording(&chunk.directory));
            status.notes.extend(
                chunk.summary.notes.iter().filter(|note| !self.template.notes.contains(note)).cloned(),
            );
        }
        status.notes.extend(self.memory().note());
        status.notes.extend(self.skipped.notes().chain(self.listener.refused()));
        status
    }
}

impl MemoryStatus {
    /// Returns a line of text if rings did not get the memory that they needed.
    pub(crate) fn note(self) -> Option<String> {
        let times = if self.short == 1 { "once".to_owned() } else { format!("{} times", self.short) };
        (self.short > 0).then(|| {
            format!(
                "{times} a program's ring got no more memory, of which the session may use {} MiB: events that found it full are \
                 counted as lost; allow more (--max-memory), or record fewer programs or events",
                self.budget >> 20
            )
        })
    }
}

/// A program that has ended and of which something could not be written.
fn ended_incomplete(program: &ProgramSummary) -> Option<ProgramStatus> {
    let rings = program.streams.iter().filter(|stream| stream.unwritten > 0).map(|stream| RingStatus {
        cpu: stream.cpu,
        bytes: stream.bytes,
        ring_full: stream.ring_full,
        too_large: stream.too_large,
        unwritten: stream.unwritten,
        unwritten_bytes: stream.unwritten_bytes,
        problem: stream.problem.clone(),
        ..RingStatus::default()
    });
    let rings: Vec<RingStatus> = rings.collect();
    let notes = vec!["it has ended".to_owned()];
    let (pid, name) = (program.pid, program.name.clone());
    let unanswered = program.unanswered;
    (!rings.is_empty()).then_some(ProgramStatus { pid, own_pid: pid, name, rings, unanswered, notes })
}

fn recording(directory: &crate::Directory) -> Option<RecordingStatus> {
    let summary = Summary::read(directory).ok()?;
    let finished = summary.state != crate::State::Recording;
    let events = summary.user_events().map(|user| user.saturating_add(summary.kernel_events()));
    Some(RecordingStatus {
        directory: directory.path().to_owned(),
        user_events_so_far: None,
        events: events.filter(|_| finished),
        bytes: summary.bytes(),
        lost: summary.lost(),
        finished,
        reason: summary.reason,
        rank: summary.rank,
    })
}

fn ring(stream: &StreamFill) -> RingStatus {
    RingStatus {
        cpu: stream.cpu,
        filled: stream.fill.used,
        size: stream.fill.capacity,
        bytes: stream.bytes,
        ring_full: stream.lost.total - stream.lost.too_large,
        too_large: stream.lost.too_large,
        unwritten: stream.unwritten.packets,
        unwritten_bytes: stream.unwritten.bytes,
        problem: stream.problem.clone(),
    }
}
