//! Messages about several recordings that are read as one.

use crate::failure::{Failure, UNUSABLE};
use crate::recording::Recording;
use sordino_event::Nanos;
use sordino_event::text::printable;
use sordino_reading::{ClockRelation, MergedRecording};
use sordino_terminal::remark;

/// Maximum number of events' names in a message.
const MOST_NAMED: usize = 3;

impl Recording {
    /// Prints the relation of each recording's clock to that of the first.
    pub(super) fn report_clocks(&self) {
        let name = |recording: &MergedRecording| printable(&recording.path.to_string_lossy()).into_owned();
        let first = name(&self.recordings[0]);
        for recording in &self.recordings[1..] {
            let own = name(recording);
            let uncertainty = match recording.clock.uncertainty {
                Some(uncertainty) => format!("uncertain by {uncertainty}"),
                None => "with an unknown uncertainty".to_owned(),
            };
            remark(&match recording.clock.relation {
                ClockRelation::Same(other) => {
                    let other = name(&self.recordings[other]);
                    format!("{own} and {other} were recorded on one boot: they have one clock")
                }
                ClockRelation::Boot(other) => {
                    let other = name(&self.recordings[other]);
                    format!("{own} and {other} were recorded on one boot by two clocks, {uncertainty}")
                }
                ClockRelation::Pairs { shift, error } => {
                    if error.is_some_and(|error| shift.0.saturating_abs() > error.0) {
                        let by = Nanos(shift.0.saturating_abs());
                        let error = error.unwrap_or_default();
                        remark(&format!(
                            "the clocks of {first} and {own} disagree by {by}, and are said to be right to {error}: the pairs count"
                        ));
                    }
                    format!("the clock of {own} is moved by {shift} by --align, {uncertainty}")
                }
                ClockRelation::TimeOfDay => format!(
                    "the clocks of {first} and {own} are related by their times of day, {uncertainty}: \
                     --align EVENT=EVENT relates them by events that happened at one time"
                ),
            });
        }
        let doubled = self.doubled_events();
        if !doubled.is_empty() {
            let names: Vec<&str> = doubled.into_iter().take(MOST_NAMED).collect();
            remark(&format!(
                "two recordings have the same events of one time, which are counted twice: {} ...; name one of them",
                printable(&names.join(", "))
            ));
        }
    }

    /// Checks that the recordings are of one host, for `what`, which follows its threads and CPUs.
    ///
    /// # Errors
    /// There are several hosts.
    pub fn require_one_host(&self, what: &str) -> Result<(), Failure> {
        if self.host_count() == 1 {
            return Ok(());
        }
        let hosts = self.host_labels();
        let hosts = printable(&hosts.join(", ")).into_owned();
        let text = format!(
            "{what} follows threads and CPUs of one host, and these are recordings of several ({hosts}): name those of one; \
             'sordino events', 'sordino query' with count or rate, and 'sordino export --to json' take all"
        );
        Err(Failure::new(UNUSABLE, text))
    }
}
