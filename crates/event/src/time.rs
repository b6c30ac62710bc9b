//! Points and spans of time in a trace, in nanoseconds.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// A point in time: nanoseconds since the Unix epoch by the trace's clock.
///
/// Readers convert from ticks of the trace clock once. The unfenced clock readings of two CPUs are comparable to some
/// 15 ns, so a resolution of a nanosecond loses nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

/// A span of time in nanoseconds; negative when the end lies before the begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub i64);

impl Nanos {
    /// A span of length 0.
    pub const ZERO: Self = Self(0);

    /// Returns true if the span has no length.
    pub const fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// Returns the span of `seconds`, rounded to the nearest nanosecond.
    pub fn from_seconds(seconds: f64) -> Self {
        Self::rounded(seconds * 1e9)
    }

    /// Returns the span of `nanoseconds`, rounded to the nearest one.
    pub fn rounded(nanoseconds: f64) -> Self {
        Self(nanoseconds.round() as i64)
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

/// Converts a duration; one longer than 292 years becomes the longest span.
impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl std::iter::Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

/// Prints the span with three significant digits and the unit that fits: `870 ns`, `12.3 us`, `4.90 ms`, `1.23 s`; from
/// 1000 s on, whole seconds.
///
/// ```
/// assert_eq!(format!("{:>9}", sordino_event::Nanos(12_345)), "  12.3 us");
/// ```
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 4] = ["ns", "us", "ms", "s"];
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanos = self.0.unsigned_abs();
        if nanos < 1000 {
            return f.pad(&format!("{sign}{nanos} ns"));
        }
        // The nanoseconds of the third digit: 10 in 1.23 us, 100 in 12.3 us.
        let digit = 10_u64.pow((nanos.ilog10() - 2).min(9));
        let rounded = (nanos + digit / 2) / digit * digit;
        let group = (rounded.ilog10() / 3).min(3);
        let (unit, name) = (1000_u64.pow(group), UNITS[group as usize]);
        let (whole, part) = (rounded / unit, rounded % unit);
        f.pad(&match whole {
            0..10 => format!("{sign}{whole}.{:02} {name}", part / (unit / 100)),
            10..100 => format!("{sign}{whole}.{} {name}", part / (unit / 10)),
            _ => format!("{sign}{whole} {name}"),
        })
    }
}

/// Returns the text of a span that is known to fractions of a nanosecond: the text of [`Nanos`], whose three digits
/// include decimals below 100 ns.
///
/// ```
/// use sordino_event::fractional_span;
/// assert_eq!([7.25, 21.34, 12_345.0].map(fractional_span), ["7.25 ns", "21.3 ns", "12.3 us"]);
/// ```
pub fn fractional_span(nanoseconds: f64) -> String {
    match nanoseconds.abs() {
        n if n < 9.995 => format!("{nanoseconds:.2} ns"),
        n if n < 99.95 || !n.is_finite() => format!("{nanoseconds:.1} ns"),
        _ => Nanos::rounded(nanoseconds).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_printed_with_the_unit_that_fits() {
        let cases = [
            (0, "0 ns"),
            (7, "7 ns"),
            (999, "999 ns"),
            (1000, "1.00 us"),
            (1234, "1.23 us"),
            (1235, "1.24 us"),
            (12_345, "12.3 us"),
            (99_949, "99.9 us"),
            (99_950, "100 us"),
            (999_499, "999 us"),
            (999_500, "1.00 ms"),
            (4_900_000, "4.90 ms"),
            (-12_300_000, "-12.3 ms"),
            (1_000_000_000, "1.00 s"),
            (999_499_999_999, "999 s"),
            (1_234_567_890_123, "1235 s"),
            (i64::MAX, "9223372037 s"),
            (i64::MIN, "-9223372037 s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(Nanos(nanos).to_string(), text);
        }
        assert_eq!(format!("{:>8}", Nanos(5)), "    5 ns");
    }

    #[test]
    fn a_fraction_of_a_nanosecond_has_three_digits_too() {
        let cases = [
            (0.0, "0.00 ns"),
            (9.994, "9.99 ns"),
            (9.996, "10.0 ns"),
            (-99.94, "-99.9 ns"),
            (99.96, "100 ns"),
            (1234.5, "1.24 us"),
            (f64::NAN, "NaN ns"),
            (f64::INFINITY, "inf ns"),
        ];
        for (nanos, text) in cases {
            assert_eq!(fractional_span(nanos), text);
        }
    }

    #[test]
    fn conversions_round_and_saturate() {
        assert_eq!([Nanos::rounded(2.5), Nanos::from_seconds(-1.5e-9)], [Nanos(3), Nanos(-2)]);
        assert_eq!(
            [Nanos::from(Duration::from_secs(2)), Duration::MAX.into()],
            [Nanos(2_000_000_000), Nanos(i64::MAX)]
        );
    }

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(Time::MAX - Time::MIN, Nanos(i64::MAX));
        assert_eq!(Time::MAX + Nanos(1), Time::MAX);
        assert_eq!([Nanos(1), Nanos(2)].into_iter().sum::<Nanos>(), Nanos(3));
    }
}
