//! What the user asks of a machine.

use crate::{Distribution, Step, Verdict};
use std::collections::BTreeMap;
use std::time::Duration;

/// What the times of steps may be at most, and which steps have to be measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Each step's, by its name.
    pub steps: BTreeMap<String, Vec<Limit>>,
    /// The steps that have to be measured.
    pub required: Vec<String>,
}

/// A time that is not to be exceeded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// By which percentile; 100: by the longest.
    pub percent: f64,
    /// The time.
    pub time: Duration,
}

/// Why a file with thresholds can't be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadLimits {
    /// It is no TOML, or has what does not belong there.
    #[error("{0}")]
    Syntax(String),
    /// It speaks of a step that there is not.
    #[error("there is no step '{name}'; there are {}", known.join(", "))]
    Step {
        /// The name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// A limit is none.
    #[error("[{step}] {key}: {what}")]
    Value {
        /// Of which step.
        step: String,
        /// Of which key.
        key: String,
        /// What is wrong.
        what: String,
    },
}

/// `200us`, `1.5ms`, `2s`.
///
/// # Errors
/// What is wrong with it.
pub fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("'{text}' is no time; write it as 200us, 1.5ms or 2s");
    let (number, unit) =
        text.find(|c: char| !c.is_ascii_digit() && c != '.').map(|end| text.split_at(end)).ok_or_else(bad)?;
    let one = humantime::parse_duration(&format!("1{unit}")).map_err(|_| bad())?;
    let number: f64 = number.parse().map_err(|_| bad())?;
    Duration::try_from_secs_f64(one.as_secs_f64() * number).map_err(|_| bad())
}

impl Limits {
    /// From a file's text: `require = ["npt"]`, and for each step a table with `max` or percentiles, such as `"p99.99" = "50us"`.
    ///
    /// ```
    /// use sordino_check::Limits;
    /// let limits = Limits::parse("[wake-up]\nmax = \"100us\"\n\"p99.9\" = \"20us\"", &["npt", "wake-up"])?;
    /// assert_eq!(limits.texts(), ["wake-up: p99.9 at most 20us", "wake-up: max at most 100us"]);
    /// # Ok::<(), sordino_check::BadLimits>(())
    /// ```
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse(text: &str, known: &[&str]) -> Result<Self, BadLimits> {
        let mut file: toml::Table = text.parse().map_err(|error| BadLimits::Syntax(format!("{error}")))?;
        let mut limits = Self::default();
        let bad = |step: &str, key: &str, what: &str| BadLimits::Value {
            step: step.to_owned(),
            key: key.to_owned(),
            what: what.to_owned(),
        };
        if let Some(required) = file.remove("require") {
            let names = required.try_into::<Vec<String>>();
            limits.required = names.map_err(|_| bad("", "require", "it is a list of steps"))?;
        }
        let names = limits.required.iter().chain(file.keys());
        if let Some(name) = names.into_iter().find(|name| !known.contains(&name.as_str())) {
            let known = known.iter().map(ToString::to_string).collect();
            return Err(BadLimits::Step { name: name.clone(), known });
        }
        for (step, keys) in file {
            let keys = keys.as_table().ok_or_else(|| bad(&step, "", "it is a table of limits"))?;
            for (key, value) in keys {
                let percent = match key.strip_prefix('p').map(str::parse) {
                    _ if key == "max" => 100.0,
                    Some(Ok(percent)) if (0.0..100.0).contains(&percent) => percent,
                    _ => return Err(bad(&step, key, "it is max, or a percentile such as p99.9")),
                };
                let text =
                    value.as_str().ok_or_else(|| bad(&step, key, "a time is a text, such as \"100us\""))?;
                let time = duration(text).map_err(|what| bad(&step, key, &what))?;
                limits.add(&step, Limit { percent, time });
            }
        }
        Ok(limits)
    }

    /// One more; of two for the same percentile, the stricter holds as well.
    pub fn add(&mut self, step: &str, limit: Limit) {
        let limits = self.steps.entry(step.to_owned()).or_default();
        limits.push(limit);
        limits.sort_by(|a, b| a.percent.total_cmp(&b.percent).then(a.time.cmp(&b.time)));
    }

