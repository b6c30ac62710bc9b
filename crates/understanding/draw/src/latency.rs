//! The latency plot known from OSADL: the number of samples by time, on a logarithmic axis, with one line for each CPU.

use crate::axis::{Axis, time_mark};
use crate::markup::escape;
use crate::plot::{BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, counts, grid, opened, samples};
use sordino_event::Nanos;
use std::fmt::Write;

/// Number of colours of lines.
pub const COLORS: usize = 8;

/// Ratio of the longest to the shortest time above which the axis of time is logarithmic, too.
const LINEAR_UP_TO: f64 = 100.0;

/// A line of the plot.
#[derive(Clone, Debug)]
pub struct LatencyLine {
    /// The name of the line, such as its CPU.
    pub name: String,
    /// The longest time, in nanoseconds.
    pub longest_ns: f64,
    /// The shortest and the longest time of each bin in nanoseconds, and its number of samples.
    pub bins: Vec<(f64, f64, u64)>,
}

/// Returns the lines as an SVG element, with a mark at `limit_ns`; empty if there are no samples.
pub fn latency(title: &str, lines: &[LatencyLine], limit_ns: Option<f64>) -> String {
    let bins = || lines.iter().flat_map(|line| &line.bins);
    let Some(most) = bins().map(|(.., count)| *count).max() else { return String::new() };
    let shortest = bins().map(|(low, ..)| *low).fold(f64::INFINITY, f64::min).max(1.0);
    let longest = lines.iter().map(|line| line.longest_ns).fold(limit_ns.unwrap_or(0.0), f64::max);
    let longest = longest.max(shortest * 2.0);
    let is_logarithmic = longest / shortest > LINEAR_UP_TO;
    let low = if is_logarithmic { shortest } else { 0.0 };
    let x = Axis { low, high: longest * 1.03, is_logarithmic, begin: LEFT, end: WIDTH - RIGHT };
    let y = counts(most);
    let mut svg = opened(title);
    grid(&x, &y, time_mark, samples, &mut svg);
    for (index, line) in lines.iter().enumerate() {
        let class = index % COLORS;
        let _ = writeln!(
            svg,
            "<path class=\"line c{class}\" d=\"{}\"><title>{}</title></path>\
             <circle class=\"c{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"/>",
            outline(&line.bins, &x, &y),
            escape(&format!("{}: max {}", line.name, nanos(line.longest_ns))),
            x.at(line.longest_ns),
            y.at(1.0)
        );
    }
    if let Some(limit) = limit_ns {
        let (at, bottom) = (x.at(limit), HEIGHT - BOTTOM);
        let _ = writeln!(
            svg,
            "<line class=\"limit\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text class=\"limit\" x=\"{:.1}\" y=\"{}\" text-anchor=\"end\">limit {}</text>",
            at - 4.0,
            TOP + 12.0,
            nanos(limit)
        );
    }
    svg + "</svg>\n"
}

fn nanos(ns: f64) -> String {
    Nanos::rounded(ns).to_string()
}

/// Draws steps from bin to bin, down to the ground between bins that are apart.
fn outline(bins: &[(f64, f64, u64)], x: &Axis, y: &Axis) -> String {
    let ground = y.begin;
    let mut path = String::new();
    let mut end = f64::NEG_INFINITY;
    for (low, high, count) in bins {
        let from = x.at(*low);
        // Widens a bin of a single value so that it is visible.
        let to = x.at(*high).max(from + 1.2);
        let height = y.at(*count as f64);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn line(bins: &[(f64, f64, u64)]) -> LatencyLine {
        let longest_ns = bins.iter().map(|(_, high, _)| *high).fold(0.0, f64::max);
        LatencyLine { name: "<CPU 0>".to_owned(), longest_ns, bins: bins.to_vec() }
    }

    #[test]
    fn a_single_outlier_among_a_million_is_seen() {
        let y = counts(1_000_000);
        // A single sample is more than a pixel above the ground.
        assert!(y.begin - y.at(1.0) > 2.0);
        let svg = latency("x", &[line(&[(20.0, 20.0, 9), (5e6, 5e6, 1)])], Some(1e3));
        assert!(svg.contains("limit 1.00 us") && svg.contains("&lt;CPU 0&gt;: max 5.00 ms"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn nothing_measured_is_no_plot() {
        assert_eq!(latency("x", &[], None), "");
        assert!(!latency("x", &[line(&[(0.0, 0.0, 1)])], None).contains("NaN"));
    }
}
