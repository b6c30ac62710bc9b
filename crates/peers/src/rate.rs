//! The highest rate of events without a lost one, by bisection.

use std::fs;

/// Where to search, and how closely.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// A rate that is hoped to lose nothing, in events a second.
    pub low: f64,
    /// One that is hoped to lose some.
    pub high: f64,
    /// The search ends when it knows the rate to this fraction.
    pub precision: f64,
}

/// What a run at some rate came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Events really hit in a second.
    pub reached: f64,
    /// How many were lost.
    pub lost: u64,
}

/// More than any tracer writes, in events a second.
const CEILING: f64 = 120e6;
/// Bytes that an event takes in a recording, at most.
pub const EVENT: f64 = 32.0;

/// The highest rate to try for so long: half of the memory that is free has to hold what it records.
pub fn ceiling(seconds: f64) -> f64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.map_or(CEILING, |kib| CEILING.min(kib * 512.0 / (EVENT * seconds)))
}

impl Search {
    /// The highest rate at which `run` lost nothing, by bisection on a logarithmic scale; 0 if it always lost something.
    ///
    /// # Errors
    /// The first of `run`'s.
    pub fn highest<E>(self, mut run: impl FnMut(f64) -> Result<Outcome, E>) -> Result<f64, E> {
        let (mut good, mut bad, mut best) = (self.low, self.high, 0.0_f64);
        while bad / good > 1.0 + self.precision {
            let rate = (good * bad).sqrt();
            let outcome = run(rate)?;
            if outcome.lost == 0 {
                // A program that was asked for more and did not hit faster has reached its highest rate.
                if outcome.reached < best * 1.02 {
                    return Ok(best.max(outcome.reached));
                }
                best = best.max(outcome.reached);
                good = rate;
            } else {
                bad = rate;
            }
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loses above `limit`, and reaches no more than `fastest`.
    fn tracer(limit: f64, fastest: f64) -> Result<f64, ()> {
        let search = Search { low: 1e5, high: 1e8, precision: 0.05 };
        search.highest(|rate| {
            let reached = rate.min(fastest);
            Ok(Outcome { reached, lost: u64::from(reached > limit) })
        })
    }

    #[test]
    fn the_highest_rate_is_found_to_the_precision_from_below() {
        for limit in [3e5, 1.7e6, 4e7] {
            let found = tracer(limit, 1e9).unwrap();
            assert!(found <= limit && found > limit / 1.06, "{found} of {limit}");
        }
    }

    #[test]
    fn who_always_loses_has_none_and_who_is_slow_has_its_own() {
        assert_eq!(tracer(1e3, 1e9), Ok(0.0));
        assert_eq!(tracer(1e9, 2e6), Ok(2e6));
        let failing = Search { low: 1.0, high: 9.0, precision: 0.1 };
        assert_eq!(failing.highest(|_| Err("no")), Err("no"));
    }
}