    /// Each as a line for people.
    pub fn texts(&self) -> Vec<String> {
        let all = self.steps.iter().flat_map(|(step, limits)| limits.iter().map(move |limit| (step, limit)));
        all.map(|(step, limit)| format!("{step}: {limit}")).collect()
    }

    /// Judges a step's measurements by its limits: FAIL with the worst that exceeds one, PASS if there are limits and all hold. A step
    /// that has its own verdict already, or that was not measured, keeps it.
    pub fn judge(&self, step: &mut Step) {
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

impl Limit {
    fn key(&self) -> String {
        if self.percent >= 100.0 { "max".to_owned() } else { format!("p{}", self.percent) }
    }

    /// What exceeds it; `None` if the samples can't tell.
    fn excess(&self, times: &Distribution) -> Option<Option<f64>> {
        let time = if self.percent >= 100.0 { times.maximum_ns } else { times.percentile(self.percent)? };
        Some((time > self.time.as_nanos() as f64).then_some(time))
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at most {}", self.key(), text(self.time))
    }
}

fn text(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}

/// Nanoseconds with the unit that fits.
pub fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e4 => format!("{:.2} us", n / 1e3),
        n if n < 1e6 => format!("{:.1} us", n / 1e3),
        n if n < 1e9 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Measurement, Samples};

    const KNOWN: &[&str] = &["npt", "wake-up"];

    fn measured(name: &str, times: &[u64]) -> Step {
        let mut step = Step::new(name, name);
        for (cpu, &time) in times.iter().enumerate() {
            let what = format!("CPU {cpu}");
            step.measurements.push(Measurement {
                what,
                times: Samples::of([10, time]).into(),
                interrupters: Vec::new(),
            });
        }
        step
    }

    fn limits(text: &str) -> Limits {
        Limits::parse(text, KNOWN).unwrap()
    }

    #[test]
    fn a_limit_that_one_cpu_exceeds_fails_the_step_with_that_cpu() {
        // The worst of them, wherever it stands.
        let mut step = measured("npt", &[900, 5_000, 2_000]);
        limits("[npt]\nmax = \"1us\"").judge(&mut step);
        assert_eq!(step.verdict, Verdict::Fail);
        assert_eq!(step.reason, "CPU 1: max is 5.00 us, over the limit of 1us");
    }

    #[test]
    fn a_limit_is_kept_by_what_equals_it_and_asks_nothing_of_other_steps() {
        let mut step = measured("npt", &[1_000]);
        limits("[npt]\nmax = \"1us\"").judge(&mut step);
        assert_eq!(step.verdict, Verdict::Pass);
        let mut other = measured("wake-up", &[1_000_000]);
        limits("[npt]\nmax = \"1us\"").judge(&mut other);
        assert_eq!(other.verdict, Verdict::Info);
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
        let mut step = Step::new("npt", "npt").not_measured("no", None);
        limits("[npt]\nmax = \"1us\"").judge(&mut step);
        assert_eq!(step.verdict, Verdict::NotMeasured);
    }

    #[test]
    fn bad_files_are_refused_with_the_place() {
        for (text, what) in [
            ("[npt]\nmax = \"100\"", "[npt] max: '100' is no time"),
            ("[npt]\nmax = \"xus\"", "[npt] max: 'xus' is no time"),
            ("[npt]\np100 = \"1us\"", "[npt] p100: it is max, or a percentile"),
            ("[npt]\nmaximum = \"1us\"", "[npt] maximum: it is max"),
            ("[nqt]\nmax = \"1us\"", "there is no step 'nqt'; there are npt, wake-up"),
            ("require = [\"x\"]", "there is no step 'x'"),
            ("[npt]\nmax = 5", "[npt] max: a time is a text"),
            ("npt = 5", "[npt] : it is a table"),
            ("require = 5", "[] require: it is a list"),
            ("[npt", "line 1"),
        ] {
            let error = Limits::parse(text, KNOWN).unwrap_err().to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
