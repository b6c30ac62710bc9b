//! The options of a session.

use sordino_collect::options::{Keep, RecordingOptions};
use sordino_filter::rule::Ranking;
use sordino_sched::CpuList;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The options of a session: the programs, the limits, the output, and what each recording needs.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The options of each recording.
    pub recording: RecordingOptions,
    /// The directory to record into: created if it does not exist, an error if it is not empty.
    pub output: PathBuf,
    /// The programs to record.
    pub programs: Programs,
    /// True if no program is recorded: a command is only started and waited for.
    pub kernel_only: bool,
    /// True if rings have all of their pages from the start. Rings that overwrite, and those for which programs wait,
    /// always have; others get pages while they are used.
    pub whole_rings: bool,
    /// Bytes that the programs' rings may use together; by default a quarter of the memory.
    pub max_memory: Option<u64>,
    /// Time that a program waits for room in a full ring that does not overwrite, if the program allows it; otherwise
    /// the record is lost.
    pub block: Option<Duration>,
    /// True if nothing is recorded on CPUs other than `recording.cpus`. Otherwise programs' events on CPUs that come
    /// online later are recorded.
    pub cpus_only: bool,
    /// Maximum duration of the recording.
    pub duration: Option<Duration>,
    /// True if the calling thread gives up rights once it records; the recorder's own threads always do. See
    /// [`keep_needed_rights`](sordino_inspect::rights::keep_needed_rights).
    pub confine: bool,
    /// The user and the group that own the recording in the end; `None` for the recorder's.
    pub reader: Option<(u32, u32)>,
    /// Returns the CPUs that are shielded at present, to which the recorder's threads do not move.
    pub shielded: fn() -> CpuList,
    /// The options of a series of recordings, of which `output` is then the directory; `None` for a single one.
    pub series: Option<SeriesOptions>,
}

impl SessionOptions {
    /// Returns these options for a series of recordings, which waits for room on a full disk.
    #[must_use]
    pub fn with_series(self, series: SeriesOptions) -> Self {
        let recording = RecordingOptions { is_persistent: true, ..self.recording };
        Self { recording, series: Some(series), ..self }
    }
}

/// The options of a series of recordings: a session that outlives the shell that started it.
#[derive(Clone, Debug)]
pub struct SeriesOptions {
    /// The session's runtime directory, by which programs and commands find it, see
    /// [`session_dir`](sordino_intake::runtime::session_dir).
    pub runtime: PathBuf,
    /// The rotation into chunks, if the buffers do not overwrite.
    pub rotation: Rotation,
    /// The settings for snapshots, if the buffers overwrite.
    pub snapshots: Snapshots,
    /// The number or size of recordings to keep.
    pub keep: Keep,
}

/// The conditions for beginning another chunk; the first one that holds counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rotation {
    /// Size of a chunk, in bytes.
    pub size: Option<u64>,
    /// Duration of a chunk.
    pub every: Option<Duration>,
}

/// The settings for automatic snapshots of a flight recorder.
#[derive(Clone, Debug)]
pub struct Snapshots {
    /// The time before the request that a snapshot includes; by default all that is available.
    pub last: Option<Duration>,
    /// Minimum time between two snapshots requested by programs; requests within it are only counted.
    pub hold_off: Duration,
    /// Maximum number of snapshots requested by programs.
    pub most: Option<u64>,
    /// The kinds of program end that cause a snapshot.
    pub ends: Vec<ProgramEnd>,
    /// The ranking by which only the worst snapshots requested by events are kept; by default all are.
    pub worst: Option<Worst>,
}

/// The worst snapshots to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worst {
    /// Number of snapshots to keep.
    pub count: usize,
    /// The value by which snapshots are ranked.
    pub ranking: Ranking,
}

/// A way in which a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// By a signal whose default action is to dump core, even if no core is written.
    Crash,
    /// With a status other than 0, or by a signal.
    Failure,
    /// Any end of the program.
    Any,
}

/// The programs that are recorded.
#[derive(Clone, Debug)]
pub enum Programs {
    /// This command and all programs that it starts.
    Command(CommandLine),
    /// These processes, and programs started by them that register.
    Pids(Vec<i32>),
    /// All programs linked with sordino, including those that start later.
    All,
}

/// A command to start.
#[derive(Clone, Debug)]
pub struct CommandLine {
    /// The program, found in `PATH`.
    pub program: PathBuf,
    /// The arguments of the program.
    pub arguments: Vec<OsString>,
    /// A command to run in front, which executes the program in the end: for example as another user.
    pub prefix: Vec<OsString>,
}
