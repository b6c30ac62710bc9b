//! `programs/storms.c`, from outside: its parameters, and what it says of itself in memory that outlives it.

use crate::verified::mixed;
use crate::{Compiler, Scene};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Lanes of a storm, as in `storms.c`.
const LANES: usize = 1024;
/// The words behind the lanes.
const PID: usize = 2 * LANES;
const STOP: usize = PID + 1;
const GO: usize = PID + 2;
/// The storm's size in its file.
const SIZE: usize = 8 * (GO + 1);

/// All that `storms.c` knows.
pub const LOADS: [&str; 7] = ["signals", "migration", "fifo", "fork", "vfork", "exec", "plugin"];

/// A program that is compiled for storms.
#[derive(Debug)]
pub struct Program {
    program: PathBuf,
    plugin: PathBuf,
}

impl Program {
    /// Compiles it.
    pub fn new(scene: &Scene) -> Self {
        let plugin = scene.compile(Compiler::Gcc, "verified_plugin.c", &["-shared", "-fPIC"]);
        Self { program: scene.program("storms.c"), plugin }
    }

    /// One run of so many milliseconds: its command line, and its file.
    pub fn storm(
        &self,
        scene: &Scene,
        seed: u64,
        milliseconds: u64,
        loads: &[&str],
    ) -> (Vec<String>, Shared) {
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
        (command, Shared(File::options().read(true).write(true).open(file).expect("the file")))
    }
}

/// What a storm shares with whoever watches it.
#[derive(Debug)]
pub struct Shared(File);

impl Shared {
    fn word(&self, index: usize) -> u64 {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, 8 * index as u64).expect("a word");
        u64::from_ne_bytes(bytes)
    }

    /// Whether it is about to end.
    pub fn is_over(&self) -> bool {
        self.word(STOP) != 0
    }

    fn set(&self, index: usize) {
        self.0.write_all_at(&1u64.to_ne_bytes(), 8 * index as u64).expect("a word");
    }

    /// Its process id, 0 before it is there.
    pub fn pid(&self) -> i32 {
        self.word(PID) as i32
    }

    /// Lets it begin.
    pub fn go(&self) {
        self.set(GO);
    }

    /// Lets it end.
    pub fn stop(&self) {
        self.set(STOP);
    }

    fn counts(&self, index: usize) -> BTreeMap<u32, u64> {
        let counts = (0..LANES).map(|lane| (lane as u32, self.word(2 * lane + index)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// How many hits of each lane have begun.
    pub fn begun(&self) -> BTreeMap<u32, u64> {
        self.counts(0)
    }

    /// How many hits of each lane are done.
    pub fn done(&self) -> BTreeMap<u32, u64> {
        self.counts(1)
    }
}

/// What the environment says: `STORM_SECONDS`, `STORM_KILLS`, `STORM_SEED`.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The rounds of a storm that takes so much of `STORM_SECONDS` (30 seconds unless that says otherwise). Says the seed of a round that
/// failed; `STORM_SEED` begins with it.
#[derive(Debug)]
pub struct Rounds {
    seed: u64,
    until: Instant,
    begun: bool,
}

impl Rounds {
    /// Those of one of `tests` storms.
    pub fn one_of(tests: u32) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
        let time = Duration::from_secs(number("STORM_SECONDS").unwrap_or(30)) / tests;
        Self { seed: number("STORM_SEED").unwrap_or(now), until: Instant::now() + time, begun: false }
    }

    /// The next round's seed, and for how many milliseconds it is to blow.
    pub fn next_round(&mut self) -> Option<(u64, u64)> {
        let left = self.until.saturating_duration_since(Instant::now()).as_millis() as u64;
        let first = !std::mem::replace(&mut self.begun, true);
        if !first {
            self.seed = mixed(self.seed);
        }
        (first || left > 0).then_some((self.seed, left.clamp(500, 4000)))
    }
}

impl Drop for Rounds {
    #[allow(clippy::print_stderr, reason = "a test's last word")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the storm's seed: STORM_SEED={}", self.seed);
        }
    }
}
