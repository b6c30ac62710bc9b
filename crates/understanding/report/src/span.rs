//! The text of spans of time, and of shares of them.

use crate::page::TIE;
use sordino_event::Nanos;

/// Returns the span with three significant digits and the unit that fits: `870 ns`, `12.3 us`, `4.90 ms`, `1.23
/// s`; from 1000 s on, whole seconds.
pub fn span(span: Nanos) -> String {
    const UNITS: [&str; 4] = ["ns", "us", "ms", "s"];
    let sign = if span.0 < 0 { "-" } else { "" };
    let nanos = span.0.unsigned_abs();
    if nanos < 1000 {
        return format!("{sign}{nanos}{TIE}ns");
    }
    // The nanoseconds of the third digit: 10 in 1.23 us, 100 in 12.3 us.
    let digit = 10_u64.pow((nanos.ilog10() - 2).min(9));
    let rounded = (nanos + digit / 2) / digit * digit;
    let group = (rounded.ilog10() / 3).min(3);
    let unit = 1000_u64.pow(group);
    let decimals = match rounded / unit {
        0..10 => 2,
        10..100 => 1,
        _ => 0,
    };
    let (whole, part) = (rounded / unit, rounded % unit);
    match decimals {
        0 => format!("{sign}{whole}{TIE}{}", UNITS[group as usize]),
        _ => {
            let part = part / (unit / 10_u64.pow(decimals));
            format!("{sign}{whole}.{part:0width$}{TIE}{}", UNITS[group as usize], width = decimals as usize)
        }
    }
}

/// Returns `part` of `whole` in per cent, with one decimal; `<0.1%` for what would be rounded to nothing. Empty
/// if `part` is no part of `whole`.
pub(crate) fn share(part: Nanos, whole: Nanos) -> String {
    let (part, whole) = (i128::from(part.0), i128::from(whole.0));
    if whole <= 0 || part < 0 || part > whole {
        return String::new();
    }
    match (part * 2000 + whole) / (whole * 2) {
        0 if part > 0 => "<0.1%".into(),
        tenths => format!("{}.{}%", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_three_digits_and_the_unit_that_fits() {
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
            assert_eq!(span(Nanos(nanos)).replace(TIE, " "), text, "{nanos}");
        }
    }

    #[test]
    fn shares_are_rounded_and_never_hide_something() {
        let cases = [
            (0, 7, "0.0%"),
            (7, 7, "100.0%"),
            (1, 3, "33.3%"),
            (2, 3, "66.7%"),
            (1, 10_000, "<0.1%"),
            (1, 2000, "0.1%"),
            (i64::MAX, i64::MAX, "100.0%"),
            (1, 0, ""),
            (8, 7, ""),
            (-1, 7, ""),
        ];
        for (part, whole, text) in cases {
            assert_eq!(share(Nanos(part), Nanos(whole)), text, "{part} of {whole}");
        }
    }
}
