//! The summary of a recording, `recording.json`: its contents and its losses.

use crate::directory::Directory;
use crate::error::Error;
use crate::kernel::{CpuNumber, Emptied, KernelRecorder};
use crate::missing::UnwrittenData;
use crate::options::RecordingOptions;
use crate::placement::RecorderCpus;
use crate::rank::Rank;
use crate::shortfall::Shortfall;
use crate::unanswered::{SkippedPrograms, Unanswered, UnrecordedPrograms};
use serde::{Deserialize, Serialize};
use sordino_event::Cpu;
use sordino_inspect::clock::TraceClock;
use sordino_inspect::counters::CounterOffset;
use sordino_inspect::kernel::RunningKernel;
use sordino_inspect::settings::machine_settings;
use std::collections::BTreeMap;

/// The version of this structure.
pub(crate) const SCHEMA: u32 = 1;

/// The contents and the losses of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The version of this structure.
    pub schema: u32,
    /// The progress of the recording.
    pub state: State,
    /// The recorder's process id, or its receiver's.
    pub recorder: u32,
    /// True for a stream that is still being received, or ended early.
    #[serde(default, skip_serializing_if = "is_false")]
    pub received: bool,
    /// True if its recorder was killed, or its stream ended early: an unknown number of events is missing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cut_off: bool,
    /// The name of the session.
    pub name: String,
    /// The time at which recording began, in nanoseconds since the epoch.
    pub begin_ns: u64,
    /// The duration of the recording in nanoseconds.
    pub duration_ns: u64,
    /// The name of the recorded host.
    pub host: String,
    /// The release of the kernel.
    pub kernel_release: String,
    /// The settings of the machine when recording began, by the names of
    /// [`SETTINGS`](sordino_inspect::settings::SETTINGS), as far as they could be read.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// The command line that records so again.
    #[serde(default)]
    pub command: Vec<String>,
    /// The clock that timestamps the events.
    pub clock: ClockSummary,
    /// The rules that enabled tracepoints.
    pub user_patterns: Vec<String>,
    /// The recorded events of the kernel.
    pub kernel_events: Vec<String>,
    /// Size of each CPU's kernel buffer, in KiB.
    pub kernel_buffer_kib: u64,
    /// True if buffers overwrote their oldest records: the recording has the newest, up to the end.
    #[serde(default)]
    pub overwrite: bool,
    /// The reason of a snapshot; `None` for other recordings.
    #[serde(default)]
    pub reason: Option<String>,
    /// The rank of a snapshot that is ranked.
    #[serde(default)]
    pub rank: Option<Rank>,
    /// The recorded programs, sorted by trace.
    pub programs: Vec<ProgramSummary>,
    /// The streams of the kernel, by CPU.
    pub kernel: Vec<KernelStream>,
    /// The reason that the kernel's pages could not be written, for a while or to the end. Records that the kernel
    /// overwrote meanwhile count as lost.
    #[serde(default)]
    pub kernel_problem: Option<String>,
    /// Programs that were recorded late or not at all because there was no room for their traces.
    #[serde(default)]
    pub unplaced: u64,
    /// Programs that registered and could not be recorded.
    #[serde(default)]
    pub unrecorded: UnrecordedPrograms,
    /// Programs that were examined and not recorded, by user, name and reason; the latest 200, of an ordinary user 20.
    #[serde(default)]
    pub skipped: Vec<SkippedPrograms>,
    /// For an incomplete recording, the facts for converting the kernel's pages that the pages do not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingConversion>,
    /// CPU time of the thread that emptied the rings, in seconds.
    pub collector_cpu_seconds: f64,
    /// CPU time that the recorder took, in seconds.
    pub recorder_cpu_seconds: f64,
    /// The CPUs of the recorder's threads at the end.
    #[serde(default)]
    pub recorder_cpus: RecorderCpus,
    /// Missing events, with the reasons.
    #[serde(default)]
    pub shortfall: Shortfall,
    /// Further notes for the user.
    pub notes: Vec<String>,
}

/// The progress of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The recorder is working, or was killed.
    #[default]
    Recording,
    /// The recording is complete.
    Finished,
    /// The recording has ended, but some of the kernel's pages are not converted yet: there was no room.
    Incomplete,
    /// The recorder was killed; another one completed the recording.
    Recovered,
}

/// The clock that timestamps the events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockSummary {
    /// The clock's name: `cycles` or `monotonic`.
    pub name: String,
    /// The reason not to use the cycle counter.
    pub reason: Option<String>,
    /// Ticks in a second.
    pub hertz: f64,
    /// The uncertainty of the rate, as a fraction.
    pub uncertainty: f64,
    /// The offsets of the CPUs' cycle counters, as they were measured before, during and after the recording.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offsets: Vec<OffsetSummary>,
}

