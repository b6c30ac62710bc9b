//! Statistics of a timeline: one measure over the whole trace, by thread, CPU, interrupt or anything else.
//!
//! A [`Query`] is one pass over a super-trace. It cuts the trace into [`Span`]s, such as the stretches for which
//! threads had a CPU, and adds each to the row of its [`Per`] in a [`StatisticsTable`]. Memory is bounded: a row keeps
//! a [`Durations`], not its spans, and the number of rows is limited.
//!
//! [`Spans`] passes the spans on one by one, for a trace that is still being recorded.
//!
//! [`Within`] and [`SpanCondition`] choose the part of the trace: a time, and the events that end the spans.
//!
//! The statistics leave out a span that touches a loss, and one with a begin or end that the trace does not show; the
//! table counts these [apart](Apart).
//!
//! | module | content |
//! |---|---|
//! | `measure`, `named` | the measures, the kernel's events that each needs, and the names that users give them |
//! | `query` | one pass over a trace |
//! | `spans` | the same pass, which hands the spans on one by one |
//! | `span`, `key` | a stretch of time that a measure finds, and the row that it is put into |
//! | `when`, `condition`, `facts` | the part of a trace that a query is about: a time, and a condition on events |
//! | `choice`, `finder` | the finder of a measure's spans: its choice, its interface |
//! | `schedule`, `cpu_handlers`, `record_gap` | states that finders share: of threads, of interrupted CPUs, of lost records |
//! | `evidence_finder` | finders that ignore what an unrecorded switch contradicts |
//! | `cpu_use` | the parts of a thread's wait in its CPU's queue |
//! | `calls`, `function_calls` | finders of calls: of the system, of functions |
//! | `interrupts`, `reactivity` | finders of interrupts, and of reactions to them |
//! | `jobs`, `jitter`, `locks` | finders of threads' jobs, of irregular periods, of waits for futexes |
//! | `path`, `stretches` | critical paths, and the pasts of threads and fibers that they consist of |
//! | `fiber_runs`, `fiber_waits`, `fiber_names` | finders of fibers' runs and waits, and the fibers' names |
//! | `kernel_names`, `mappings` | names of interrupts, system calls and locks |
//! | `durations`, `row_sums`, `table` | the distribution of many spans, the sums of a row, and the result of a query |
//! | `compare`, `rank` | two recordings side by side, and the test that separates differences from noise |
//! | `error` | errors of queries |
//!
//! ```
//! use sordino_event::{Class, Classes, Domain, Event, Nanos, Step, Tid, Time};
//! use sordino_query::{Measure, Query};
//! use sordino_timeline::{Consumer, SuperTrace};
//!
//! let mut classes = Classes::default();
//! let begin = classes.add(Class::new(Domain::User, "net:request", [""; 0]));
//! let end = classes.add(Class::new(Domain::User, "net:answer", [""; 0]));
//! let mut events = [(100, begin), (130, end), (200, begin), (270, end)].into_iter();
//! let source = move |event: &mut Event| -> Result<Step, std::io::Error> {
//!     let Some((time, class)) = events.next() else { return Ok(Step::End) };
//!     event.begin(Time(time), class);
//!     event.tid = Some(Tid(7));
//!     Ok(Step::Event)
//! };
//! let mut trace = SuperTrace::new(&classes, [source]);
//! let measure = Measure::Duration("net:request..net:answer".parse()?);
//! let mut query = Query::new(&classes, trace.recorded(), measure, &[])?;
//! while let Some(item) = trace.next()? {
//!     query.take(&item);
//! }
//! let table = query.finish();
//! assert_eq!((table.rows[0].summary.count, table.rows[0].summary.max), (2, Nanos(70)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod calls;
mod choice;
mod compare;
mod condition;
mod cpu_handlers;
mod cpu_use;
mod durations;
mod error;
mod evidence_finder;
mod facts;
mod fiber_names;
mod fiber_runs;
mod fiber_waits;
mod finder;
mod function_calls;
mod interrupts;
mod jitter;
mod jobs;
mod kernel_names;
mod key;
mod locks;
mod mappings;
mod measure;
mod named;
mod path;
mod query;
mod rank;
mod reactivity;
mod record_gap;
mod row_sums;
mod schedule;
mod span;
mod spans;
mod stretches;
mod table;
mod when;

pub use compare::{ComparedRow, Difference, TableComparison, UnknownSpans};
pub use condition::SpanCondition;
pub use durations::{Bar, DurationStatistics, Durations};
pub use error::Error;
pub use facts::Facts;
pub use fiber_names::FiberLives;
pub use jitter::{PeriodSample, Periods};
pub use key::{Per, PerError};
pub use mappings::{FileMapping, Mappings};
pub use measure::{Measure, MissingEvents, PathOf};
pub use named::{MEASURES, MeasureError, MeasureEvents};
pub use query::{NameAddress, Query, SpanSelector};
pub use rank::RankTest;
pub use span::{Regularity, Span, SpanState};
pub use spans::Spans;
pub use table::{Apart, RowCount, StatisticsRow, StatisticsTable, WaitPart};
pub use when::{Around, TimePoint, Within};
