//! `sordino events`

use crate::Failure;
use crate::commands::session;
use crate::terminal::{Output, is_terminal};
use crate::trace::Recording;
use clap::{Args, ValueEnum};
use sordino_event::Time;
use sordino_report::{Format, Listing, TimeFormat};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// List the events of a recording, user and kernel merged in the order of time
///
/// One line an event: time, CPU, thread, name, fields. Lost records stand in their place. Reads any CTF 1.8 trace, LTTng's
/// too. What a tracer adds to each event ($ctx fields) is left out of the text and stands in the JSON. The order of events on different CPUs less than some 50 ns apart is no evidence.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sordino events | less
  sordino events sordino-20260131-120000 --time since | grep motor:
  sordino events --follow motor --time since
  sordino events --json | jq 'select(.name == \"npt:loop\") | .fields'")]
pub(crate) struct Options {
    /// The recording's directory; the newest in this directory if none is named
    directory: Option<PathBuf>,
    /// Print what this session records as it comes, some 300 ms later, until it ends or Ctrl-C
    #[arg(short, long, value_name = "SESSION", conflicts_with = "directory")]
    follow: Option<String>,
    /// How to write times
    #[arg(long, value_enum, default_value_t = Times::Clock)]
    time: Times,
    /// As JSON, one object a line; the first names the schema and its version
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Times {
    /// The local time of the day
    Clock,
    /// The local time with its date
    Date,
    /// Seconds since 1970
    Seconds,
    /// Seconds since the recording's begin
    Since,
}

impl Times {
    pub(crate) fn format(self, begin: Time) -> TimeFormat {
        let offset_s = local_offset(begin);
        match self {
            Self::Clock => TimeFormat::Clock { offset_s },
            Self::Date => TimeFormat::Date { offset_s },
            Self::Seconds => TimeFormat::Seconds,
            Self::Since => TimeFormat::Since(begin),
        }
    }
}

/// Seconds east of Greenwich, here and then.
fn local_offset(at: Time) -> i32 {
    let zone = jiff::tz::TimeZone::system();
    jiff::Timestamp::from_nanosecond(at.0.into()).map_or(0, |at| zone.to_offset(at).seconds())
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if let Some(name) = &options.follow {
        return follow(name, options);
    }
    let mut recording = Recording::open(options.directory.as_deref())?;
    let format = if options.json {
        Format::Json
    } else {
        Format::Text { time: options.time.format(recording.span().0), color: is_terminal() }
    };
    let what = (!is_terminal()).then_some("listing");
    let mut listing = Listing::new(&recording.classes, format);
    let mut out = Output::new();
    let mut read_on = true;
    recording.pass(what, |item| {
        read_on = is_read(listing.write(item, &mut out))?;
        Ok(read_on)
    })?;
    if read_on && is_read(listing.finish(&mut out))? {
        is_read(out.flush())?;
    }
    recording.close()?;
    Ok(ExitCode::SUCCESS)
}

fn follow(name: &str, options: &Options) -> Result<ExitCode, Failure> {
    let color = is_terminal();
    let mut begin = None;
    let format = |first: Time| match options.json {
        true => Format::Json,
        false => Format::Text { time: options.time.format(*begin.get_or_insert(first)), color },
    };
    session::follow(name, format, &mut Output::new())?;
    Ok(ExitCode::SUCCESS)
}

/// Nobody reading any more, as behind `head`, is no failure.
pub(crate) fn is_read(result: io::Result<()>) -> Result<bool, Failure> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}
