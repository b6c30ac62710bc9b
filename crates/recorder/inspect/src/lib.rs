//! The recorder's knowledge of the machine: its processes, its state, its clock, and time that was taken from it.
//!
//! Everything here looks, and changes nothing. Programs may be hostile: a file of theirs may delay its reader, lie or
//! be huge, so threads of the recorder have few rights, and each reader has limits.
//!
//! | module | contents |
//! |---|---|
//! | [`clock`] | the clock of a recording, and its relation to the time of day |
//! | [`counters`] | the offsets of the CPUs' cycle counters |
//! | [`context`] | observed attributes of threads, as the trace contains them |
//! | [`discover`] | programs and their areas in `/proc` |
//! | [`locks`] | holders of locks and of open files |
//! | [`process_events`] | new processes, so that `/proc` is not read needlessly |
//! | [`dump`], [`symbols`] | the state dump, kernel functions |
//! | [`quota`], [`steal`] | the CPU time that a cgroup allows, stolen time |
//! | [`interrupted`], [`event_cost`] | the cost of interrupts, and of events |
//! | [`kernel`] | the running kernel, as traces describe it |
//! | [`settings`] | the settings of the machine that decide how late a thread runs |
//! | [`uuid`] | random identifiers of traces and clocks |
//! | [`threads`], [`rights`] | the recorder's own threads, and their rights |
//! | [`system`] | the error of an operation that the recorder needs |
#![forbid(unsafe_code)]

pub mod clock;
pub mod context;
pub mod counters;
pub mod discover;
pub mod dump;
pub mod event_cost;
pub mod interrupted;
pub mod kernel;
pub mod locks;
pub mod process_events;
pub mod quota;
pub mod rights;
pub mod settings;
pub mod steal;
pub mod symbols;
pub mod system;
pub mod threads;
pub mod uuid;
