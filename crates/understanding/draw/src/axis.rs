//! Axes: values to coordinates, and round marks.

use std::fmt::Write;

/// Number of marks below which a logarithmic axis gets more than powers of ten.
const FEWEST: usize = 3;

/// An axis from a value to another, at these coordinates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) is_logarithmic: bool,
    pub(crate) begin: f64,
    pub(crate) end: f64,
}

impl Axis {
    /// Returns the coordinate of a value; one outside of the axis is at its nearest end.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.is_logarithmic { value.max(self.low).ln() } else { value };
        let length = scale(self.high) - scale(self.low);
        let part = if length > 0.0 { (scale(value) - scale(self.low)) / length } else { 0.0 };
        self.begin + part.clamp(0.0, 1.0) * (self.end - self.begin)
    }

    /// Returns the marks of the axis: three to nine round values; on a long logarithmic axis the powers of ten.
    pub(crate) fn marks(&self) -> Vec<f64> {
        const DIGITS: [&[f64]; 2] = [&[1.0], &[1.0, 2.0, 5.0]];
        let logarithmic =
            DIGITS.map(|digits| if self.is_logarithmic { self.powers(digits) } else { Vec::new() });
        let enough = logarithmic.into_iter().find(|marks| marks.len() >= FEWEST);
        enough.unwrap_or_else(|| self.steps())
    }

    /// Returns these multiples of the powers of ten.
    fn powers(&self, digits: &[f64]) -> Vec<f64> {
        let (first, last) = (self.low.max(f64::MIN_POSITIVE).log10().floor(), self.high.log10().floor());
        let all = (first as i32..=last as i32)
            .flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)));
        all.filter(|mark| (self.low..=self.high).contains(mark)).collect()
    }

    fn steps(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / 8.0;
        if rough <= 0.0 || !rough.is_finite() {
            return Vec::new();
        }
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        let marks = (first..).take(16).map(|n| n as f64 * step);
        marks.take_while(|mark| *mark <= self.high).collect()
    }
}

/// Writes the lines and the names of the marks of a vertical axis, for a picture between `left` and `right`.
pub(crate) fn y_marks(y: &Axis, (left, right): (f64, f64), name: impl Fn(f64) -> String, svg: &mut String) {
    for mark in y.marks() {
        let at = y.at(mark);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 6.0,
            at + 4.0,
            name(mark)
        );
    }
}

/// Returns the words for a mark of an axis of time, in nanoseconds. They have all its digits, as a span of time in
/// words need not: `100.25 s`.
pub(crate) fn time_mark(mark: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    let unit = units.into_iter().find(|(unit, _)| mark.abs() >= *unit);
    let (unit, name) = unit.unwrap_or((1.0, "ns"));
    let digits = format!("{:.9}", mark / unit);
    match digits.trim_end_matches('0').trim_end_matches('.') {
        "0" | "-0" => "0".to_owned(),
        digits => format!("{digits} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn marks_are_a_few_within_the_axis(low in -1e15..1e15, length in 1e-3..1e15) {
            let axis = Axis { low, high: low + length, is_logarithmic: false, begin: 0.0, end: 1.0 };
            let marks = axis.marks();
            prop_assert!((3..=9).contains(&marks.len()), "{marks:?}");
            prop_assert!(marks.iter().all(|mark| low <= *mark && *mark <= low + length));
        }

        #[test]
        fn coordinates_lie_on_the_axis_and_keep_the_order(values in proptest::collection::vec(-1e18..1e18, 2)) {
            for is_logarithmic in [false, true] {
                let axis = Axis { low: 1.0, high: 1e9, is_logarithmic, begin: 10.0, end: 900.0 };
                let at: Vec<f64> = values.iter().map(|value| axis.at(*value)).collect();
                prop_assert!(at.iter().all(|at| (10.0..=900.0).contains(at)));
                prop_assert!((values[0] <= values[1]) == (at[0] <= at[1]) || at[0] == at[1]);
            }
        }
    }

    #[test]
    fn neighbouring_marks_have_different_words() {
        let words = |low, high| {
            let axis = Axis { low, high, is_logarithmic: false, begin: 0.0, end: 1.0 };
            axis.marks().into_iter().map(time_mark).collect::<Vec<_>>()
        };
        assert_eq!(words(100e9, 101e9), ["100 s", "100.2 s", "100.4 s", "100.6 s", "100.8 s", "101 s"]);
        assert_eq!(
            words(-30.0, 40.0),
            ["-30 ns", "-20 ns", "-10 ns", "0", "10 ns", "20 ns", "30 ns", "40 ns"]
        );
    }

    #[test]
    fn an_axis_of_one_value_has_no_marks() {
        let axis = Axis { low: 5.0, high: 5.0, is_logarithmic: false, begin: 0.0, end: 1.0 };
        assert!(axis.marks().is_empty() && axis.at(5.0) == 0.0);
        let axis = Axis { low: 3.0, high: 2000.0, is_logarithmic: true, begin: 0.0, end: 1.0 };
        assert_eq!(axis.marks(), [10.0, 100.0, 1000.0]);
        assert_eq!(Axis { low: 300.0, ..axis }.marks(), [500.0, 1000.0, 2000.0]);
        assert_eq!(Axis { low: 980.0, high: 1010.0, ..axis }.marks().len(), 7);
    }
}
