//! What a recording holds and what it lacks: `recording.json`.

use crate::Error;
use crate::clock::TraceClock;
use crate::convert::Pending;
use crate::directory::Directory;
use crate::kernel::Kernel;
use crate::missing::Missing;
use crate::options::Options;
use crate::placement::RecorderCpus;
use crate::rank::Rank;
use crate::shortfall::Shortfall;
use crate::unanswered::{Unanswered, Unrecorded};
use serde::{Deserialize, Serialize};
use sordino_event::Cpu;
use std::fs;

/// The version of this structure.
pub(crate) const SCHEMA: u32 = 1;

/// What a recording holds and what it lacks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Of this structure.
    pub schema: u32,
    /// Whether it is finished.
    pub state: State,
    /// The recorder's process, or its receiver's.
    pub recorder: u32,
    /// Whether it came as a stream that ended in its middle, or still comes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub received: bool,
    /// True if its recorder was killed, or its stream ended early: an unknown number of events is missing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cut_off: bool,
    /// What the session was called.
    pub name: String,
    /// When recording began, in nanoseconds after the epoch.
    pub begin_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
    /// The host's name.
    pub host: String,
    /// The kernel's release.
    pub kernel_release: String,
    /// The clock that stamped the events.
    pub clock: ClockSummary,
    /// The tracepoints that were wanted.
    pub user_patterns: Vec<String>,
    /// The kernel's events that were recorded.
    pub kernel_events: Vec<String>,
    /// KiB of kernel buffer that each CPU had.
    pub kernel_buffer_kib: u64,
    /// Whether buffers overwrote what was oldest: what is there is the newest, up to the end.
    #[serde(default)]
    pub overwrite: bool,
    /// Why a snapshot was taken; `None` if it is no snapshot.
    #[serde(default)]
    pub reason: Option<String>,
    /// How bad that is, of a snapshot that is ranked.
    #[serde(default)]
    pub rank: Option<Rank>,
    /// The programs.
    pub programs: Vec<ProgramSummary>,
    /// The kernel, by CPU.
    pub kernel: Vec<KernelStream>,
    /// Why the kernel's pages could not be written, for a while or to the end; what the kernel overwrote meanwhile counts as lost.
    #[serde(default)]
    pub kernel_problem: Option<String>,
    /// Programs that were recorded late or not at all: there was no room for their traces.
    #[serde(default)]
    pub unplaced: u64,
    /// Programs that registered and could not be recorded.
    #[serde(default)]
    pub unrecorded: Unrecorded,
    /// Of one that is incomplete, what is not in the kernel's pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pending: Option<Pending>,
    /// CPU time of the thread that emptied the rings, in seconds.
    pub collector_cpu_seconds: f64,
    /// CPU time that the recorder took, in seconds.
    pub recorder_cpu_seconds: f64,
    /// The CPUs of the recorder's threads, as of the end.
    #[serde(default)]
    pub recorder_cpus: RecorderCpus,
    /// What it was to hold and does not.
    #[serde(default)]
    pub shortfall: Shortfall,
    /// What else there is to know.
    pub notes: Vec<String>,
}

/// How far a recording is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its recorder is at work, or was killed.
    #[default]
    Recording,
    /// It is complete.
    Finished,
    /// It has ended, and some of the kernel's pages are not a trace yet: there was no room.
    Incomplete,
    /// Its recorder was killed; another one finished it.
    Recovered,
}

/// The clock that stamped the events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockSummary {
    /// `cycles` or `monotonic`.
    pub name: String,
    /// Why it is not the cycle counter.
    pub reason: Option<String>,
    /// Ticks in a second.
    pub hertz: f64,
    /// By how much that may be wrong, as a fraction.
    pub uncertainty: f64,
}

/// One program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramSummary {
    /// Its process.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// The program's file.
    pub executable: String,
    /// Its trace, below the recording's directory.
    pub trace: String,
    /// The time at which it was taken up, in nanoseconds after the epoch, if it ran before; its earlier hits are not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_up_ns: Option<i64>,
    /// Its rings.
    pub streams: Vec<StreamSummary>,
    /// Hits that came before the recorder's answer.
    #[serde(default)]
    pub unanswered: Unanswered,
    /// What else there is to know.
    pub notes: Vec<String>,
}

/// One ring of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamSummary {
    /// Whose ring; `None` for the shared one.
    pub cpu: Option<u32>,
    /// Bytes on disk.
    pub bytes: u64,
    /// Events; `None` if they were not counted.
    pub events: Option<u64>,
    /// Records lost because the ring was full.
    pub ring_full: u64,
    /// Records lost because they were too large.
    pub too_large: u64,
    /// Records that their writers did not finish.
    pub unfinished: u64,
    /// Sub-buffers that newer ones overwrote, as was wanted.
    #[serde(default)]
    pub overwritten: u64,
    /// Sub-buffers that could not be written to disk.
    pub unwritten: u64,
    /// Bytes of records in them.
    #[serde(default)]
    pub unwritten_bytes: u64,
    /// Events that were sent and did not arrive.
    #[serde(default)]
    pub unreceived: u64,
    /// What is wrong with it.
    pub problem: Option<String>,
}

