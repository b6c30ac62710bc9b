//! Listings and findings as text and JSON.
//!
//! [`Listing`] writes the events of a trace one a line, with losses in their place. [`write_findings`] writes the
//! findings of an analysis for a person, [`write_findings_json`] for a program; [`write_statistics`] does the same with
//! a query's table. [`fit`], [`columns`] and [`table`] lay out any text for a terminal.
//!
//! All output goes to an [`io::Write`](std::io::Write) of the caller. No content of a trace can break a line or control
//! a terminal: control characters are escaped, invalid UTF-8 is replaced.
//!
//! | module | content |
//! |---|---|
//! | `listing`, `last` | the events of a trace, one a line, and the last lines of a listing |
//! | `findings`, `all_threads` | the findings of an analysis, and those of all threads side by side |
//! | `statistics`, `comparison` | the tables of queries and of comparisons |
//! | `time`, `span`, `value` | the text of times, of spans of time, and of fields |
//! | `layout`, `styled_text`, `color` | lines, columns and tables that fit a terminal, and its colours |
//!
//! ```
//! use sordino_analyze::{Explainer, ExplainOptions};
//! use sordino_intervals::{Finder, IntervalRule};
//! use sordino_event::{Class, Classes, Domain, Event, Step, Tid, Time};
//! use sordino_report::{FindingsFormat, TimeFormat, headline, write_findings};
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
//! assert_eq!(headline(&findings.intervals[0]), "650 ns unknown: no kernel events recorded");
//!
//! let format = FindingsFormat { time: TimeFormat::Since(Time(0)), color: false, width: 100 };
//! let mut out = Vec::new();
//! write_findings(&findings, format, &mut out)?;
//! assert!(out.starts_with(b"npt:loop: 4 intervals, min 100 ns, median 100 ns, p99 650 ns, "));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod all_threads;
mod color;
mod comparison;
mod findings;
mod last;
mod layout;
mod listing;
mod span;
mod statistics;
mod styled_text;
mod time;
mod value;

pub use all_threads::AllThreads;
pub use color::COLORS;
pub use comparison::{write_comparison, write_comparison_json};
pub use findings::{
    FindingsFormat, FindingsText, headline, misplaced_directory, none_was_woken, nothing_to_choose,
    rule_arguments, write_findings, write_findings_json,
};
pub use last::LastLines;
pub use layout::{columns, fit, fold, table, tied};
pub use listing::{LISTING_VERSION, Listing, ListingFormat};
pub use span::span;
pub use statistics::{TableFormat, write_statistics, write_statistics_json};
pub use styled_text::TIE;
pub use time::TimeFormat;
pub use value::{json_place, json_text, json_value};
