//! What a thread asks of the scheduler: on which CPUs, with which policy, with its memory locked.
//!
//! ```
//! let cpus: sordino_sched::CpuList = "0-2,5".parse()?;
//! assert_eq!(cpus.to_string(), "0-2,5");
//! assert!(cpus.contains(2) && !cpus.contains(3));
//! # Ok::<(), sordino_sched::BadCpuList>(())
//! ```

mod cpus;
mod thread;

pub use cpus::{BadCpuList, CpuList};
pub use thread::{
    BadPolicy, Lock, Policy, affinity, allow_prompt_sleep, lock_memory, policy, set_affinity, set_policy,
};
