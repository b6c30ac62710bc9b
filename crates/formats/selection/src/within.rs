//! The options that choose a time of a recording.

use crate::SelectionError;
use clap::Args;
use jiff::tz::TimeZone;
use sordino_event::Time;
use sordino_query::{Around, TimePoint, Within};

/// The options that limit the time that is read.
#[derive(Args, Debug, Default)]
pub struct TimeOptions {
    /// Read only what happened from this time on: a local time of day such as 14:03:27.5, a date with it, seconds
    /// since 1970-01-01 UTC, or a time since the recording began such as 1.5s (-1.5s: before it ended)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<TimePoint>,
    /// Read only what happened until this time
    #[arg(long = "until", visible_alias = "to", value_name = "TIME", allow_hyphen_values = true)]
    to: Option<TimePoint>,
    /// Read only what happened near this time: PEAK±TIME (or PEAK+-TIME), such as 14:03:27.512384±200us [default
    /// TIME: 1ms]
    #[arg(long, value_name = "PEAK[±TIME]", allow_hyphen_values = true, conflicts_with_all = ["from", "to"])]
    around: Option<Around>,
}

impl TimeOptions {
    /// Returns true if one of the options is given.
    pub fn is_given(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.around.is_some()
    }

    /// Returns the first and the last time to read of a recording with this span.
    ///
    /// # Errors
    /// No time of the recording is left.
    pub fn resolve(&self, span: (Time, Time)) -> Result<(Time, Time), SelectionError> {
        let within = Within { from: self.from, to: self.to, around: self.around };
        within.resolve(span, &TimeZone::system()).map_err(SelectionError)
    }
}
