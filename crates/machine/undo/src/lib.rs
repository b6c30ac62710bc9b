//! Undoes changes to the machine, however the process that made them ends.
//!
//! Before a process changes the machine, it starts a [`Guardian`]: a child process that stores how to undo each change,
//! and does so, last change first, on request or when its parent ends: by returning, by a panic, by a signal. The
//! guardian has each [`UndoStep`] *before* the change is made, so there is no moment at which a death leaves something
//! behind.
//!
//! | module | content |
//! |---|---|
//! | `step` | one step, and its line of text |
//! | `guardian`, `guard` | a guardian's two sides: in the process that changes the machine, and in the child |
//! | `journal`, `trust` | steps in a file, and the check that this user alone can have written it |
//!
//! ```no_run
//! use sordino_undo::{Guardian, UndoStep};
//! use std::process::Command;
//! let throttle = "/proc/sys/kernel/sched_rt_runtime_us";
//! // With this argument, the program calls `sordino_undo::guard` and does nothing else.
//! let mut guardian = Guardian::start(Command::new("/proc/self/exe").arg("undo-guard"))?;
//! guardian.add(UndoStep::restore(throttle)?)?;
//! std::fs::write(throttle, "-1")?;
//! // ... the measurement ...
//! for failure in guardian.undo()? {
//!     eprintln!("not undone: {failure}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Changes that outlive their maker have their steps in a [`Journal`] instead: a file, from which a later process
//! undoes them.
//!
//! Steps are text, one line each:
//!
//! ```
//! use sordino_undo::UndoStep;
//! let step = UndoStep::Write { file: "/proc/sys/kernel/sched_rt_runtime_us".into(), text: b"950000\n".to_vec() };
//! assert_eq!(step.to_string(), "write\t/proc/sys/kernel/sched_rt_runtime_us\t950000\\n");
//! assert_eq!(step.to_string().parse(), Ok(step));
//! ```
#![forbid(unsafe_code)]

mod guard;
mod guardian;
mod journal;
mod step;
mod trust;

pub use guard::guard;
pub use guardian::{ChangeId, Error, Guardian};
pub use journal::{Journal, Unreadable};
pub use step::{FailedStep, Malformed, UndoStep};
