//! Processes and threads, and the whole machine, as `/proc` shows them. Names and paths in its files may contain any
//! bytes, and a process determines the length of some of them.
//!
//! | module | contents |
//! |---|---|
//! | [`mod@file`] | files as bytes or text, whole or up to a limit |
//! | [`list`] | processes, and the threads of one |
//! | [`stat`], [`status`] | the state of a thread |
//! | [`maps`], [`cgroup`] | lines of a process's mappings and of its control groups |
//! | [`mounts`] | lines of a list of mounts |
//! | [`machine`] | the whole machine: its memory, its CPUs, their times and idle states, its kernel and its settings |
//! | [`system_files`] | files of the kernel's below another directory than `/`, too |
//!
//! ```
//! use sordino_proc::{file, list, stat::Stat};
//! let pid = std::process::id() as i32;
//! let text = file::of_process(pid, "stat")?;
//! let stat = Stat::parse(&text).expect("this process");
//! assert!(!stat.is_ending() && list::tids(pid).any(|tid| tid == pid));
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod cgroup;
pub mod file;
pub mod list;
pub mod machine;
pub mod maps;
pub mod mounts;
pub mod stat;
pub mod status;
pub mod system_files;

pub use system_files::SystemFiles;
