//! The options of `sordino sql`, which starts a program of its own: both parse the same command line.

use crate::{EventOptions, TimeOptions};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Query a recording with SQL, with the program sordino-sql
///
/// The tables are events, intervals, latencies and losses; docs/tables.md describes their columns. They are read from
/// the recording while the query runs, or from the Parquet files of 'sordino export --to parquet'. sordino's own
/// functions: ns(x), us(x), ms(x), s(x) convert to nanoseconds, in_us(ns) and the like convert back; duration(ns) and
/// clock(ns) format a length and a time of day; at('14:03:27.5') is a time as for --from.
///
/// Without a query, there is a prompt; where standard input is no terminal, the query is read from it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sordino sql motor 'SELECT name, count(*) FROM events GROUP BY name ORDER BY 2 DESC'
  sordino sql motor \"SELECT max(integers['late']) FROM events WHERE name = 'motor:period'\"
  sordino sql motor 'SELECT comm, duration(max(length_ns)) FROM latencies GROUP BY comm' --format csv
  sordino sql motor 'SELECT * FROM intervals WHERE length_ns > ms(1)' --format parquet -o long.parquet
  sordino sql motor.tables              # a prompt for the Parquet files of an export")]
pub struct SqlOptions {
    /// Directory of the recording, or of its export to Parquet [default: the newest recording in the current directory]
    pub directory: Option<PathBuf>,
    /// Query to run [default: read from a prompt, or from standard input if that is no terminal]
    pub query: Option<String>,
    /// Format of the result
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = ResultFormat::Table)]
    pub format: ResultFormat,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
    /// The events that the table of events has.
    #[command(flatten)]
    pub selection: EventOptions,
    /// The time that limits the rows of all tables.
    #[command(flatten)]
    pub within: TimeOptions,
}

/// The format of a query's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ResultFormat {
    /// A table for people
    Table,
    /// Comma-separated values, with a line of names
    Csv,
    /// JSON lines: one object for each row
    Json,
    /// A Parquet file with all rows
    Parquet,
}
