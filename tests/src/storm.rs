//! Control of `programs/storms.c`: its parameters, and its counters in shared memory that outlives it.

use crate::verified::mixed;
use crate::{NativeCompiler, Scene};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Number of lanes of a storm, as in `storms.c`.
const LANES: usize = 1024;
/// Offsets of the words behind the lanes, in words.
const PID: usize = 2 * LANES;
const STOP: usize = PID + 1;
const GO: usize = PID + 2;
/// Size of the shared file in bytes.
const SIZE: usize = 8 * (GO + 1);

/// Loads that `storms.c` implements.
pub const LOADS: [&str; 7] = ["signals", "migration", "fifo", "fork", "vfork", "exec", "plugin"];

/// A program and its plug-in, compiled for storms.
#[derive(Debug)]
pub struct StormProgram {
    program: PathBuf,
    plugin: PathBuf,
}

impl StormProgram {
    /// Compiles the program and its plug-in.
    pub fn new(scene: &Scene) -> Self {
        let plugin = scene.compile(NativeCompiler::Gcc, "verified_plugin.c", &["-shared", "-fPIC"]);
        Self { program: scene.program("storms.c"), plugin }
    }

    /// Returns the command line of a run of this many milliseconds, and its shared memory.
    pub fn storm(
        &self,
        scene: &Scene,
        seed: u64,
        milliseconds: u64,
        loads: &[&str],
    ) -> (Vec<String>, StormMemory) {
        let file = scene.fresh("shared");
        fs::write(&file, [0; SIZE]).expect("a file");
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let fixed = [
            text(&self.program),
            seed.to_string(),
            milliseconds.to_string(),
            text(&file),
            text(&self.plugin),
        ];
        let command = fixed.into_iter().chain(loads.iter().map(|&load| load.to_owned())).collect();
        (command, StormMemory(File::options().read(true).write(true).open(file).expect("the file")))
    }
}

/// Memory that a storm shares with its observers.
#[derive(Debug)]
pub struct StormMemory(File);

impl StormMemory {
    fn word(&self, index: usize) -> u64 {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, 8 * index as u64).expect("a word");
        u64::from_ne_bytes(bytes)
    }

    /// Returns true if the storm is about to end.
    pub fn is_over(&self) -> bool {
        self.word(STOP) != 0
    }

    fn set(&self, index: usize) {
        self.0.write_all_at(&1u64.to_ne_bytes(), 8 * index as u64).expect("a word");
    }

    /// Returns the storm's process id, 0 before the process has started.
    pub fn pid(&self) -> i32 {
        self.word(PID) as i32
    }

    /// Lets the waiting storm begin.
    pub fn go(&self) {
        self.set(GO);
    }

    /// Lets the storm end.
    pub fn stop(&self) {
        self.set(STOP);
    }

    fn counts(&self, index: usize) -> BTreeMap<u32, u64> {
        let counts = (0..LANES).map(|lane| (lane as u32, self.word(2 * lane + index)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Returns the number of begun hits of each lane.
    pub fn begun(&self) -> BTreeMap<u32, u64> {
        self.counts(0)
    }

    /// Returns the number of completed hits of each lane.
    pub fn done(&self) -> BTreeMap<u32, u64> {
        self.counts(1)
    }
}

/// Returns the number in an environment variable: `STORM_SECONDS`, `STORM_KILLS` or `STORM_SEED`.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Rounds of a storm that share a part of `STORM_SECONDS` (default 30 seconds). The seed of a failed round is printed;
/// with it as `STORM_SEED`, that round comes first.
#[derive(Debug)]
pub struct StormRounds {
    seed: u64,
    until: Instant,
    begun: bool,
}

impl StormRounds {
    /// Begins the rounds of one of `tests` storms that share the time.
    pub fn one_of(tests: u32) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
        let time = Duration::from_secs(number("STORM_SECONDS").unwrap_or(30)) / tests;
        Self { seed: number("STORM_SEED").unwrap_or(now), until: Instant::now() + time, begun: false }
    }

    /// Returns the next round's seed and its length in milliseconds; `None` if the time is over.
    pub fn next_round(&mut self) -> Option<(u64, u64)> {
        let left = self.until.saturating_duration_since(Instant::now()).as_millis() as u64;
        let first = !std::mem::replace(&mut self.begun, true);
        if !first {
            self.seed = mixed(self.seed);
        }
        (first || left > 0).then_some((self.seed, left.clamp(500, 4000)))
    }
}

impl Drop for StormRounds {
    #[allow(clippy::print_stderr, reason = "a test's last word")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the storm's seed: STORM_SEED={}", self.seed);
        }
    }
}
