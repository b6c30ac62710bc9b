//! Search for the highest rate of events without a lost one.

use sordino_proc::machine::memory;

/// Range and precision of the search.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Lower bound in events per second, at which no loss is expected.
    pub low: f64,
    /// Upper bound in events per second, at which losses are expected.
    pub high: f64,
    /// Relative precision at which the search ends.
    pub precision: f64,
}

/// Result of a run at some rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateResult {
    /// Events that were actually hit per second.
    pub reached: f64,
    /// Number of lost events.
    pub lost: u64,
}

/// Rate that no tracer reaches, in events per second.
const CEILING: f64 = 120e6;
/// Greatest size of a recorded event in bytes.
pub const EVENT: f64 = 32.0;

/// Returns the highest rate, in events per second, for a run of this length: its recording must fit into half of the
/// available memory.
pub fn ceiling(seconds: f64) -> f64 {
    memory("MemAvailable").map_or(CEILING, |bytes| CEILING.min(bytes as f64 / 2.0 / (EVENT * seconds)))
}

impl Search {
    /// Returns the highest rate at which `run` lost nothing, by bisection on a logarithmic scale; 0 if it always lost
    /// something.
    ///
    /// # Errors
    /// The first error of `run`.
    pub fn highest<E>(self, mut run: impl FnMut(f64) -> Result<RateResult, E>) -> Result<f64, E> {
        let (mut good, mut bad, mut best) = (self.low, self.high, 0.0_f64);
        while bad / good > 1.0 + self.precision {
            let rate = (good * bad).sqrt();
            let outcome = run(rate)?;
            if outcome.lost == 0 {
                // The program has reached its highest rate if a higher target made it no faster.
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

    /// Loses events above `limit`, and hits at most `fastest` per second.
    fn tracer(limit: f64, fastest: f64) -> Result<f64, ()> {
        let search = Search { low: 1e5, high: 1e8, precision: 0.05 };
        search.highest(|rate| {
            let reached = rate.min(fastest);
            Ok(RateResult { reached, lost: u64::from(reached > limit) })
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
