//! Merging of many streams into one ordered super-trace.
//!
//! [`Merge`] puts the events of any number of [`Source`]s in the order of time. [`SuperTrace`] does the same and
//! follows the kernel's events on the way ([`Kernel`] is one decoded event, [`System`] the state that they add up to),
//! so that every [`Moment`] has its CPU and thread. It follows the programs' events about fibers as well
//! ([`FiberEvent`], [`Fibers`]), so that every moment has its fiber. Losses stand in the order like events. Each of
//! several [`Hosts`] has its own [`System`]. With several [`MergedClocks`], only events that are further apart than the
//! uncertainty of their clocks have a [`ProvenOrder`].
//!
//! A [`Consumer`] derives its results from the items; several consumers share a pass.
//!
//! Nothing here does I/O or reads a clock.
//!
//! | module | content |
//! |---|---|
//! | `source`, `consumer` | the traits of the trace's inputs and of its readers |
//! | `merge`, `clocks`, `host` | pure: the order of many sources, the clocks that it depends on, and the hosts |
//! | `super_trace` | the merged trace, each event with its CPU, process, thread and fiber |
//! | `kernel`, `vocabulary`, `syscall` | the meaning of the kernel's events, and the names that tracers give to them |
//! | `system`, `running`, `schedule` | the state of the machine by the events so far: threads, CPUs, the scheduler |
//! | `thread_map` | the map of threads, for recordings that name millions |
//! | `task`, `scheduling` | the ranking of threads, and their policies as text |
//! | `fiber`, `fibers`, `mounts` | fibers, the thread of each, and the stretches on threads |
//! | `overhead` | the time that recording took |
//! | `context`, `counted` | facts about threads that are recorded beside their events, such as performance counters |
//!
//! ```
//! use sordino_event::{Class, Classes, Domain, Event, Step, Tid, Time, Value};
//! use sordino_timeline::{Item, SuperTrace};
//!
//! let mut classes = Classes::default();
//! let tick = classes.add(Class::new(Domain::User, "motor:tick", ["cycle"]));
//! let stream = |tid, period| {
//!     let mut cycle = 0;
//!     move |event: &mut Event| -> Result<Step, std::io::Error> {
//!         cycle += 1;
//!         event.begin(Time(cycle * period), tick);
//!         event.tid = Some(Tid(tid));
//!         event.push(Value::signed(cycle));
//!         Ok(if cycle > 3 { Step::End } else { Step::Event })
//!     }
//! };
//! let mut trace = SuperTrace::new(&classes, [stream(1, 100), stream(2, 70)]);
//! let mut seen = Vec::new();
//! while let Some(item) = trace.next()? {
//!     if let Item::Event(moment) = item {
//!         seen.push((moment.event.time.0, moment.tid.map_or(0, |tid| tid.0)));
//!     }
//! }
//! assert_eq!(seen, [(70, 2), (100, 1), (140, 2), (200, 1), (210, 2), (300, 1)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod clocks;
mod consumer;
mod context;
mod counted;
mod fiber;
mod fibers;
mod host;
pub mod kernel;
mod merge;
mod mounts;
mod overhead;
mod running;
mod schedule;
mod scheduling;
mod source;
mod super_trace;
mod syscall;
mod system;
mod task;
mod thread_map;
mod vocabulary;

pub use clocks::{MergedClocks, ProvenOrder, UnprovenOrder};
pub use consumer::Consumer;
pub use context::ThreadContext;
pub use fiber::{
    FiberEvent, FiberId, FiberState, FiberSwitchReason, Mounted, PresentState, ReadySince, ThreadOrFiber,
};
pub use fibers::{Contradiction, Fibers, Inconsistency};
pub use host::{Host, Hosts};
pub use kernel::Kernel;
pub use merge::{Disorder, Merge, Merged, SourceError};
pub use mounts::{MountedStretch, MountedStretches};
pub use overhead::Payer;
pub use running::{Evidence, RunningThreads, UnrecordedSwitch};
pub use schedule::ThreadState;
pub use scheduling::Scheduling;
pub use source::Source;
pub use super_trace::{Item, Moment, SuperTrace};
pub use syscall::{Arch, Futex, FutexOperation, is_made_to_wait, is_reading};
pub use system::System;
pub use task::{Priority, TaskState};
pub use thread_map::ThreadMap;
pub use vocabulary::{Recorded, Vocabulary, is_added};
