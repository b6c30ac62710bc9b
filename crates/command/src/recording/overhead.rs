//! The option that subtracts the time that recording took.

use super::Recording;
use crate::failure::Failure;
use clap::Args;
use sordino_event::EventCosts;
use sordino_terminal::remark;

/// The option of commands that measure times.
#[derive(Args, Debug)]
pub struct OverheadOptions {
    /// Subtract the time that recording took: for each event that the thread (or fiber) recorded meanwhile, the cost of
    /// one event, as the recorder measured it; of wake-up latencies, preemptions, reactions and interrupts, for each
    /// event on their CPU
    ///
    /// Sleeps, waits for locks, deviations of periods and critical paths keep their lengths. The costs are those of
    /// small events: events with long texts, call stacks or counters cost more.
    #[arg(long)]
    subtract_overhead: bool,
}

impl OverheadOptions {
    /// Makes the recording's passes subtract the overhead if that is requested, and prints the costs of events.
    ///
    /// # Errors
    /// The recording does not state the costs.
    pub fn apply(&self, recording: &mut Recording) -> Result<(), Failure> {
        if self.subtract_overhead {
            let costs = recording.subtract_overhead()?;
            for (host, costs) in recording.host_labels().iter().zip(costs) {
                remark(&format!("{host}: {}", description(&costs)));
            }
        }
        Ok(())
    }
}

/// Returns the costs in words.
fn description(costs: &EventCosts) -> String {
    let cost = |cost: Option<u64>, whose: &str| {
        cost.map(|cost| format!("{:.1} ns for each event of {whose}", cost as f64 / 1000.0))
    };
    let known: Vec<_> =
        [cost(costs.user, "a program"), cost(costs.kernel, "the kernel")].into_iter().flatten().collect();
    format!(
        "the overhead of recording is subtracted, {}, as measured when recording began",
        known.join(" and ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_costs_that_are_known_are_told() {
        let costs = EventCosts { user: Some(14_250), kernel: Some(231_000) };
        assert_eq!(
            description(&costs),
            "the overhead of recording is subtracted, 14.2 ns for each event of a program and 231.0 ns for each event of the kernel, as measured when recording began"
        );
        let costs = EventCosts { kernel: None, ..costs };
        assert!(description(&costs).contains("subtracted, 14.2 ns for each event of a program, as"));
    }
}
