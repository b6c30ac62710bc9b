//! Draws the latency plot known from OSADL: the number of samples by time, on a logarithmic axis, with one line for
//! each CPU.
//!
//! The SVG is written here rather than by plotters (npt's choice), because the page's CSS classes give one picture
//! colours for light and dark.

use super::escape;
use crate::limits::time;
use crate::{Bin, Measurement};
use std::fmt::Write;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 48.0;

/// Ratio of the longest to the shortest time above which the axis of time is logarithmic, too.
const LINEAR_UP_TO: f64 = 100.0;

/// Maps values to coordinates of the picture.
struct Axis {
    low: f64,
    high: f64,
    is_logarithmic: bool,
    begin: f64,
    end: f64,
}

impl Axis {
    fn place(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.is_logarithmic { value.max(self.low).ln() } else { value };
        let part = (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low));
        self.begin + part.clamp(0.0, 1.0) * (self.end - self.begin)
    }

    /// Returns the marks of the axis: powers of ten, or about five round values.
    fn marks(&self) -> Vec<f64> {
        if self.is_logarithmic {
            let first = self.low.log10().ceil() as i32;
            return (first..)
                .map(|power| 10f64.powi(power))
                .take_while(|mark| *mark <= self.high * 1.001)
                .collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        (first..).map(|n| n as f64 * step).take_while(|mark| *mark <= self.high * 1.001).collect()
    }
}

/// Returns an SVG element, with a line at `limit_ns`; empty if there are no samples.
pub(super) fn svg(title: &str, measurements: &[Measurement], limit_ns: Option<f64>) -> String {
    let bins = || measurements.iter().flat_map(|measurement| &measurement.times.histogram);
    let Some(most) = bins().map(|bin| bin.count).max() else { return String::new() };
    let shortest = bins().map(|bin| bin.low_ns).fold(f64::INFINITY, f64::min).max(1.0);
    let longest = measurements
        .iter()
        .map(|measurement| measurement.times.maximum_ns)
        .fold(limit_ns.unwrap_or(0.0), f64::max)
        .max(shortest * 2.0);
    let is_logarithmic = longest / shortest > LINEAR_UP_TO;
    let low = if is_logarithmic { shortest } else { 0.0 };
    let x = Axis { low, high: longest * 1.03, is_logarithmic, begin: LEFT, end: WIDTH - RIGHT };
    let y = Axis {
        low: 0.7,
        high: (most as f64 * 2.0).max(10.0),
        is_logarithmic: true,
        begin: HEIGHT - BOTTOM,
        end: TOP,
    };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape(title)
    );
    grid(&x, &y, &mut text);
    for (index, measurement) in measurements.iter().enumerate() {
        let class = index % COLOURS;
        let _ = writeln!(
            text,
            "<path class=\"line c{class}\" d=\"{}\"><title>{}</title></path>",
            outline(&measurement.times.histogram, &x, &y),
            escape(&format!("{}: max {}", measurement.what, time(measurement.times.maximum_ns)))
        );
        let (at, radius) = (x.place(measurement.times.maximum_ns), 3.5);
        let _ = writeln!(
            text,
            "<circle class=\"dot c{class}\" cx=\"{at:.1}\" cy=\"{:.1}\" r=\"{radius}\"/>",
            y.place(1.0)
        );
    }
    if let Some(limit) = limit_ns {
        let at = x.place(limit);
        let _ = writeln!(
            text,
            "<line class=\"limit\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{}\"/>",
            HEIGHT - BOTTOM
        );
        let _ = writeln!(
            text,
            "<text class=\"limit\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"end\">limit {}</text>",
            TOP - 4.0,
            time(limit)
        );
    }
    text + "</svg>\n"
}

/// Number of colours for lines in the page.
pub(super) const COLOURS: usize = 8;

fn grid(x: &Axis, y: &Axis, text: &mut String) {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for mark in x.marks() {
        let at = x.place(mark);
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>"
        );
        let _ = writeln!(
            text,
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            round(mark)
        );
    }
    for mark in y.marks() {
        let at = y.place(mark);
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"
        );
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            count(mark)
        );
    }
    let axis = if x.is_logarithmic { "time (logarithmic)" } else { "time" };
    let _ = writeln!(
        text,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{axis}</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 10.0
    );
    let _ = writeln!(text, "<text x=\"{LEFT}\" y=\"{}\">samples (logarithmic)</text>", TOP - 14.0);
}

/// Draws steps from bin to bin, down to the ground between bins that are apart.
fn outline(bins: &[Bin], x: &Axis, y: &Axis) -> String {
    let ground = y.begin;
    let mut path = String::new();
    let mut end = f64::NEG_INFINITY;
    for bin in bins {
        let from = x.place(bin.low_ns);
        // Widens a bin of a single value so that it is visible.
        let to = x.place(bin.high_ns).max(from + 1.2);
        let height = y.place(bin.count as f64);
        if from > end + 2.0 {
            if end.is_finite() {
                let _ = write!(path, "V{ground:.1}");
            }
            let _ = write!(path, "M{from:.1} {ground:.1}");
        }
        let _ = write!(path, "V{height:.1}H{to:.1}");
        end = to;
    }
    path + &format!("V{ground:.1}")
}

/// Formats a mark of the axis of time.
fn round(ns: f64) -> String {
    let (value, unit) = match ns {
        n if n < 1e3 => (n, "ns"),
        n if n < 1e6 => (n / 1e3, "us"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    format!("{} {unit}", (value * 100.0).round() / 100.0)
}

fn count(mark: f64) -> String {
    match mark {
        n if n < 1e4 => format!("{n}"),
        n => format!("1e{}", n.log10().round()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Samples;

    fn measured(times: impl IntoIterator<Item = u64>) -> Measurement {
        Measurement::new("CPU 0", Samples::of(times))
    }

    #[test]
    fn a_single_outlier_among_a_million_is_seen() {
        let axis = Axis { low: 0.7, high: 2e6, is_logarithmic: true, begin: 272.0, end: 30.0 };
        // A single sample is more than a pixel above the ground.
        assert!(axis.begin - axis.place(1.0) > 2.0);
        let svg = svg("x", &[measured([20; 9].into_iter().chain([5_000_000]))], Some(1e3));
        assert!(
            svg.contains("time (logarithmic)")
                && svg.contains("limit 1.00 us")
                && svg.contains("max 5.00 ms"),
            "{svg}"
        );
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn marks_are_round_and_within_the_axis() {
        let linear = Axis { low: 0.0, high: 412e3, is_logarithmic: false, begin: 0.0, end: 1.0 };
        assert_eq!(linear.marks(), [0.0, 1e5, 2e5, 3e5, 4e5]);
        let logarithmic = Axis { low: 20.0, high: 5e4, is_logarithmic: true, begin: 0.0, end: 1.0 };
        assert_eq!(logarithmic.marks(), [1e2, 1e3, 1e4]);
    }

    #[test]
    fn nothing_measured_is_no_plot() {
        assert_eq!(svg("x", &[], None), "");
        assert!(!svg("x", &[measured([0])], None).contains("NaN"));
    }
}
