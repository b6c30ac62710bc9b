//! The tables and their columns, which docs/tables.md describes.

use crate::names::NameForm;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use std::sync::Arc;

/// The columns by which Parquet files are partitioned; they are directories there, and the last columns of each table.
pub const PARTITIONS: [&str; 2] = ["host", "hour"];

/// A table of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableKind {
    /// One row for each event.
    Events,
    /// One row for each span of time in which a thread, a fiber or an interrupt was in one state.
    Intervals,
    /// One row for each wake-up that led to a run.
    Latencies,
    /// One row for each place where records are missing.
    Losses,
}

impl TableKind {
    /// All tables, in the order of their documentation.
    pub const ALL: [Self; 4] = [Self::Events, Self::Intervals, Self::Latencies, Self::Losses];

    /// Returns the table's name in SQL, which is that of its directory too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Intervals => "intervals",
            Self::Latencies => "latencies",
            Self::Losses => "losses",
        }
    }

    /// Returns the column of the time by which the rows are ordered.
    pub fn time(self) -> &'static str {
        match self {
            Self::Events => "time_ns",
            Self::Intervals | Self::Latencies => "to_ns",
            Self::Losses => "from_ns",
        }
    }

    /// Returns all columns; the partitions are the last two.
    pub fn schema(self) -> SchemaRef {
        self.schema_in(NameForm::Texts)
    }

    /// Returns all columns, those of `events` with names in this form.
    pub(crate) fn schema_in(self, form: NameForm) -> SchemaRef {
        let mut fields = match self {
            Self::Events => events(form),
            Self::Intervals => intervals(),
            Self::Latencies => latencies(),
            Self::Losses => losses(),
        };
        fields.extend(PARTITIONS.map(|name| Field::new(name, DataType::Utf8View, false)));
        Arc::new(Schema::new(fields))
    }
}

fn events(form: NameForm) -> Vec<Field> {
    let name = |name, may_lack| Field::new(name, form.data_type(DataType::Utf8View), may_lack);
    vec![
        time("time_ns"),
        number("cpu"),
        number("pid"),
        number("tid"),
        name("comm", true),
        number("priority"),
        Field::new("fiber", DataType::UInt64, true),
        name("fiber_name", true),
        name("domain", false),
        name("name", false),
        name("level", true),
        map("integers", DataType::Int64, form),
        map("reals", DataType::Float64, form),
        map("texts", DataType::Utf8, form),
    ]
}

fn intervals() -> Vec<Field> {
    let mut fields = span();
    fields.extend([
        Field::new("fiber", DataType::UInt64, true),
        Field::new("state", DataType::Utf8View, false),
        text("name"),
        number("by_tid"),
        text("by_comm"),
    ]);
    fields
}

fn latencies() -> Vec<Field> {
    let mut fields = span();
    fields.extend([number("priority"), number("by_tid"), text("by_comm")]);
    fields.extend(["interrupts_ns", "threads_ns", "idle_ns", "unknown_ns"].map(time));
    fields
}

fn losses() -> Vec<Field> {
    vec![
        time("from_ns"),
        time("to_ns"),
        number("cpu"),
        number("pid"),
        Field::new("count", DataType::UInt64, true),
        Field::new("cause", DataType::Utf8View, false),
        text("place"),
    ]
}

/// Returns the columns of a span of time of a thread.
fn span() -> Vec<Field> {
    let mut fields: Vec<Field> = ["from_ns", "to_ns", "length_ns"].map(time).to_vec();
    fields.extend([number("cpu"), number("pid"), number("tid"), text("comm")]);
    fields
}

fn time(name: &str) -> Field {
    Field::new(name, DataType::Int64, false)
}

fn number(name: &str) -> Field {
    Field::new(name, DataType::Int32, true)
}

fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8View, true)
}

/// Returns a column of maps from names to values of a type.
fn map(name: &str, value: DataType, form: NameForm) -> Field {
    Field::new(name, DataType::Map(Arc::new(entries(entry(value, form))), false), false)
}

/// Returns the entries of a map, with the name that Parquet gives to them.
pub(crate) fn entries(entry: Fields) -> Field {
    Field::new("key_value", DataType::Struct(entry), false)
}

/// Returns the parts of a map's entry, with the names that Parquet gives to them.
pub(crate) fn entry(value: DataType, form: NameForm) -> Fields {
    let key = Field::new("key", form.data_type(DataType::Utf8), false);
    vec![key, Field::new("value", value, true)].into()
}
