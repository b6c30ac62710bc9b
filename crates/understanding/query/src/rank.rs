//! The test of Mann and Whitney: it shows whether the values of one sample tend to be greater than those of another.
//!
//! The test compares ranks and therefore assumes no distribution; that of latencies has no known form. It assumes that
//! values are independent of each other, which is not quite true of neighbouring spans.

use serde::Serialize;

/// The result of a test of two samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RankTest {
    /// The probability that a value of the second sample is greater than one of the first, equal ones counting half.
    pub longer: f64,
    /// The probability of such a difference, or a greater one, by chance.
    pub p: f64,
}

/// Tests two samples, each as its distinct values in order with their numbers.
pub(crate) fn rank_test(first: &[(u64, u64)], second: &[(u64, u64)]) -> RankTest {
    let size = |sample: &[(u64, u64)]| sample.iter().map(|(_, count)| *count as f64).sum::<f64>();
    let (n, m) = (size(first), size(second));
    if n == 0.0 || m == 0.0 {
        return RankTest { longer: 0.5, p: 1.0 };
    }
    let (mut below, mut wins, mut ties) = (0.0, 0.0, 0.0);
    let (mut first, mut second) = (first.iter().peekable(), second.iter().peekable());
    while let Some(value) = first.peek().into_iter().chain(second.peek()).map(|(value, _)| *value).min() {
        let own = |next: Option<&(u64, u64)>| next.map_or(0.0, |(_, count)| *count as f64);
        let a = own(first.next_if(|(other, _)| *other == value));
        let b = own(second.next_if(|(other, _)| *other == value));
        wins += b * (below + a / 2.0);
        below += a;
        let tied: f64 = a + b;
        ties += tied.powi(3) - tied;
    }
    let (all, pairs) = (n + m, n * m);
    // The variance of the number of wins, with the correction for ties.
    let variance = pairs / 12.0 * ((all + 1.0) - ties / (all * (all - 1.0)).max(1.0));
    // The number of wins is whole, and the normal distribution is continuous.
    let distance = ((wins - pairs / 2.0).abs() - 0.5).max(0.0);
    let p = if variance > 0.0 { 2.0 * normal_tail(distance / variance.sqrt()) } else { 1.0 };
    RankTest { longer: wins / pairs, p: p.min(1.0) }
}

/// Returns the probability that a normally distributed value exceeds `z` standard deviations; `z` is not negative.
///
/// The method is the series of the integral near the middle, and Laplace's continued fraction further out.
fn normal_tail(z: f64) -> f64 {
    let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    if z < 3.0 {
        let (mut term, mut sum) = (z, z);
        for number in 1..60 {
            term *= z * z / f64::from(2 * number + 1);
            sum += term;
        }
        0.5 - density * sum
    } else {
        let fraction = (1..60).rev().fold(z, |below, number| z + f64::from(number) / below);
        density / fraction
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(mut values: Vec<u64>) -> Vec<(u64, u64)> {
        values.sort_unstable();
        let mut counted: Vec<(u64, u64)> = Vec::new();
        for value in values {
            match counted.last_mut() {
                Some((last, count)) if *last == value => *count += 1,
                _ => counted.push((value, 1)),
            }
        }
        counted
    }

    #[test]
    fn the_tail_of_the_normal_distribution_is_that_of_its_tables() {
        let table = [(0.0, 0.5), (1.0, 0.158_655_254), (1.96, 0.024_997_895), (3.0, 0.001_349_898)];
        for (z, p) in table.into_iter().chain([(4.0, 3.167_124e-5), (6.0, 9.865_876e-10)]) {
            assert!((normal_tail(z) / p - 1.0).abs() < 1e-6, "{z}: {}", normal_tail(z));
        }
        assert!((normal_tail(2.999_999_9) - normal_tail(3.0)).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn the_probability_of_a_longer_value_is_that_of_all_pairs(
            first in prop::collection::vec(0_u64..50, 1..80),
            second in prop::collection::vec(0_u64..50, 1..80),
        ) {
            let wins: f64 = first.iter().flat_map(|a| second.iter().map(move |b| match b.cmp(a) {
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Less => 0.0,
            })).sum();
            let longer = wins / (first.len() * second.len()) as f64;
            let (first, second) = (sample(first), sample(second));
            let test = rank_test(&first, &second);
            prop_assert!((test.longer - longer).abs() < 1e-9);
            prop_assert!((0.0..=1.0).contains(&test.p));
            let mirrored = rank_test(&second, &first);
            prop_assert!((mirrored.p - test.p).abs() < 1e-9 && (mirrored.longer + test.longer - 1.0).abs() < 1e-9);
        }

        #[test]
        fn samples_of_one_distribution_seldom_differ(seed in any::<u64>()) {
            // 200 pairs of samples: at the level of 1 %, more than twelve differences are a chance of 1 to 100,000.
            let mut state = seed | 1;
            let mut next = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % 1000
            };
            let mut draw = || sample((0..40).map(|_| next()).collect());
            let different = (0..200).filter(|_| rank_test(&draw(), &draw()).p < 0.01).count();
            prop_assert!(different <= 12, "{different}");
        }
    }
}
