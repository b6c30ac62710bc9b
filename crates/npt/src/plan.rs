//! What to measure.

use sordino_event::text::count;
use sordino_sched::{BadPolicy, Policy};
use std::time::Duration;
use std::{fmt, io};

/// What each loop does besides reading the clock and hitting the tracepoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Body {
    /// Nothing.
    #[default]
    Empty,
    /// Writes to each cache line of so many bytes.
    Memory(usize),
    /// One system call: getppid(2).
    SystemCall,
}

/// What to measure, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The CPU to stay on; `None`: where it happens to be.
    pub cpu: Option<u32>,
    /// The measuring thread's policy.
    pub policy: Policy,
    /// Whether to lock the process's memory.
    pub lock_memory: bool,
    /// How many loops, at most.
    pub loops: u64,
    /// How long, at most.
    pub duration: Option<Duration>,
    /// Loops before those that count.
    pub warm_up: u64,
    /// Whether each loop hits the tracepoint `npt:loop`.
    pub tracepoint: bool,
    /// How often it may be hit in a second; other loops leave it out. `None`: in each loop.
    pub most_hits: Option<f64>,
    /// Windows that take turns: in the first the tracepoint is hit, in the second the loop waits, and nothing counts.
    pub windows: Option<(Duration, Duration)>,
    /// What each loop does besides.
    pub body: Body,
    /// The least time of a loop: it reads the clock until that much has passed. Zero: as fast as it goes.
    pub pace: Duration,
    /// Gaps longer than this are noted one by one.
    pub note_over: Duration,
    /// The first gap of at least this ends the measurement.
    pub end_at: Option<Duration>,
    /// Bursts of page faults in the measuring thread, so long after the first loop: disturbances that are known, to see
    /// whether they are found.
    pub faults_at: Vec<Duration>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            cpu: None,
            policy: Policy::Fifo(99),
            lock_memory: true,
            loops: 10_000_000,
            duration: None,
            warm_up: 1_000,
            tracepoint: true,
            most_hits: None,
            windows: None,
            body: Body::Empty,
            pace: Duration::ZERO,
            note_over: Duration::from_micros(10),
            end_at: None,
            faults_at: Vec::new(),
        }
    }
}

/// Why there was no measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The CPU can't be had.
    #[error("can't run on CPU {cpu}: {source}")]
    Affinity {
        /// The CPU.
        cpu: u32,
        /// What the kernel says.
        source: io::Error,
    },
    /// The policy can't be had.
    #[error(transparent)]
    Policy(#[from] BadPolicy),
    /// Memory can't be locked.
    #[error("can't lock memory: {0}; raise the limit (ulimit -l) or don't ask for it")]
    Memory(io::Error),
    /// There is no such memory for the loop to sweep.
    #[error("no {0} bytes of memory to sweep: choose fewer")]
    Sweep(usize),
    /// No thread could be started.
    #[error("can't start the measuring thread: {0}")]
    Thread(io::Error),
    /// The kernel module can't be had that measures with interrupts disabled.
    #[error(
        "no loop with interrupts disabled: {device}: {0}; no program can disable interrupts, a kernel module does: {as_root}make \
         -C crates/npt/module && insmod crates/npt/module/sordino_npt.ko (not on a kernel without modules)",
        device = crate::interrupts_off::DEVICE,
        as_root = sordino_sched::as_root()
    )]
    Module(io::Error),
    /// Nothing was measured.
    #[error("no time passed while measuring: more loops or a longer duration are needed")]
    Nothing,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cpu) = self.cpu {
            write!(f, "CPU {cpu}, ")?;
        }
        write!(f, "{}, ", self.policy)?;
        match self.duration {
            Some(duration) => write!(f, "for {duration:?}")?,
            None => f.write_str(&count(self.loops, "loop"))?,
        }
        let tracepoint = match (self.tracepoint, self.most_hits) {
            (false, _) => "left out".to_owned(),
            (true, None) => "in each loop".to_owned(),
            (true, Some(frequency)) => format!("at most {frequency} times a second"),
        };
        write!(f, ", tracepoint {tracepoint}")?;
        if let Some((trace, wait)) = self.windows {
            write!(f, " for {trace:?}, then waiting for {wait:?}")?;
        }
        match self.body {
            Body::Empty => {}
            Body::Memory(size) => write!(f, ", writing to {size} bytes in each loop")?,
            Body::SystemCall => f.write_str(", a system call in each loop")?,
        }
        if !self.pace.is_zero() {
            write!(f, ", a loop each {:?}", self.pace)?;
        }
        Ok(())
    }
}