/// The offset of a CPU's cycle counter at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffsetSummary {
    /// The time of the measurement, in ticks of the clock.
    pub at: u64,
    /// The CPU of the counter.
    #[serde(with = "CpuNumber")]
    pub cpu: Cpu,
    /// The number of ticks by which it is ahead of the clock: the counter of the CPU with the lowest number that was
    /// measured.
    pub ticks: i64,
    /// The greatest error of that number.
    pub uncertainty: u64,
}

impl From<&CounterOffset> for OffsetSummary {
    fn from(measured: &CounterOffset) -> Self {
        let CounterOffset { at, cpu, offset, uncertainty } = *measured;
        Self { at: at.0, cpu, ticks: offset, uncertainty }
    }
}

/// A recorded program, with its streams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramSummary {
    /// The id of its process.
    pub pid: i32,
    /// The name of the process.
    pub name: String,
    /// Path of the program's file.
    pub executable: String,
    /// Path of its trace, relative to the recording's directory.
    pub trace: String,
    /// The time at which the session attached, in nanoseconds since the epoch, if the program ran before; earlier hits
    /// are not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_up_ns: Option<i64>,
    /// The streams of its rings.
    pub streams: Vec<StreamSummary>,
    /// Hits before the recorder's answer.
    #[serde(default)]
    pub unanswered: Unanswered,
    /// Further notes for the user.
    pub notes: Vec<String>,
}

/// The stream of one ring of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamSummary {
    /// The ring's CPU; `None` for the shared ring.
    pub cpu: Option<u32>,
    /// Size on disk in bytes.
    pub bytes: u64,
    /// The number of events; `None` if they were not counted.
    pub events: Option<u64>,
    /// Records lost because the ring was full.
    pub ring_full: u64,
    /// Records lost because they were too large.
    pub too_large: u64,
    /// Records that their writers did not commit.
    pub unfinished: u64,
    /// Sub-buffers that newer ones overwrote, in overwrite mode.
    #[serde(default)]
    pub overwritten: u64,
    /// Sub-buffers that could not be written to disk.
    pub unwritten: u64,
    /// Bytes of records in these sub-buffers.
    #[serde(default)]
    pub unwritten_bytes: u64,
    /// Events that were sent but did not arrive.
    #[serde(default)]
    pub unreceived: u64,
    /// A description of an error, if there is one.
    pub problem: Option<String>,
}

/// The kernel's events of one CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelStream {
    /// The CPU of the stream.
    #[serde(with = "CpuNumber")]
    pub cpu: Cpu,
    /// Size on disk in bytes.
    pub bytes: u64,
    /// The number of events.
    pub events: u64,
    /// Records lost because the kernel's buffer was overwritten.
    pub lost: u64,
    /// Records that newer ones overwrote, in overwrite mode.
    #[serde(default)]
    pub overwritten: u64,
    /// Records that could not be written to disk.
    #[serde(default)]
    pub unwritten: u64,
    /// Events that were sent but did not arrive.
    #[serde(default)]
    pub unreceived: u64,
    /// Bytes of pages that are kept but could not be converted.
    #[serde(default)]
    pub unconverted: u64,
    /// True if an unknown number of further records is missing.
    pub uncounted: bool,
    /// A description of the damage of the kernel's pages.
    pub damage: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl KernelStream {
    /// Returns the summary of a stream without events.
    pub fn of(cpu: Cpu) -> Self {
        Self {
            cpu,
            bytes: 0,
            events: 0,
            lost: 0,
            overwritten: 0,
            unwritten: 0,
            unreceived: 0,
            unconverted: 0,
            uncounted: false,
            damage: None,
        }
    }
}

