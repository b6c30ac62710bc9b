//! What threads ask of the scheduler: on which CPUs, with which policy, with their memory locked; and how they ended. One of them
//! gives up a right: [`forbid_typing`]. Where one is missing, [`Right::remedy`] says what to do.
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
mod rights;
mod terminal;
mod thread;

pub use affinity::{BadThread, Thread, affinity, set_affinity};
pub use cpus::{BadCpuList, CpuList};
pub use exit::exit_status;
pub use rights::{Right, as_root};
pub use terminal::forbid_typing;
pub use thread::{BadPolicy, Lock, Policy, allow_prompt_sleep, lock_memory, policy, set_policy, set_turn};
