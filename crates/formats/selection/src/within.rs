//! The options that choose a time of a recording.

use crate::SelectionError;
use clap::Args;
use jiff::tz::TimeZone;
use sordino_event::Time;
use sordino_query::{Around, TimePoint, Within};

/// The options that limit the time that is read.
#[derive(Args, Debug, Default)]
pub struct TimeOptions {
    /// Read only what happened from this time on: a local time such as 14:03:27.5 or '2026-01-31 14:03:27.5', seconds
    /// since 1970-01-01 UTC, or a time since the recording began such as 1.5s (-1.5s: before it ended)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<TimePoint>,
    /// Read only what happened until this time, written as for --from
    #[arg(long = "until", visible_alias = "to", value_name = "TIME", allow_hyphen_values = true)]
    to: Option<TimePoint>,
    /// Read only what happened near this time, written as for --from and followed by the distance before and after it:
    /// 14:03:27.512384±200us (or +-200us) [default: ±1ms]
    #[arg(long, value_name = "TIME[±TIME]", allow_hyphen_values = true, conflicts_with_all = ["from", "to"])]
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
