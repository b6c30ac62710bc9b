//! Listings: the events of a trace, one a line.

mod context;
mod functions;
mod json;
mod origin;
mod text;

use crate::time::TimeFormat;
use crate::value::decimal;
use functions::FunctionNamer;
use json::JsonLines;
use origin::Origins;
use sordino_event::Classes;
use sordino_query::NameAddress;
use sordino_timeline::{Item, MergedClocks};
use std::io::{self, Write};
use text::TextLines;

/// The version of the lines in [`ListingFormat::Json`].
pub const LISTING_VERSION: u32 = 1;

/// The format of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListingFormat {
    /// Text for people: `04:41:07.123456789 cpu1 npt/10 npt:loop cycle = 7`.
    Text {
        /// The format of times.
        time: TimeFormat,
        /// True if losses and names are coloured, names by their origin.
        color: bool,
    },
    /// JSON for programs: one object a line. The first names the schema and its version.
    Json,
}

/// Writes the items of a trace, one a line.
///
/// ```
/// use sordino_event::{Class, Classes, Cpu, Domain, Event, Step, Tid, Time, Value};
/// use sordino_report::{ListingFormat, Listing, TimeFormat};
/// use sordino_timeline::SuperTrace;
///
/// let mut classes = Classes::default();
/// let class = classes.add(Class::new(Domain::User, "npt:loop", ["cycle"]));
/// let mut events = 7..8;
/// let source = |event: &mut Event| -> Result<Step, std::io::Error> {
///     let Some(cycle) = events.next() else { return Ok(Step::End) };
///     event.begin(Time(cycle), class);
///     (event.cpu, event.tid) = (Some(Cpu(1)), Some(Tid(10)));
///     event.push(Value::signed(cycle));
///     Ok(Step::Event)
/// };
/// let format = ListingFormat::Text { time: TimeFormat::Seconds, color: false };
/// let mut listing = Listing::new(&classes, format);
/// let mut out = Vec::new();
/// let mut trace = SuperTrace::new(&classes, [source]);
/// while let Some(item) = trace.next()? {
///     listing.write(&item, &mut out)?;
/// }
/// assert_eq!(String::from_utf8_lossy(&out), "0.000000007 cpu1 ?/10             npt:loop cycle = 7\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Listing {
    lines: ListingLines,
    buffer: Vec<u8>,
}

#[derive(Debug)]
enum ListingLines {
    Text(TextLines),
    Json(JsonLines),
}

impl ListingLines {
    fn append(&mut self, item: &Item<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Text(lines) => lines.line(item, out),
            Self::Json(lines) => lines.line(item, out),
        }
        out.push(b'\n');
    }
}

impl Listing {
    /// Creates a listing of events of `classes`.
    pub fn new(classes: &Classes, format: ListingFormat) -> Self {
        let mut buffer = Vec::new();
        let lines = match format {
            ListingFormat::Text { time, color } => ListingLines::Text(TextLines::new(classes, time, color)),
            ListingFormat::Json => {
                buffer.extend_from_slice(b"{\"schema\":\"sordino-events\",\"version\":");
                decimal(LISTING_VERSION, &mut buffer);
                buffer.extend_from_slice(b"}\n");
                ListingLines::Json(JsonLines::new(classes))
            }
        };
        Self { lines, buffer }
    }

    /// Adds the names of functions beside their addresses.
    #[must_use]
    pub fn naming(mut self, names: NameAddress) -> Self {
        let names = FunctionNamer::new(names);
        match &mut self.lines {
            ListingLines::Text(lines) => lines.functions = names,
            ListingLines::Json(lines) => lines.functions = names,
        }
        self
    }

    /// Adds the host of each event if there are several, and a mark for events with an order that the clocks do not
    /// prove: such an event is closer to an earlier event of another clock than the uncertainty of the two clocks.
    /// `hosts` are the names by the hosts' numbers.
    #[must_use]
    pub fn of_several(mut self, hosts: &[String], clocks: MergedClocks) -> Self {
        let origins = Origins::new(hosts, clocks);
        match &mut self.lines {
            ListingLines::Text(lines) => lines.origins = origins,
            ListingLines::Json(lines) => lines.origins = origins,
        }
        self
    }

    /// Continues another listing: leaves out the first line of [`ListingFormat::Json`].
    pub fn continued(mut self) -> Self {
        self.buffer.clear();
        self
    }

    /// Writes the line of `item` with one call of `out`.
    ///
    /// # Errors
    /// The error of `out`.
    pub fn write(&mut self, item: &Item<'_>, out: &mut impl Write) -> io::Result<()> {
        self.lines.append(item, &mut self.buffer);
        let result = out.write_all(&self.buffer);
        self.buffer.clear();
        result
    }

    /// Appends the line of `item`. The first line of [`ListingFormat::Json`] is left to [`head`](Self::head).
    pub fn append(&mut self, item: &Item<'_>, out: &mut Vec<u8>) {
        self.lines.append(item, out);
    }

    /// Writes the first line of [`ListingFormat::Json`], if it is not written yet.
    ///
    /// # Errors
    /// The error of `out`.
    pub fn head(&mut self, out: &mut impl Write) -> io::Result<()> {
        let result = out.write_all(&self.buffer);
        self.buffer.clear();
        result
    }
}
