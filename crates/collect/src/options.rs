//! What to record, and how.

use globset::{Glob, GlobSet, GlobSetBuilder};
use sordino_event::Schema;
use sordino_ring::layout::Geometry;
use sordino_sched::CpuList;
use sordino_tracefs::Selection;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory to record into: made if it is not there, refused if it is not empty.
    pub output: PathBuf,
    /// What other recorders are told that this session is called.
    pub name: String,
    /// The kernel's events; none: the kernel is not recorded.
    pub kernel: Vec<Selection>,
    /// KiB of kernel buffer per CPU.
    pub kernel_buffer_kib: u64,
    /// The kernel's events of these threads and their children alone; empty: of all.
    pub kernel_threads: Vec<i32>,
    /// The programs' tracepoints.
    pub user: UserEvents,
    /// The programs' rings. Where they overwrite, so do the kernel's buffers: all keep the newest, and are written to disk when
    /// the recording ends.
    pub geometry: Geometry,
    /// When the collector looks for full sub-buffers, in rings that do not overwrite.
    pub polling: Polling,
    /// The CPUs that get buffers.
    pub cpus: CpuList,
    /// Whether nothing is recorded on others. If not, the programs' events on CPUs that come online meanwhile are.
    pub cpus_only: bool,
    /// How long, at most.
    pub duration: Option<Duration>,
    /// The CPU that the collector stays on.
    pub collector_cpu: Option<u32>,
    /// The collector's `SCHED_FIFO` priority.
    pub collector_priority: Option<u8>,
    /// Which programs.
    pub programs: Programs,
    /// The [session's directory](crate::session_dir), in which the recorder meets every program that starts; without one it
    /// hears of those that it starts itself, and finds others in `/proc`.
    pub session_dir: Option<PathBuf>,
}

/// Which programs are recorded.
#[derive(Clone, Debug)]
pub enum Programs {
    /// This command and all it starts.
    Command(CommandLine),
    /// These processes, and what they start as far as it says so itself.
    Pids(Vec<i32>),
    /// Every program that can be, also those that start later.
    All,
}

/// A command to start.
#[derive(Clone, Debug)]
pub struct CommandLine {
    /// The program, found in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// What to run in front of it: a command that becomes it, as another user for instance.
    pub prefix: Vec<OsString>,
}

/// When the collector looks for full sub-buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polling {
    /// Each time so much has passed.
    Timer(Duration),
    /// All the time.
    Busy,
    /// When a writer says so, by a system call of its own at the end of each sub-buffer.
    Wakeup,
}

impl Polling {
    /// The longest timer that loses nothing whatever a program does: within it, a core that writes 16 GB/s, several times
    /// what one can, does not fill a ring of this size; from 200 us to 10 ms.
    ///
    /// Looking costs: each look wakes a thread. For 2 million events a second and the default sizes, a timer of 200 us took
    /// 46 ms of CPU time for a million events, one of 2 ms took 9.
    pub fn safe_timer(geometry: Geometry) -> Self {
        const BYTES_PER_MICROSECOND: u64 = 16_000;
        let ring = geometry.size() as u64 * u64::from(geometry.count);
        Self::Timer(Duration::from_micros((ring / BYTES_PER_MICROSECOND).clamp(200, 10_000)))
    }
}

/// Which tracepoints are wanted, by their names.
#[derive(Clone, Debug)]
pub struct UserEvents {
    globs: GlobSet,
    patterns: Vec<String>,
}

impl UserEvents {
    /// Those whose `provider:name` matches one of the patterns, with `*` and `?` anywhere.
    ///
    /// # Errors
    /// What is wrong with which pattern.
    pub fn new(patterns: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut builder = GlobSetBuilder::new();
        let patterns: Vec<String> = patterns.into_iter().collect();
        for pattern in &patterns {
            // A provider's name alone means all of its tracepoints.
            let full =
                if pattern.contains([':', '*', '?']) { pattern.clone() } else { format!("{pattern}:*") };
            builder.add(Glob::new(&full).map_err(|error| format!("'{pattern}': {}", error.kind()))?);
        }
        let globs = builder.build().map_err(|error| error.to_string())?;
        Ok(Self { globs, patterns })
    }

    /// Whether this tracepoint is wanted.
    pub fn wants(&self, schema: &Schema) -> bool {
        self.globs.is_match(schema.full_name())
    }

    /// As they were given.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_event::Level;

    #[test]
    fn the_default_timer_follows_the_ring() {
        let timer = |size, count| Polling::safe_timer(Geometry::new(size, count).unwrap());
        assert_eq!(timer(1 << 20, 32), Polling::Timer(Duration::from_micros(2097)));
        assert_eq!(timer(16 << 10, 2), Polling::Timer(Duration::from_micros(200)));
        assert_eq!(timer(256 << 20, 8), Polling::Timer(Duration::from_millis(10)));
    }

    #[test]
    fn names_and_globs_choose_tracepoints() {
        let schema = |provider: &str, name: &str| Schema {
            provider: provider.to_owned(),
            name: name.to_owned(),
            level: Level::Info,
            location: None,
            fields: Vec::new(),
        };
        let events = UserEvents::new(["motor".to_owned(), "net:tx_*".to_owned()]).unwrap();
        assert!(events.wants(&schema("motor", "period")) && events.wants(&schema("net", "tx_done")));
        assert!(!events.wants(&schema("motors", "period")) && !events.wants(&schema("net", "rx")));
        assert!(UserEvents::new(["a[".to_owned()]).unwrap_err().starts_with("'a['"));
    }
}
