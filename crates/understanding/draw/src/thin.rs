//! Thinning: stretches too short to see become one.

use sordino_event::{Nanos, Time};

/// A stretch of a lane, as it is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DrawnStretch {
    pub(crate) from: Time,
    pub(crate) to: Time,
    /// The class of its colour.
    pub(crate) class: &'static str,
    /// The words in the stretch, if there is room for them.
    pub(crate) label: String,
    /// The words that appear when a user points at it.
    pub(crate) title: String,
}

/// The class of stretches that are drawn as one.
pub(crate) const SEVERAL: &str = "several";

/// Joins neighbours that are shorter than `resolution`, across gaps that are as short, until the joined stretch reaches
/// it. The words of the joined stretch have their number and the name of the longest.
pub(crate) fn thin(stretches: Vec<DrawnStretch>, resolution: Nanos) -> Vec<DrawnStretch> {
    let mut thinned: Vec<DrawnStretch> = Vec::new();
    let mut group: Vec<DrawnStretch> = Vec::new();
    for stretch in stretches {
        let is_short = stretch.to - stretch.from < resolution;
        let end = group.last().map_or(stretch.from, |last| last.to);
        let is_near = group.is_empty() || stretch.from - end < resolution;
        let is_full = group.first().is_some_and(|first| end - first.from >= resolution);
        if !is_short || !is_near || is_full {
            thinned.extend(joined(std::mem::take(&mut group)));
        }
        match is_short {
            true => group.push(stretch),
            false => thinned.push(stretch),
        }
    }
    thinned.extend(joined(group));
    thinned
}

fn joined(group: Vec<DrawnStretch>) -> Option<DrawnStretch> {
    let (from, to) = (group.first()?.from, group.last()?.to);
    if group.len() == 1 {
        return group.into_iter().next();
    }
    let count = group.len();
    let longest = group.into_iter().max_by_key(|stretch| stretch.to - stretch.from)?;
    let title = format!("{count} short stretches, the longest: {}", longest.title);
    Some(DrawnStretch { from, to, class: SEVERAL, label: String::new(), title })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn thinned_stretches_cover_the_same_time_and_short_gaps_and_long_ones_stay(
            steps in proptest::collection::vec((0_i64..80, 1_i64..40), 1..200), resolution in 0_i64..50,
        ) {
            let mut at = 0;
            let stretches: Vec<DrawnStretch> = steps.into_iter().map(|(gap, length)| {
                let from = at + gap;
                at = from + length;
                let title = length.to_string();
                DrawnStretch { from: Time(from), to: Time(at), class: "a", label: String::new(), title }
            }).collect();
            let thinned = thin(stretches.clone(), Nanos(resolution));
            let is_in = |stretch: &DrawnStretch| {
                thinned.iter().filter(|one| one.from <= stretch.from && stretch.to <= one.to).count() == 1
            };
            prop_assert!(stretches.iter().all(is_in));
            let covered = |all: &[DrawnStretch]| all.iter().map(|one| (one.to - one.from).0).sum::<i64>();
            let gaps = stretches.windows(2).map(|pair| (pair[1].from - pair[0].to).0);
            let short_gaps = gaps.filter(|gap| *gap < resolution).sum::<i64>();
            prop_assert!((covered(&stretches)..=covered(&stretches) + short_gaps).contains(&covered(&thinned)));
            prop_assert!(thinned.is_sorted_by(|one, next| one.to <= next.from));
            let is_long = |one: &&DrawnStretch| one.to - one.from >= Nanos(resolution);
            prop_assert!(stretches.iter().filter(is_long).all(|long| thinned.contains(long)));
            let short = thinned.windows(2).filter(|pair| {
                pair[1].from - pair[0].to < Nanos(resolution)
                    && pair.iter().all(|one| one.to - one.from < Nanos(resolution))
            });
            prop_assert_eq!(short.count(), 0);
        }
    }
}
