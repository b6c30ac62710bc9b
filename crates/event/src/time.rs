//! Points and spans of time in a trace, in nanoseconds.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};

/// A point in time: nanoseconds since the Unix epoch by the trace's clock.
///
/// Readers convert from ticks of the trace clock once. The unfenced clock readings of two CPUs are
/// comparable to some 15 ns, so a resolution of a nanosecond loses nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

/// A span of time in nanoseconds; negative when the end lies before the begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub i64);

impl Nanos {
    /// A span of no time at all.
    pub const ZERO: Self = Self(0);

    /// Returns the span of `seconds`, rounded to the nearest nanosecond.
    pub fn from_seconds(seconds: f64) -> Self {
        Self((seconds * 1e9).round() as i64)
    }

    /// Returns the span in microseconds.
    pub fn micros(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Returns the span in seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Time {
    /// The earliest time that can be represented.
    pub const MIN: Self = Self(i64::MIN);
    /// The latest time that can be represented.
    pub const MAX: Self = Self(i64::MAX);
}

impl Sub for Time {
    type Output = Nanos;
    fn sub(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Nanos> for Time {
    type Output = Self;
    fn add(self, span: Nanos) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Nanos> for Time {
    type Output = Self;
    fn sub(self, span: Nanos) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Nanos {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl std::iter::Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

/// Prints the span with the unit that fits: `870 ns`, `12.3 us`, `4.56 ms`, `1.234 s`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&in_fitting_unit(self.0 as f64, [0, 1, 2, 3]))
    }
}

/// Returns nanoseconds with the unit that fits, with so many decimals for ns, us, ms and s.
///
/// ```
/// assert_eq!(sordino_event::in_fitting_unit(12_340.0, [0, 1, 2, 3]), "12.3 us");
/// ```
pub fn in_fitting_unit(nanoseconds: f64, decimals: [usize; 4]) -> String {
    let [ns, us, ms, s] = decimals;
    let (value, decimals, unit) = match nanoseconds.abs() {
        n if n < 1e3 => (nanoseconds, ns, "ns"),
        n if n < 1e6 => (nanoseconds / 1e3, us, "us"),
        n if n < 1e9 => (nanoseconds / 1e6, ms, "ms"),
        _ => (nanoseconds / 1e9, s, "s"),
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_printed_with_the_unit_that_fits() {
        let cases = [
            (0, "0 ns"),
            (999, "999 ns"),
            (-12_340, "-12.3 us"),
            (4_560_000, "4.56 ms"),
            (1_234_000_000, "1.234 s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(Nanos(nanos).to_string(), text);
        }
        assert_eq!(format!("{:>8}", Nanos(5)), "    5 ns");
    }

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(Time::MAX - Time::MIN, Nanos(i64::MAX));
        assert_eq!(Time::MAX + Nanos(1), Time::MAX);
        assert_eq!([Nanos(1), Nanos(2)].into_iter().sum::<Nanos>(), Nanos(3));
    }
}
