//! Commits of records on one CPU, which happen whole or not at all.
//!
//! [`publish`] copies a record into memory that belongs to one CPU and makes it visible by one last store. The whole is
//! a *restartable sequence* (rseq): if the thread is preempted, migrated or interrupted by a signal before that store,
//! the commit has not happened, and the caller starts over. So a CPU's writers need no atomic read-modify-write, leave
//! nothing half-done when they are killed, and a signal handler may publish while it interrupts a thread that
//! publishes.
//!
//! The kernel supports this through an area of every thread's thread-local storage that glibc (2.35 and later)
//! registers. [`init`] finds it. If there is none, [`cpu`] returns [`NO_CPU`] and the caller uses another algorithm (in
//! sordino: the shared ring's, which needs no help from the kernel).
//!
//! Numbers are bare here, a CPU `u32`, a timestamp, a tag and a head `u64`: the assembly takes them in registers, and
//! this crate uses no other. The ring has types for each: `Cpu`, `Ticks`, `Tag`, `Head`.
//!
//! All assembly of the project lies in `rseq/` and `arch/`, a file for each architecture. `std::sync::atomic` is named
//! in [`primitive`] alone.
//!
//! | module | content |
//! |---|---|
//! | `rseq` | restartable sequences that publish, in assembly |
//! | `arch` | the architecture's other primitives, in assembly |
//! | `thread`, `process` | words of each thread, and one of the process, that are read without a call |
//! | `primitive`, `model` | atomics and plain accesses to shared memory, and the checker's versions of them |

mod arch;
#[cfg(loom)]
pub mod model;
pub mod primitive;
#[cfg(not(loom))]
pub mod process;
mod rseq;
#[cfg(not(loom))]
pub mod thread;

pub use arch::{current_cpu, expect_write, sleep, sum, wake};
#[cfg(not(loom))]
pub use arch::{read_performance_counter, vfork};
pub use rseq::{
    Bytes, Commit, NO_CPU, Outcome, Payload, SwitchWords, Words, cpu, init, is_ready, publish,
    publish_switching,
};