/// The kernel's events of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelStream {
    /// The CPU.
    pub cpu: u32,
    /// Bytes on disk.
    pub bytes: u64,
    /// Events.
    pub events: u64,
    /// Records lost because the kernel's buffer was overwritten.
    pub lost: u64,
    /// Records that newer ones overwrote, as was wanted.
    #[serde(default)]
    pub overwritten: u64,
    /// Records that could not be written to disk.
    #[serde(default)]
    pub unwritten: u64,
    /// Events that were sent and did not arrive.
    #[serde(default)]
    pub unreceived: u64,
    /// Bytes of pages that are kept and could not be converted.
    #[serde(default)]
    pub unconverted: u64,
    /// There were more, and nobody knows how many.
    pub uncounted: bool,
    /// What was wrong with the kernel's pages.
    pub damage: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl KernelStream {
    pub(crate) fn of(cpu: Cpu) -> Self {
        Self { cpu: cpu.0, ..Self::default() }
    }
}

impl StreamSummary {
    /// All records that are missing; as many as a number holds if a broken program says more.
    pub fn lost(&self) -> u64 {
        [self.ring_full, self.too_large, self.unfinished, self.unreceived]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

impl Summary {
    /// Of a recording that begins.
    pub(crate) fn of(options: &Options, clock: &TraceClock, kernel: Option<&Kernel>) -> Self {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let reason = clock.not_cycles.as_ref();
        let not_cycles = reason.map(|reason| {
            format!("stamped with CLOCK_MONOTONIC: the cycle counter is no clock here ({reason})")
        });
        Self {
            schema: SCHEMA,
            recorder: std::process::id(),
            name: options.name.clone(),
            host: clock.hostname().to_owned(),
            kernel_release: release.trim().to_owned(),
            user_patterns: options.user.patterns(),
            kernel_events: kernel
                .map_or(Vec::new(), |kernel| kernel.formats.events().map(ToString::to_string).collect()),
            kernel_buffer_kib: kernel.map_or(0, |kernel| kernel.buffer_kib),
            overwrite: options.geometry.overwrite,
            notes: not_cycles.into_iter().collect(),
            ..Self::default()
        }
    }

    /// The programs' events, if they were counted; as many as a number holds if a broken summary has more.
    pub fn user_events(&self) -> Option<u64> {
        self.streams().try_fold(0u64, |sum, stream| Some(sum.saturating_add(stream.events?)))
    }

    /// The kernel's events.
    pub fn kernel_events(&self) -> u64 {
        self.kernel.iter().fold(0, |sum, stream| sum.saturating_add(stream.events))
    }

    /// All records that are known to be missing.
    pub fn lost(&self) -> u64 {
        let user = self.streams().map(StreamSummary::lost);
        let kernel = self.kernel.iter().flat_map(|cpu| [cpu.lost, cpu.unwritten, cpu.unreceived]);
        let unanswered = [self.unanswered().hits, self.unrecorded.hits];
        user.chain(kernel).chain(unanswered).fold(0, u64::saturating_add)
    }

    /// The programs' hits that came before the recorder's answer.
    pub fn unanswered(&self) -> Unanswered {
        self.programs.iter().map(|program| program.unanswered).fold(Unanswered::default(), Unanswered::and)
    }

    /// What could not be written.
    pub fn missing(&self) -> Missing {
        let unwritten = || self.streams().filter(|stream| stream.unwritten > 0);
        let sum = |counts: &mut dyn Iterator<Item = u64>| counts.fold(0, u64::saturating_add);
        // What the kernel overwrote while its pages could not be written.
        let overwritten = |stream: &KernelStream| if self.kernel_problem.is_some() { stream.lost } else { 0 };
        let kernel = self.kernel.iter();
        Missing {
            sub_buffers: sum(&mut unwritten().map(|stream| stream.unwritten)),
            bytes: sum(&mut unwritten().map(|stream| stream.unwritten_bytes)),
            kernel_events: sum(&mut kernel.clone().map(|cpu| cpu.unwritten.saturating_add(overwritten(cpu)))),
            kernel_pages: sum(&mut kernel.map(|cpu| cpu.unconverted)),
            recordings: 0,
            programs: self.unplaced,
            reason: unwritten().find_map(|stream| stream.problem.clone()).or(self.kernel_problem.clone()),
        }
    }

    /// Whether none of the kernel's events is missing.
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

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        let (user, kernel) =
            (self.streams().map(|stream| stream.bytes), self.kernel.iter().map(|cpu| cpu.bytes));
        user.chain(kernel).fold(0, u64::saturating_add)
    }

    fn streams(&self) -> impl Iterator<Item = &StreamSummary> {
        self.programs.iter().flat_map(|program| &program.streams)
    }

    /// Writes it into its recording.
    pub(crate) fn write(&self, directory: &Directory) -> Result<(), Error> {
        let failed = |error: serde_json::Error| Error::output(directory.path())(error.into());
        directory.write_summary(&(serde_json::to_string_pretty(self).map_err(failed)? + "\n"))
    }

    /// That of a recording.
    ///
    /// # Errors
    /// [`Error::NoRecording`] if it can't be read or makes no sense.
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
