//! Analysis of a timeline: it finds the causes of intervals that took long.
//!
//! There are two passes over the same super-trace, both in bounded memory. A [`Finder`](sordino_intervals::Finder)
//! keeps the longest intervals. An [`Explainer`] follows the kernel's events and divides the time of each kept interval
//! by [`Cause`]. The time of a cause is net: where an interrupt comes while another thread has preempted the explained
//! one, its time belongs to the interrupt. The parts of an interval add up to its length.
//!
//! At any moment exactly one cause takes a thread's time. When an event shows that the cause changes, the time since
//! the last change is added to the cause before.
//!
//! The analysis claims nothing that the trace does not show: time is [`Cause::Unrecorded`] where the kernel's scheduler
//! was not recorded, [`Cause::Unknown`] where the thread's state is not known, and [`Cause::Unexplained`] where a
//! thread that always does the same had the CPU for longer than normal.
//!
//! An interval with both ends in one fiber belongs to that fiber, through all threads that execute it. The fiber shares
//! the time of the thread that carries it, waits for other fibers, or is blocked.
//!
//! An interval is explained by the cause that took longer than usual, not by the one that took most. Usual times come
//! from a sample of all intervals.
//!
//! | module | content |
//! |---|---|
//! | `explain` | the second pass, over the events of the intervals that the first one found |
//! | `track` | the activities of the explained threads, by the kernel's events |
//! | `cpu`, `thread`, `thread_history` | states of CPUs and explained threads, and the recent past of all threads |
//! | `fibers` | the explained fibers, whose time is that of the threads that carry them |
//! | `files`, `signals`, `timers`, `quota` | state that shows causes: pages that are read, signals, timers, limits of CPU time |
//! | `lost`, `missing` | records that are lost, and events that were not recorded |
//! | `account` | the time that each cause took of one interval |
//! | `cause`, `table`, `words` | the causes, the events that show each, and the words for each |
//! | `entry_cost` | the time that a CPU takes to enter and leave an interrupt |
//! | `usual` | usual times, from a sample of all intervals |
//! | `findings`, `cause_ranking` | the result: of each interval, and of all |
//!
//! ```
//! use sordino_analyze::{Explainer, ExplainOptions};
//! use sordino_event::{Class, Classes, Domain, Event, Nanos, Step, Tid, Time};
//! use sordino_intervals::{Finder, IntervalRule};
//! use sordino_timeline::{Consumer, SuperTrace};
//!
//! let mut classes = Classes::default();
//! let tick = classes.add(Class::new(Domain::User, "npt:loop", [""; 0]));
//! let trace = || {
//!     let mut times = [100, 200, 300, 950, 1050].into_iter();
//!     let source = move |event: &mut Event| -> Result<Step, std::io::Error> {
//!         let Some(time) = times.next() else { return Ok(Step::End) };
//!         event.begin(Time(time), tick);
//!         event.tid = Some(Tid(7));
//!         Ok(Step::Event)
//!     };
//!     SuperTrace::new(&classes, [source])
//! };
//!
//! let mut finder = Finder::new(&classes, IntervalRule::between("npt:loop"))?;
//! let mut first = trace();
//! while let Some(item) = first.next()? {
//!     finder.take(&item);
//! }
//! let mut second = trace();
//! let mut explainer = Explainer::new(finder.finish(), second.recorded(), ExplainOptions::default());
//! while let Some(item) = second.next()? {
//!     explainer.take(&item);
//! }
//! let findings = explainer.finish();
//! assert_eq!(findings.statistics.median, Nanos(100));
//! assert_eq!(findings.intervals[0].length, Nanos(650));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod account;
mod cause;
mod cause_ranking;
mod cpu;
mod entry_cost;
mod explain;
mod fibers;
mod files;
mod findings;
mod lost;
mod missing;
mod quota;
mod signals;
mod table;
mod thread;
mod thread_history;
mod timers;
mod track;
mod usual;
mod words;

pub use cause::{After, Cause, FiberName, Limit, Lock, Thread, Waker};
pub use explain::{ExplainOptions, Explainer};
pub use files::{Device, File};
pub use findings::{
    Behind, Contradicted, Explanation, Findings, Inside, Inversion, Inverted, Link, LossSum, Main, Migration,
    MissingSwitches, Part, Ranked, ReadFile, SCHEMA_VERSION, Sender, Stage, Stolen, Woken,
};
pub use missing::{Missing, Unrecorded};
pub use quota::{GroupQuotas, Quota, Quotas};
pub use table::{CauseEntry, Certainty, TABLE};
pub use words::{Cases, Phrase, Phrases, Word};
