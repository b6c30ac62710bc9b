//! Intervals of a timeline: from one event to another one that belongs to it.
//!
//! A [`Finder`] pairs events by an [`IntervalRule`] in one pass and bounded memory. Its [`Survey`] has the statistics
//! of all intervals, the longest ones, and a sample. A [`SurveyBuilder`] makes a survey of intervals from another
//! source.
//!
//! A [`Census`] serves a user who names no rule: it counts the events of a trace and chooses a loop or a pair.
//!
//! | module | content |
//! |---|---|
//! | `interval`, `rule` | an interval, and the rule that selects it |
//! | `find` | the pass that pairs events |
//! | `survey` | the statistics, the longest intervals, and a sample |
//! | `choice` | the choice of intervals where the user names none |
//! | `ends`, `route` | the fields of an interval's ends, and its events from thread to thread |
//! | `number` | numbers that have types of their own, as plain integers |
//!
//! ```
//! use sordino_event::{Class, Classes, Domain, Event, Nanos, Step, Tid, Time};
//! use sordino_intervals::{Finder, IntervalRule};
//! use sordino_timeline::{Consumer, SuperTrace};
//!
//! let mut classes = Classes::default();
//! let tick = classes.add(Class::new(Domain::User, "npt:loop", [""; 0]));
//! let mut times = [100, 200, 300, 950, 1050].into_iter();
//! let source = move |event: &mut Event| -> Result<Step, std::io::Error> {
//!     let Some(time) = times.next() else { return Ok(Step::End) };
//!     event.begin(Time(time), tick);
//!     event.tid = Some(Tid(7));
//!     Ok(Step::Event)
//! };
//! let mut trace = SuperTrace::new(&classes, [source]);
//! let mut finder = Finder::new(&classes, IntervalRule::between("npt:loop"))?;
//! while let Some(item) = trace.next()? {
//!     finder.take(&item);
//! }
//! let survey = finder.finish();
//! assert_eq!(survey.statistics.median, Nanos(100));
//! assert_eq!(survey.longest[0].length(), Nanos(650));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod choice;
mod ends;
mod find;
mod interval;
pub mod number;
mod route;
mod rule;
mod survey;

pub use choice::{Census, Choice, Other, Why};
pub use ends::{EndFields, EventFields, FieldValue};
pub use find::{Finder, FoundInterval, IntervalSelector};
pub use interval::Interval;
pub use rule::{Error, IntervalRule, Key, Point};
pub use sordino_lengths::{LengthBucket, LengthDistribution, Statistics, Stretch};
pub use survey::{Broken, Survey, SurveyBuilder, Unpaired};
