//! The kernel's tracer: instances, event formats, raw pages.
//!
//! Needs no kernel module and no daemon: everything is read and written through tracefs.
//!
//! * [`Tracefs`] is the tracer, [`Instance`] a separate trace buffer with its own events and settings, and [`Drain`]
//!   moves its records into files;
//! * [`Granted`] is an instance that root has prepared for a group whose members cannot create any;
//! * a [`Format`] is the layout of an event's records, and [`lttng()`] maps an event to the names of LTTng;
//! * a [`Page`] is a part of those files, and a [`Converter`] turns its [`KernelRecord`]s into payloads.
//!
//! The last two do no I/O and accept untrusted bytes.
//!
//! | module | content |
//! |---|---|
//! | `mount`, `dir` | access to the tracer: its mount, and its files by descriptors |
//! | `instance`, `settings` | trace buffers apart from the kernel's other tracing, and their settings |
//! | `grant` | instances that root has prepared for a group |
//! | `events` | the names of events, and selections of them |
//! | `drain`, `statistics` | the records of a buffer moved to files, and the kernel's counts |
//! | `layout`, `page` | parsers of the buffers' pages |
//! | `format`, `print`, `record` | the layout of an event's records, and their conversion to payloads |
//! | `lttng` | the names and values that LTTng gives to the kernel's events |
//! | `tracers` | tracers that measure by themselves, such as `hwlat` |
//! | `error` | errors of the kernel's tracer |
//!
//! ```no_run
//! use sordino_tracefs::{CLOCK_TSC, Drain, Instance, Tracefs};
//! let tracefs = Tracefs::open()?;
//! let mut instance = Instance::create(&tracefs, "sordino-example")?;
//! instance.set_clock(CLOCK_TSC)?;
//! instance.set_buffer_kib(4096)?;
//! instance.select(&["sched_switch if prev_prio < 100".parse()?, "irq".parse()?])?;
//! let mut drain = Drain::new(instance, |cpu| std::fs::File::create(format!("cpu{cpu}.raw")).map(Into::into))?;
//! for _ in 0..1000 {
//!     std::thread::sleep(std::time::Duration::from_millis(1));
//!     drain.drain()?;
//! }
//! for cpu in drain.finish()? {
//!     println!("CPU {}: {} bytes, {} records lost", cpu.cpu, cpu.bytes, cpu.statistics.lost());
//! }
//! # Ok::<(), sordino_tracefs::Error>(())
//! ```
#![forbid(unsafe_code)]

mod dir;
mod drain;
mod error;
mod events;
mod format;
mod grant;
mod instance;
mod layout;
mod lttng;
mod mount;
mod page;
mod print;
mod record;
mod settings;
mod statistics;
mod tracers;

pub use drain::{Drain, Drained};
pub use error::Error;
pub use events::{EventName, Selection, choose};
pub use format::{FieldKind, Format, RecordField};
pub use grant::{Granted, GrantedEvents, SHARED, USUAL};
pub use instance::{Instance, PREFIX};
pub use layout::PageLayout;
pub use lttng::{Conversion, EventConversion, FieldSource, PRIORITIES, lttng};
pub use mount::{Tracefs, mount_point};
pub use page::{Damage, KernelRecord, Missed, Page, Records};
pub use record::{Converter, RecordHeader};
pub use settings::{CLOCK_MONOTONIC, CLOCK_TSC, Clocks};
pub use statistics::BufferCounts;
pub use tracers::Lines;
