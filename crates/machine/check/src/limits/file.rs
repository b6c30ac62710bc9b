//! The file format of limits.

use super::{Limits, TimeLimit};
use crate::DistributionPercentile;
use std::time::Duration;

/// Error in a file of limits.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadLimits {
    /// The file is not valid TOML.
    #[error("{0}")]
    Syntax(String),
    /// The file names a step that does not exist.
    #[error("there is no step '{name}'; there are {}", known.join(", "))]
    Step {
        /// The unknown step's name.
        name: String,
        /// Names of all steps.
        known: Vec<String>,
    },
    /// A value is not a valid limit.
    #[error("[{step}] {key}: {what}")]
    Value {
        /// Name of the step.
        step: String,
        /// Name of the key.
        key: String,
        /// Description of the error.
        what: String,
    },
}

/// Parses a time such as `200us`, `1.5ms`, `2s`.
///
/// # Errors
/// Returns a description if the text is not a number with a unit of time.
pub fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("'{text}' is no time; write it as 200us, 1.5ms or 2s");
    sordino_quantity::duration(text).map_err(|_| bad())
}

impl Limits {
    /// Parses a file: `require = ["npt"]`, and for each step a table with `max` or percentiles, such as
    /// `"p99.99" = "50us"`.
    ///
    /// ```
    /// use sordino_check::Limits;
    /// let limits = Limits::parse("[wake-up]\nmax = \"100us\"\n\"p99.9\" = \"20us\"", &["npt", "wake-up"])?;
    /// assert_eq!(limits.texts(), ["wake-up: p99.9 at most 20us", "wake-up: max at most 100us"]);
    /// # Ok::<(), sordino_check::BadLimits>(())
    /// ```
    ///
    /// # Errors
    /// [`BadLimits`] names the step and the key.
    pub fn parse(text: &str, known: &[&str]) -> Result<Self, BadLimits> {
        let mut file: toml::Table = text.parse().map_err(|error| BadLimits::Syntax(format!("{error}")))?;
        let (mut limits, kept) = (Self::default(), DistributionPercentile::kept());
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
                    Some(Ok(percent)) if kept.contains(&percent) => percent,
                    _ => {
                        return Err(bad(
                            &step,
                            key,
                            &format!("it is max, or one of p{}", kept.map(|p| p.to_string()).join(", p")),
                        ));
                    }
                };
                let text =
                    value.as_str().ok_or_else(|| bad(&step, key, "a time is a text, such as \"100us\""))?;
                let time = duration(text).map_err(|what| bad(&step, key, &what))?;
                limits.add(&step, TimeLimit { percent, time });
            }
        }
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["npt", "wake-up"];

    #[test]
    fn bad_files_are_refused_with_the_place() {
        for (text, what) in [
            ("[npt]\nmax = \"100\"", "[npt] max: '100' is no time"),
            ("[npt]\nmax = \"xus\"", "[npt] max: 'xus' is no time"),
            ("[npt]\np100 = \"1us\"", "[npt] p100: it is max, or one of p50, p90, p99"),
            // Reports do not store p95: such a limit could never be judged.
            ("[npt]\np95 = \"1us\"", "[npt] p95: it is max, or one of"),
            ("[npt]\npnan = \"1us\"", "[npt] pnan: it is max, or one of"),
            ("[npt]\nmax = \"-1us\"", "[npt] max: '-1us' is no time"),
            ("[npt]\nmax = \"1e999s\"", "[npt] max: '1e999s' is no time"),
            ("[npt]\nmax = \"99999999999999999999s\"", "is no time"),
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
