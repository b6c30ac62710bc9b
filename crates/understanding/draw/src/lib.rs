//! Pictures: lanes and distributions as SVG, and a page with findings.
//!
//! [`timeline()`] draws the CPUs, threads and fibers around an interval, [`histogram`] and [`course`] the lengths of
//! all intervals, [`latency()`] those of measurements, [`distributions()`] those of the rows of a table, [`figures()`]
//! a few figures of several measurements. [`page()`] writes a self-contained HTML page of the findings. Nothing is
//! loaded from elsewhere, and no text of a trace becomes markup.
//!
//! A picture is an SVG element; [`standalone`] makes it a file, [`flat`] one for a renderer that knows neither
//! variables nor dark pages.
//!
//! | module | content |
//! |---|---|
//! | `timeline`, `lane`, `thin`, `key` | the picture of an interval: lanes, the stretches in them, the key of their colours |
//! | `plot` | the lengths of intervals: the number of each, and the longest over time |
//! | `latency` | the latency plot known from OSADL |
//! | `distributions`, `tables` | a strip for each row of a table, and the tables of queries drawn so |
//! | `figures` | figures of several measurements |
//! | `page` | findings with pictures, in one file |
//! | `axis`, `style`, `markup` | what the pictures share: axes, colours, text in HTML and SVG |
//!
//! ```
//! use sordino_draw::{Frame, timeline};
//! use sordino_event::{Tid, Time};
//! use sordino_lanes::{CpuLane, Lanes, LaneSpan, Window};
//!
//! let window = Window { from: Time(0), to: Time(1000), tid: Tid(7), fiber: None };
//! let idle = LaneSpan { from: Time(0), to: Time(1000), activity: None };
//! let lanes = Lanes {
//!     window,
//!     has_switches: true,
//!     cpus: vec![CpuLane { cpu: 1, runs: vec![idle], interrupts: Vec::new() }],
//!     hidden_cpus: 0,
//!     threads: Vec::new(),
//!     hidden_threads: 0,
//!     waiting_threads: 0,
//!     fibers: Vec::new(),
//!     hidden_fibers: 0,
//!     wake_ups: Vec::new(),
//!     fiber_wake_ups: Vec::new(),
//!     marks: Vec::new(),
//!     lost: Vec::new(),
//!     left_out: 0,
//! };
//! let picture = timeline(&lanes, &Frame { from: Time(200), to: Time(700), title: "<a>", is_alone: true, most: 1000 });
//! assert!(picture.starts_with("<svg") && picture.contains("cpu1") && picture.contains("&lt;a&gt;"));
//! ```
#![forbid(unsafe_code)]

mod axis;
mod distributions;
mod figures;
mod key;
mod lane;
mod latency;
mod markup;
mod page;
mod plot;
mod style;
mod tables;
mod thin;
mod timeline;

pub use distributions::{DistributionChart, DistributionStrip, LengthSample, distributions};
pub use figures::{FigureLine, figures};
pub use latency::{COLORS, LatencyLine, latency};
pub use page::{Peak, ReportPage, page};
pub use plot::{course, histogram};
pub use style::{PAGE, PICTURES, flat, standalone};
pub use tables::{comparison_chart, statistics_chart};
pub use timeline::{Frame, timeline};
