//! The status of a session.

use serde::{Deserialize, Serialize};
use sordino_collect::missing::UnwrittenData;
use sordino_collect::placement::RecorderCpus;
use sordino_collect::rank::Rank;
use sordino_collect::shortfall::Shortfall;
use sordino_collect::unanswered::{SkippedPrograms, Unanswered, UnrecordedPrograms};
use std::path::PathBuf;

/// The status of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The version of this structure.
    pub schema: u32,
    /// The name of the session.
    pub name: String,
    /// The recorder's process id.
    pub recorder: u32,
    /// The time since recording began, in nanoseconds.
    pub duration_ns: u64,
    /// The data that could not be written so far.
    #[serde(default)]
    pub missing: UnwrittenData,
    /// True for a flight recorder: its buffers overwrite, and snapshots are taken. Otherwise the session writes to
    /// disk.
    pub overwrite: bool,
    /// The directory of its recordings.
    pub output: PathBuf,
    /// The newest hundred recordings, oldest first, the one in progress last.
    pub recordings: Vec<RecordingStatus>,
    /// The number of recordings that are being completed.
    pub open: usize,
    /// The number of times that an event, or a program's end, triggered a snapshot.
    pub triggers: u64,
    /// The rules by which tracepoints are recorded.
    pub user: Vec<String>,
    /// The recorded events of the kernel.
    pub kernel: Vec<String>,
    /// The programs that are recorded, and ended ones that are incomplete.
    pub programs: Vec<ProgramStatus>,
    /// Unanswered hits that the present chunk, or memory, lacks, of running and of ended programs.
    #[serde(default)]
    pub unanswered: Unanswered,
    /// Programs that registered and could not be recorded.
    #[serde(default)]
    pub unrecorded: UnrecordedPrograms,
    /// Programs that were examined and are not recorded, by user, name and reason.
    #[serde(default)]
    pub skipped: Vec<SkippedPrograms>,
    /// The number of ended programs whose records are kept for snapshots.
    pub ended: usize,
    /// The number of ended programs whose records are no longer kept.
    pub forgotten: u64,
    /// CPU time that the recorder took, in seconds.
    pub recorder_cpu_seconds: f64,
    /// The CPUs of the recorder's threads.
    #[serde(default)]
    pub recorder_cpus: RecorderCpus,
    /// The number of checks of processes in `/proc` to find programs.
    #[serde(default)]
    pub processes_looked_at: u64,
    /// The memory of the programs' rings.
    #[serde(default)]
    pub memory: MemoryStatus,
    /// Missing events so far, with the reasons.
    #[serde(default)]
    pub shortfall: Shortfall,
    /// Further notes for the user.
    pub notes: Vec<String>,
}

/// The memory of the programs' rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// Bytes in use by the rings.
    pub used: u64,
    /// Bytes that the rings may use (`--max-memory`).
    pub budget: u64,
    /// The number of times that a ring did not get the memory that it needed, because of that limit.
    pub short: u64,
    /// The number of such times because the machine, or a control group of the recorder, had none left.
    #[serde(default)]
    pub exhausted: u64,
}

/// One of a session's recordings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordingStatus {
    /// Path of the recording.
    pub directory: PathBuf,
    /// The reason of a snapshot; `None` for other recordings.
    pub reason: Option<String>,
    /// The rank of a snapshot that is ranked.
    #[serde(default)]
    pub rank: Option<Rank>,
    /// The number of events, if they were counted.
    pub events: Option<u64>,
    /// The number of the programs' events in a recording in progress, up to each ring's last complete sub-buffer on
    /// disk. The client counts them with [`user_events_so_far`](sordino_collect::user_events_so_far), not the recorder.
    #[serde(default)]
    pub user_events_so_far: Option<u64>,
    /// Size of the recording in bytes.
    pub bytes: u64,
    /// Records that are known to be missing.
    pub lost: u64,
    /// True if the recording is complete.
    pub finished: bool,
}

/// A program that is being recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramStatus {
    /// The id of its process.
    pub pid: i32,
    /// The process id in its own pid namespace.
    pub own_pid: i32,
    /// The name of the process.
    pub name: String,
    /// The state of its rings.
    pub rings: Vec<RingStatus>,
    /// Hits before the recorder's answer.
    #[serde(default)]
    pub unanswered: Unanswered,
    /// Further notes for the user.
    pub notes: Vec<String>,
}

/// The state of a ring.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RingStatus {
    /// The ring's CPU; `None` for the shared ring.
    pub cpu: Option<u32>,
    /// Bytes that wait to be written, or to be overwritten.
    pub filled: u64,
    /// Capacity of the ring in bytes.
    pub size: u64,
    /// Bytes of the present chunk on disk.
    pub bytes: u64,
    /// Records lost because the ring was full.
    pub ring_full: u64,
    /// Records lost because they were too large.
    pub too_large: u64,
    /// Sub-buffers that could not be written to disk.
    pub unwritten: u64,
    /// Bytes of records in these sub-buffers.
    #[serde(default)]
    pub unwritten_bytes: u64,
    /// A description of an error, if there is one.
    pub problem: Option<String>,
}

impl MemoryStatus {
    /// Returns a line of text for each reason for which rings did not get the memory that they needed.
    pub(crate) fn notes(self) -> impl Iterator<Item = String> {
        let budget = self.budget >> 20;
        let may = format!("the session may use {budget} MiB");
        let none = "the machine, or a control group of the recorder, has too little left".to_owned();
        let reasons = [(self.short, may, "--max-memory"), (self.exhausted, none, "memory.max of the group")];
        reasons.into_iter().filter(|(count, ..)| *count > 0).map(|(count, which, remedy)| {
            let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
            format!(
                "{times} a program's ring got no more memory, of which {which}: events that found it full are counted as lost; \
                 allow more ({remedy}), or record fewer programs or events"
            )
        })
    }
}
