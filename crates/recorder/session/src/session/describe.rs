//! The status of a session, put together from its parts.

use super::recordings::RecordSink;
use super::state::RecordingSession;
use super::status::{MemoryStatus, ProgramStatus, RecordingStatus, RingStatus, Status};
use rustix::time::ClockId;
use sordino_collect::drain::{ProgramFill, StreamFill};
use sordino_collect::missing::UnwrittenData;
use sordino_collect::program::Traced;
use sordino_collect::summary::{ProgramSummary, Summary};
use sordino_collect::unanswered::Unanswered;
use sordino_inspect::threads::cpu_seconds;
use sordino_intake::Memory;

/// Maximum number of recordings that are listed: each one's summary is read.
const MOST: usize = 100;

impl RecordingSession<'_> {
    /// Returns the data of the present chunk that could not be written.
    fn missing(&self, fills: &[ProgramFill]) -> UnwrittenData {
        let RecordSink::Chunk(chunk) = &self.recordings.sink else { return UnwrittenData::default() };
        let mut missing = chunk.summary.missing();
        for stream in
            fills.iter().flat_map(|fill| &fill.streams).filter(|stream| stream.unwritten.packets > 0)
        {
            missing.add(UnwrittenData {
                sub_buffers: stream.unwritten.packets,
                bytes: stream.unwritten.bytes,
                reason: stream.problem.clone(),
                ..UnwrittenData::default()
            });
        }
        missing.add(UnwrittenData { kernel_events: self.kernel.lost, ..UnwrittenData::default() });
        missing
    }

    pub(super) fn memory(&self) -> MemoryStatus {
        let Memory { used, budget, short, exhausted } = self.arrivals.intake.memory();
        MemoryStatus { used, budget, short, exhausted }
    }

    pub(super) fn status(&mut self) -> Status {
        let fills = self.collector.fill();
        self.findings.has_events |= fills.iter().any(ProgramFill::has_any);
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
        let (ended, forgotten) = match &self.recordings.sink {
            RecordSink::Memory(memory) => memory.ended(),
            RecordSink::Chunk(_) => (0, 0),
        };
        let mut status = Status {
            schema: 1,
            name: self.options.recording.name.clone(),
            recorder: std::process::id(),
            duration_ns: self.progress.began.elapsed().as_nanos() as u64,
            overwrite: self.options.recording.geometry.overwrite,
            user: self.user.patterns(),
            kernel: self.recordings.template.kernel_events.clone(),
            programs: self.recorded.programs.iter().map(program).collect(),
            unrecorded: self.recordings.template.unrecorded,
            skipped: self.findings.skipped.programs(),
            ended,
            forgotten,
            recorder_cpu_seconds: cpu_seconds(ClockId::ProcessCPUTime),
            recorder_cpus: self.placing.placement.cpus(),
            processes_looked_at: self.arrivals.search.looked_at(),
            memory: self.memory(),
            shortfall: self.shortfall(),
            notes: self.recordings.template.notes.clone(),
            ..Status::default()
        };
        if let Some(outlet) = &self.recordings.outlet {
            status.output = outlet.series.path().to_owned();
            status.missing = outlet.missing.clone();
            (status.open, status.triggers) = (outlet.writer.open(), outlet.triggers.all);
            let older = outlet.series.finished().len().saturating_sub(MOST);
            status.recordings = outlet.series.finished().skip(older).filter_map(recording).collect();
            status.notes.extend(outlet.notes.iter().cloned());
        }
        status.missing.add(self.missing(&fills));
        let running = self.recorded.programs.iter().map(|program| program.trace.unanswered());
        status.unanswered = running.fold(Unanswered::default(), Unanswered::and);
        if let RecordSink::Chunk(chunk) = &self.recordings.sink {
            status.unanswered = status.unanswered.and(chunk.summary.unanswered());
            status.unrecorded = chunk.summary.unrecorded;
            status.programs.extend(chunk.summary.programs.iter().filter_map(ended_incomplete));
            status.recordings.extend(recording(&chunk.directory));
            status.notes.extend(
                chunk
                    .summary
                    .notes
                    .iter()
                    .filter(|note| !self.recordings.template.notes.contains(note))
                    .cloned(),
            );
        }
        status.notes.extend(self.memory().notes());
        status.notes.extend(self.findings.skipped.notes().chain(self.listener.refused()));
        status
    }
}

/// Returns an ended program of which something could not be written.
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

fn recording(directory: &sordino_collect::Directory) -> Option<RecordingStatus> {
    let summary = Summary::read(directory).ok()?;
    let finished = summary.state != sordino_collect::State::Recording;
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
        cpu: stream.cpu.map(|cpu| cpu.0),
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
