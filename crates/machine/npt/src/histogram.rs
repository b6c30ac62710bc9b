//! A histogram of cycles with a small bounded cost of updates and a fixed size.
//!
//! Log-linear: exact below 2^[`BITS`], and [`BITS`] significant bits above, so that a value is known to one part in
//! 1,024.

/// Number of significant bits of a value.
const BITS: u32 = 10;
const LINEAR: u64 = 1 << BITS;
/// Number of buckets: a linear part, then half as many for each further power of two up to 2^64.
const BUCKETS: usize = LINEAR as usize + (64 - BITS as usize) * (LINEAR as usize / 2);

/// Number of occurrences of each number of cycles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram(Box<[u64; BUCKETS]>);

/// A bucket that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Least value of the bucket in cycles.
    pub low: u64,
    /// Greatest value of the bucket in cycles.
    pub high: u64,
    /// Number of values in the bucket.
    pub count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Creates an empty histogram, with all of its memory present.
    pub fn new() -> Self {
        // The memory is written, because zeroed memory may be provided page by page when it is touched.
        let mut buckets = Box::new([1; BUCKETS]);
        buckets.fill(std::hint::black_box(0));
        Self(buckets)
    }

    /// Counts a value.
    ///
    /// Real-time: about ten instructions and one store; no allocation, no page fault. Values below 1,024, which nearly
    /// all are, take three instructions.
    #[inline(always)]
    pub fn record(&mut self, cycles: u64) {
        if cycles < LINEAR {
            self.0[cycles as usize] += 1;
        } else {
            self.record_large(cycles);
        }
    }

    #[cold]
    #[inline(never)]
    fn record_large(&mut self, cycles: u64) {
        self.0[index(cycles)] += 1;
    }

    /// Returns the number of counted values.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds a bucket of another histogram with the same buckets, by its least value.
    pub(crate) fn add_bucket(&mut self, bucket: Bucket) {
        self.0[index(bucket.low)] += bucket.count;
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(count, more)| *count += more);
    }

    /// Returns the buckets that are not empty, in ascending order.
    pub fn buckets(&self) -> impl DoubleEndedIterator<Item = Bucket> {
        self.0.iter().enumerate().filter(|(_, count)| **count != 0).map(|(index, &count)| {
            let (low, high) = bounds(index);
            Bucket { low, high, count }
        })
    }
}

/// Index of the bucket that contains a value.
#[inline(always)]
fn index(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BITS);
    (u64::from(shift) * (LINEAR / 2) + (value >> shift)) as usize
}

/// Least and greatest value of a bucket.
fn bounds(index: usize) -> (u64, u64) {
    let index = index as u64;
    if index < LINEAR {
        return (index, index);
    }
    let shift = index / (LINEAR / 2) - 1;
    let low = (index - shift * (LINEAR / 2)) << shift;
    (low, low + ((1 << shift) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_values_have_a_bucket_each() {
        let mut histogram = Histogram::new();
        for value in [0, 5, 5, 1023] {
            histogram.record(value);
        }
        let seen: Vec<_> =
            histogram.buckets().map(|bucket| (bucket.low, bucket.high, bucket.count)).collect();
        assert_eq!(seen, [(0, 0, 1), (5, 5, 2), (1023, 1023, 1)]);
    }

    #[test]
    fn the_largest_value_has_a_bucket() {
        let mut histogram = Histogram::new();
        histogram.record(u64::MAX);
        assert_eq!(histogram.buckets().next().unwrap().high, u64::MAX);
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket_which_is_narrow(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let (low, high) = bounds(index(value));
            prop_assert!(low <= value && value <= high);
            prop_assert!((high - low) as f64 <= value as f64 / 512.0);
        }

        #[test]
        fn buckets_follow_each_other_without_a_gap(index in 0..BUCKETS - 1) {
            prop_assert_eq!(bounds(index).1 + 1, bounds(index + 1).0);
        }
    }
}
