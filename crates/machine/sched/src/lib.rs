//! Scheduling of threads: affinity, policy, locked memory and timer slack; programs and the exit status of processes.
//! [`forbid_typing`] gives up the right to insert input into a terminal. [`Right::remedy`] is the advice for an
//! operation that the kernel has denied.
//!
//! | module | content |
//! |---|---|
//! | `affinity`, `cpus` | the CPUs that a thread may use, and lists of CPUs |
//! | `thread` | policy, locked memory and timer slack of the calling thread |
//! | `rights` | capabilities that operations need, and the advice if one is missing |
//! | `program`, `exit` | programs as a shell finds them, and their exit status |
//! | `terminal`, `typing` | a command of another user gets no means to type into a terminal: the filter and its rule |
//!
//! ```
//! let cpus: sordino_sched::CpuList = "0-2,5".parse()?;
//! assert_eq!(cpus.to_string(), "0-2,5");
//! assert!(cpus.contains(2) && !cpus.contains(3));
//! # Ok::<(), sordino_sched::BadCpuList>(())
//! ```

mod affinity;
mod cpus;
mod exit;
mod program;
mod rights;
mod terminal;
mod thread;
mod typing;

pub use affinity::{BadThread, ThreadIdentity, affinity, set_affinity};
pub use cpus::{BadCpuList, CpuList};
pub use exit::{exit_status, shell_status};
pub use program::find_program;
pub use rights::{Right, as_root, is_root};
pub use terminal::forbid_typing;
pub use thread::{
    BadPolicy, MemoryLock, Policy, allow_prompt_sleep, lock_memory, policy, set_policy, set_turn,
};
pub use typing::forbid_typing_where_shared;