impl StreamSummary {
    /// Returns the number of missing records, saturating in case a faulty program reports more.
    pub fn lost(&self) -> u64 {
        [self.ring_full, self.too_large, self.unfinished, self.unreceived]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

impl Summary {
    /// Creates the summary of a recording that begins.
    pub fn of(options: &RecordingOptions, clock: &TraceClock, kernel: Option<&KernelRecorder>) -> Self {
        let reason = clock.not_cycles.as_ref();
        let not_cycles = reason.map(|reason| {
            format!("stamped with CLOCK_MONOTONIC: the cycle counter is no clock here ({reason})")
        });
        Self {
            schema: SCHEMA,
            recorder: std::process::id(),
            name: options.name.clone(),
            host: clock.hostname().to_owned(),
            kernel_release: RunningKernel::read().release,
            settings: machine_settings(),
            command: options.command.clone(),
            user_patterns: options.user.patterns(),
            kernel_events: kernel
                .map_or(Vec::new(), |kernel| kernel.formats.events().map(ToString::to_string).collect()),
            kernel_buffer_kib: kernel.map_or(0, |kernel| kernel.buffer_kib),
            overwrite: options.geometry.overwrite,
            notes: not_cycles.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Returns the number of the programs' events, if they were counted; saturating in case a faulty summary has more.
    pub fn user_events(&self) -> Option<u64> {
        self.streams().try_fold(0u64, |sum, stream| Some(sum.saturating_add(stream.events?)))
    }

    /// Returns the number of the kernel's events.
    pub fn kernel_events(&self) -> u64 {
        self.kernel.iter().fold(0, |sum, stream| sum.saturating_add(stream.events))
    }

    /// Returns the number of records that are known to be missing.
    pub fn lost(&self) -> u64 {
        let user = self.streams().map(StreamSummary::lost);
        let kernel = self.kernel.iter().flat_map(|cpu| [cpu.lost, cpu.unwritten, cpu.unreceived]);
        let unanswered = [self.unanswered().hits, self.unrecorded.hits];
        user.chain(kernel).chain(unanswered).fold(0, u64::saturating_add)
    }

    /// Returns the programs' hits before the recorder's answer.
    pub fn unanswered(&self) -> Unanswered {
        self.programs.iter().map(|program| program.unanswered).fold(Unanswered::default(), Unanswered::and)
    }

    /// Returns the data that could not be written.
    pub fn missing(&self) -> UnwrittenData {
        let unwritten = || self.streams().filter(|stream| stream.unwritten > 0);
        let sum = |counts: &mut dyn Iterator<Item = u64>| counts.fold(0, u64::saturating_add);
        // Records that the kernel overwrote while its pages could not be written.
        let overwritten = |stream: &KernelStream| if self.kernel_problem.is_some() { stream.lost } else { 0 };
        let kernel = self.kernel.iter();
        UnwrittenData {
            sub_buffers: sum(&mut unwritten().map(|stream| stream.unwritten)),
            bytes: sum(&mut unwritten().map(|stream| stream.unwritten_bytes)),
            kernel_events: sum(&mut kernel.clone().map(|cpu| cpu.unwritten.saturating_add(overwritten(cpu)))),
            kernel_pages: sum(&mut kernel.map(|cpu| cpu.unconverted)),
            recordings: 0,
            programs: self.unplaced,
            reason: unwritten().find_map(|stream| stream.problem.clone()).or(self.kernel_problem.clone()),
        }
    }

    /// Returns true if none of the kernel's events is missing.
    pub(crate) fn has_all_of_the_kernel(&self) -> bool {
        let is_whole = |cpu: &KernelStream| {
            !cpu.uncounted && [cpu.lost, cpu.unwritten, cpu.unreceived, cpu.unconverted] == [0; 4]
        };
        self.kernel.iter().all(is_whole)
    }

    /// Returns true if more is missing than could be counted.
    pub fn has_uncounted_loss(&self) -> bool {
        self.state == State::Recording
            || self.cut_off
            || self.unplaced > 0
            || self.unrecorded.is_uncounted()
            || self.unanswered().uncounted
            || self.kernel.iter().any(|stream| stream.uncounted || stream.unconverted > 0)
            || self.streams().any(|stream| stream.unwritten > 0 || stream.problem.is_some())
    }

    /// Returns the size on disk in bytes.
    pub fn bytes(&self) -> u64 {
        let (user, kernel) =
            (self.streams().map(|stream| stream.bytes), self.kernel.iter().map(|cpu| cpu.bytes));
        user.chain(kernel).fold(0, u64::saturating_add)
    }

    fn streams(&self) -> impl Iterator<Item = &StreamSummary> {
        self.programs.iter().flat_map(|program| &program.streams)
    }

    /// Writes the summary into its recording.
    pub fn write(&self, directory: &Directory) -> Result<(), Error> {
        let failed = |error: serde_json::Error| Error::output(directory.path())(error.into());
        directory.write_summary(&(serde_json::to_string_pretty(self).map_err(failed)? + "\n"))
    }

    /// Reads the summary of a recording.
    ///
    /// # Errors
    /// [`Error::NoRecording`] if it can't be read or is invalid.
    pub fn read(directory: &Directory) -> Result<Self, Error> {
        let path = directory.path().to_owned();
        let no = |reason: String| Error::NoRecording { path: path.clone(), reason };
        let text = directory.read_summary().map_err(|error| no(error.to_string()))?;
        let summary: Self =
            serde_json::from_str(&text).map_err(|error| no(format!("recording.json: {error}")))?;
        if summary.schema > SCHEMA {
            return Err(no(format!(
                "recording.json has schema {}, this sordino knows {SCHEMA}",
                summary.schema
            )));
        }
        Ok(summary)
    }
}

/// The facts needed to convert a recording's pages later, which the pages do not hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PendingConversion {
    /// The timestamps at which recording began and ended.
    pub begin: u64,
    /// The end of the recording, in ticks of its clock.
    pub end: u64,
    /// The state of each CPU's kernel buffer.
    pub kernel: Vec<Emptied>,
}
