//! A tracer among those in a comparison: its rounds and their figures.

use crate::tracers::{ComparedTracer, LoopResult};
use serde_json::{Value, json};
use sordino_npt::{GapStatistics, Unit};

/// A tracer and its rounds.
pub(crate) struct Contender {
    /// The tracer that is compared.
    pub(crate) tracer: ComparedTracer,
    /// The results of its rounds.
    pub(crate) rounds: Vec<LoopResult>,
    /// The reason why there are no rounds.
    pub(crate) missing: Option<String>,
}

/// The values of one figure, one from each round.
pub(crate) struct RoundValues(Vec<f64>);

impl RoundValues {
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => f64::NAN,
            length => f64::midpoint(sorted[(length - 1) / 2], sorted[length / 2]),
        }
    }

    pub(crate) fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn greatest(&self) -> f64 {
        self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }
}

/// A figure: its name, and the function that returns its value.
pub(crate) type Figure = (String, fn(&GapStatistics, usize) -> f64);

/// Returns the figures of a contender: the percentiles, then the longest gap.
pub(crate) fn figures(contender: &Contender) -> Vec<Figure> {
    let percentile: fn(&GapStatistics, usize) -> f64 =
        |statistics, place| statistics.percentiles[place].gap_ns;
    let maximum: fn(&GapStatistics, usize) -> f64 = |statistics, _| statistics.maximum_ns;
    let first = contender.rounds.iter().take(1).flat_map(|round| &round.statistics.percentiles);
    let mut figures: Vec<Figure> = first.map(|of| (format!("p{}", of.percent), percentile)).collect();
    if !figures.is_empty() {
        figures.push(("max".to_owned(), maximum));
    }
    figures
}

impl Contender {
    /// Returns each figure's name and its value in each round, in nanoseconds.
    pub(crate) fn samples(&self) -> Vec<(String, RoundValues)> {
        let of_figure = |(place, (name, value)): (usize, Figure)| {
            (name, RoundValues(self.rounds.iter().map(|round| value(&round.statistics, place)).collect()))
        };
        figures(self).into_iter().enumerate().map(of_figure).collect()
    }

    fn lost(&self) -> u64 {
        self.rounds.iter().map(|round| round.lost).sum()
    }

    /// Counts the rounds whose trace does not have all hits that were not lost.
    pub(crate) fn unconfirmed(&self) -> usize {
        let differs = |round: &&LoopResult| round.read.is_some_and(|read| read + round.lost != round.hits);
        self.rounds.iter().filter(differs).count()
    }

    /// Returns the contender's rows of the table; none if there are no rounds.
    pub(crate) fn rows(&self, base: &[(String, RoundValues)], unit: Unit) -> Vec<(String, Vec<String>)> {
        let samples = self.samples();
        let cells = |value: &dyn Fn(&str, &RoundValues) -> String| -> Vec<String> {
            samples.iter().map(|(figure, samples)| value(figure, samples)).collect()
        };
        if samples.is_empty() {
            return Vec::new();
        }
        let mut medians = cells(&|_, samples| unit.time(samples.median()));
        medians.push(self.lost().to_string());
        let mut rows = vec![
            (self.tracer.to_string(), medians),
            ("  least".to_owned(), cells(&|_, samples| unit.time(samples.least()))),
            ("  greatest".to_owned(), cells(&|_, samples| unit.time(samples.greatest()))),
        ];
        if !base.is_empty() {
            let ratio = |figure: &str, samples: &RoundValues| {
                let base = base.iter().find(|(known, _)| known == figure);
                base.map_or("-".to_owned(), |(_, base)| format!("{:.2}", samples.median() / base.median()))
            };
            rows.push(("  / untraced".to_owned(), cells(&ratio)));
        }
        rows
    }

    /// Returns the figures and the rounds as JSON.
    pub(crate) fn json(&self, untraced: Option<&Self>) -> Value {
        let base = untraced.map(Self::samples).unwrap_or_default();
        let figures = self.samples().into_iter().map(|(name, samples)| {
            let base = base.iter().find(|(known, _)| *known == name).map(|(_, samples)| samples.median());
            json!({
                "name": name,
                "median_ns": samples.median(),
                "least_ns": samples.least(),
                "greatest_ns": samples.greatest(),
                "ratio_to_untraced": base.map(|base| samples.median() / base),
            })
        });
        let rounds = self.rounds.iter().map(|round| {
            json!({ "statistics": round.statistics, "hits": round.hits, "lost": round.lost, "read": round.read })
        });
        json!({
            "name": self.tracer.to_string(),
            "not_measured": self.missing,
            "figures": figures.collect::<Vec<_>>(),
            "lost": self.lost(),
            "rounds": rounds.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_lies_between_least_and_greatest() {
        let samples = RoundValues(vec![4.0, 1.0, 2.0, 9.0]);
        assert_eq!((samples.median(), samples.least(), samples.greatest()), (3.0, 1.0, 9.0));
        assert!(RoundValues(Vec::new()).median().is_nan());
    }
}
