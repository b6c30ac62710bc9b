//! Limits that the user sets for a machine.

mod file;

pub use file::{BadLimits, duration};

use crate::{CheckStep, Distribution, Verdict};
use sordino_event::Nanos;
use std::collections::BTreeMap;
use std::time::Duration;

/// Upper limits for the times of steps, and the steps that must be measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Limits by the step's name.
    pub steps: BTreeMap<String, Vec<TimeLimit>>,
    /// Names of the steps that must be measured.
    pub required: Vec<String>,
}

/// Upper limit of a percentile, or of the longest time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeLimit {
    /// The percentile in percent; 100 stands for the longest time.
    pub percent: f64,
    /// The longest permitted time.
    pub time: Duration,
}

impl Limits {
    /// Adds a limit. Of two limits for one percentile, both apply, so the stricter decides.
    pub fn add(&mut self, step: &str, limit: TimeLimit) {
        let limits = self.steps.entry(step.to_owned()).or_default();
        limits.push(limit);
        limits.sort_by(|a, b| a.percent.total_cmp(&b.percent).then(a.time.cmp(&b.time)));
    }

    /// Returns the strictest limit of a step's longest time, if it has one.
    pub fn longest(&self, step: &str) -> Option<Duration> {
        let limits = self.steps.get(step)?.iter().filter(|limit| limit.percent >= 100.0);
        limits.map(|limit| limit.time).min()
    }

    /// Formats each limit as a line of text.
    pub fn texts(&self) -> Vec<String> {
        let all = self.steps.iter().flat_map(|(step, limits)| limits.iter().map(move |limit| (step, limit)));
        all.map(|(step, limit)| format!("{step}: {limit}")).collect()
    }

    /// Judges a step's measurements by its limits: FAIL with the longest time that exceeds one, PASS if there are
    /// limits and all are kept, NOT MEASURED if there are too few samples for one. A step that has its own verdict
    /// already, or no measurements, keeps its verdict.
    pub fn judge(&self, step: &mut CheckStep) {
        if step.verdict != Verdict::Info || step.measurements.is_empty() {
            return;
        }
        let Some(limits) = self.steps.get(&step.name) else { return };
        let (mut unknown, mut worst) = (None, 0.0);
        for limit in limits {
            for measurement in &step.measurements {
                let (what, key) = (&measurement.what, limit.key());
                match limit.excess(&measurement.times) {
                    Some(Some(time_ns)) if time_ns > worst => {
                        worst = time_ns;
                        step.verdict = Verdict::Fail;
                        step.reason = format!(
                            "{what}: {key} is {}, over the limit of {}",
                            time(time_ns),
                            text(limit.time)
                        );
                    }
                    Some(_) => {}
                    None => unknown = Some((what.clone(), key)),
                }
            }
        }
        match unknown {
            _ if step.verdict == Verdict::Fail => {}
            Some((what, key)) => {
                step.verdict = Verdict::NotMeasured;
                step.reason = format!("{what}: too few samples for {key}: measure for longer (--duration)");
            }
            None => {
                step.verdict = Verdict::Pass;
                step.reason = format!("{}; within the limit", step.reason);
            }
        }
    }
}

impl TimeLimit {
    fn key(&self) -> String {
        if self.percent >= 100.0 { "max".to_owned() } else { format!("p{}", self.percent) }
    }

    /// Returns the time that exceeds the limit, if one does; `None` if there are too few samples to know.
    fn excess(&self, times: &Distribution) -> Option<Option<f64>> {
        let time = if self.percent >= 100.0 { times.maximum_ns } else { times.percentile(self.percent)? };
        Some((time > self.time.as_nanos() as f64).then_some(time))
    }
}

impl std::fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at most {}", self.key(), text(self.time))
    }
}

fn text(time: Duration) -> String {
    sordino_quantity::typed(time)
}

/// Returns a measured time as text.
pub fn time(nanoseconds: f64) -> String {
    Nanos::rounded(nanoseconds).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Measurement, Samples};

    const KNOWN: &[&str] = &["npt", "wake-up"];

    fn measured(name: &str, times: &[u64]) -> CheckStep {
        let mut step = CheckStep::new(name, name);
        for (cpu, &time) in times.iter().enumerate() {
            step.measurements.push(Measurement::new(format!("CPU {cpu}"), Samples::of([10, time])));
        }
        step
    }

    fn limits(text: &str) -> Limits {
        Limits::parse(text, KNOWN).unwrap()
    }

    #[test]
    fn a_limit_that_one_cpu_exceeds_fails_the_step_with_that_cpu() {
        // The reason names the worst CPU, not the first.
        let mut step = measured("npt", &[900, 5_000, 2_000]);
        limits("[npt]\nmax = \"1us\"").judge(&mut step);
        assert_eq!(step.verdict, Verdict::Fail);
        assert_eq!(step.reason, "CPU 1: max is 5.00 us, over the limit of 1us");
    }

    #[test]
    fn a_limit_includes_its_value_and_does_not_apply_to_other_steps() {
        let mut step = measured("npt", &[1_000]);
        limits("[npt]\nmax = \"1us\"").judge(&mut step);
        assert_eq!(step.verdict, Verdict::Pass);
        let mut other = measured("wake-up", &[1_000_000]);
        limits("[npt]\nmax = \"1us\"").judge(&mut other);
        assert_eq!(other.verdict, Verdict::Info);
        let mut two = limits("[npt]\nmax = \"2us\"\np50 = \"1ns\"");
        two.add("npt", TimeLimit { percent: 100.0, time: Duration::from_micros(1) });
        assert_eq!((two.longest("npt"), two.longest("wake-up")), (Some(Duration::from_micros(1)), None));
    }

    #[test]
    fn a_percentile_that_the_samples_can_not_tell_is_not_measured() {
        let mut step = measured("npt", &[900]);
        limits("[npt]\nmax = \"1us\"\n\"p99.9\" = \"1us\"").judge(&mut step);
        assert_eq!(step.verdict, Verdict::NotMeasured);
        let mut step = measured("npt", &[9_000]);
        limits("[npt]\nmax = \"1us\"\n\"p99.9\" = \"1us\"").judge(&mut step);
        assert_eq!(step.verdict, Verdict::Fail);
    }

    #[test]
    fn what_was_not_measured_stays_so() {
        let mut step = CheckStep::new("npt", "npt").not_measured("no", None);
        limits("[npt]\nmax = \"1us\"").judge(&mut step);
        assert_eq!(step.verdict, Verdict::NotMeasured);
    }
}
