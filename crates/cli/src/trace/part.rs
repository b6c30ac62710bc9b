//! The options that choose a part of a recording.

use crate::Failure;
use crate::commands::events::{condition, fields};
use crate::failure::UNUSABLE;
use crate::trace::Recording;
use clap::Args;
use jiff::tz::TimeZone;
use sordino_event::text::{count, printable};
use sordino_event::{Class, Time};
use sordino_query::{Around, SpanCondition, TimePoint, Within};
use std::rc::Rc;

/// The options that limit the time that is read.
#[derive(Args, Debug, Default)]
pub(crate) struct TimeOptions {
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
    /// Returns the first and the last time to read of a recording with this span.
    ///
    /// # Errors
    /// No time of the recording is left.
    pub(super) fn resolve(&self, span: (Time, Time)) -> Result<(Time, Time), Failure> {
        let within = Within { from: self.from, to: self.to, around: self.around };
        within.resolve(span, &TimeZone::system()).map_err(|text| Failure::new(UNUSABLE, text))
    }
}

impl Recording {
    /// Parses the condition of `--where`, checks its fields against those of the recording's events called `names` (all
    /// events if that is empty), and limits the recording to the time that the condition allows.
    ///
    /// # Errors
    /// The fault in the text, or a field that no such event has.
    pub(crate) fn condition(&mut self, text: &str, names: &[&str]) -> Result<Rc<SpanCondition>, Failure> {
        let expression = condition(text)?;
        let classes = self.classes.iter().map(|(_, class)| class);
        let named: Vec<&Class> =
            classes.filter(|class| names.is_empty() || names.contains(&&*class.name)).collect();
        fields("--where", &expression, &named)?;
        self.limit_to(&expression);
        Ok(Rc::new(SpanCondition::new(expression, &self.classes, self.facts.clone())))
    }
}

/// Prints a message if a condition could not be applied to events.
pub(crate) fn report_misfits(condition: &SpanCondition) {
    if let Some((misfits, invalid)) = condition.misfits() {
        let (events, invalid) = (count(misfits, "event"), invalid.to_string());
        message!("sordino: --where does not fit {events}, which are left out: {}", printable(&invalid));
    }
}
