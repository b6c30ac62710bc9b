//! Plan of a measurement: its options and errors.

use sordino_event::text::count;
use sordino_quantity::typed;
use sordino_sched::{BadPolicy, Policy};
use std::time::Duration;
use std::{fmt, io};

/// Work of each loop besides reading the clock and hitting the tracepoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Body {
    /// No work at all.
    #[default]
    Empty,
    /// Writes to each cache line of a memory of this size in bytes.
    Memory(usize),
    /// One system call: getppid(2).
    SystemCall,
}

/// Options of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// CPU to which the thread is bound; `None` leaves its affinity unchanged.
    pub cpu: Option<u32>,
    /// Scheduling policy of the measuring thread.
    pub policy: Policy,
    /// True to lock the process's memory.
    pub lock_memory: bool,
    /// Greatest number of loops.
    pub loops: u64,
    /// Greatest duration of the measurement.
    pub duration: Option<Duration>,
    /// Number of loops that are not counted, at the start.
    pub warm_up: u64,
    /// True to hit the tracepoint `npt:loop`.
    pub tracepoint: bool,
    /// Greatest number of hits per second; other loops do not hit it. `None` hits it in each loop.
    pub most_hits: Option<f64>,
    /// Lengths of two alternating windows: in the first, the tracepoint is hit; in the second, the loop pauses and
    /// nothing counts.
    pub windows: Option<(Duration, Duration)>,
    /// Additional work of each loop.
    pub body: Body,
    /// Least time of a loop: it reads the clock until that has passed. Zero does not delay it.
    pub pace: Duration,
    /// Length from which gaps are recorded one by one.
    pub note_over: Duration,
    /// Length of a gap that ends the measurement.
    pub end_at: Option<Duration>,
    /// Times, after the first loop, of bursts of page faults in the measuring thread: known disturbances, to test
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

/// Reason why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The thread could not be bound to the CPU.
    #[error("can't run on CPU {cpu}: {source}")]
    Affinity {
        /// Number of the CPU.
        cpu: u32,
        /// Error that the kernel returned.
        source: io::Error,
    },
    /// The policy could not be set.
    #[error(transparent)]
    Policy(#[from] BadPolicy),
    /// The memory could not be locked.
    #[error("can't lock memory: {0}; raise the limit (ulimit -l) or don't ask for it")]
    Memory(io::Error),
    /// There is not enough memory for the loop to sweep.
    #[error("no {0} bytes of memory to sweep: choose fewer")]
    Sweep(usize),
    /// A thread could not be created.
    #[error("can't start the measuring thread: {0}")]
    Thread(io::Error),
    /// The kernel module that measures with interrupts disabled is unavailable.
    #[error(
        "no loop with interrupts disabled: {device}: {0}; no program can disable interrupts, the kernel module sordino_npt does: \
         build it from the sources (in crates/machine/npt/module: make), then {as_root}insmod sordino_npt.ko (not on a kernel \
         without modules)",
        device = crate::interrupts_off::DEVICE,
        as_root = sordino_sched::as_root()
    )]
    Module(io::Error),
    /// The machine lacks something; the text has the remedy.
    #[error("{0}")]
    Unusable(String),
    /// A change to the machine could not be guarded.
    #[error(transparent)]
    Guarded(#[from] sordino_guard::Error),
    /// The guardian has ended.
    #[error(transparent)]
    Guardian(#[from] sordino_undo::Error),
    /// The tracepoint of another tracer could not be built or loaded.
    #[error(transparent)]
    Provider(#[from] sordino_peers::Error),
    /// A request to the kernel failed.
    #[error(transparent)]
    System(#[from] io::Error),
    /// No time passed during the measurement.
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
            Some(duration) => write!(f, "for {}", typed(duration))?,
            None => f.write_str(&count(self.loops, "loop"))?,
        }
        let tracepoint = match (self.tracepoint, self.most_hits) {
            (false, _) => "left out".to_owned(),
            (true, None) => "in each loop".to_owned(),
            (true, Some(frequency)) => format!("at most {frequency} times a second"),
        };
        write!(f, ", tracepoint {tracepoint}")?;
        if let Some((trace, wait)) = self.windows {
            write!(f, " for {}, then waiting for {}", typed(trace), typed(wait))?;
        }
        match self.body {
            Body::Empty => {}
            Body::Memory(size) => write!(f, ", writing to {size} bytes in each loop")?,
            Body::SystemCall => f.write_str(", a system call in each loop")?,
        }
        if !self.pace.is_zero() {
            write!(f, ", a loop each {}", typed(self.pace))?;
        }
        Ok(())
    }
}
