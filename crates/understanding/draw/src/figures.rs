//! Figures of several measurements: a line for each, over the figures' names.

use crate::axis::{Axis, time_mark, y_marks};
use crate::markup::escape;
use sordino_event::Nanos;
use std::fmt::Write;

/// Measures of the picture, in its own units.
const WIDTH: f64 = 1100.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 880.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 380.0;
/// The number of colours of lines.
const COLOURS: usize = 8;

/// A measurement with a value for each figure.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureLine {
    /// The name of the measurement.
    pub name: String,
    /// The values in nanoseconds, in the order of the figures.
    pub values_ns: Vec<f64>,
}

/// Returns the lines as an SVG element, on a logarithmic axis of time; `about` stands below the title. Empty if there
/// are no values above zero.
pub fn figures(title: &str, about: &str, names: &[String], lines: &[FigureLine]) -> String {
    let values = || lines.iter().flat_map(|line| &line.values_ns).copied().filter(|value| is_drawn(*value));
    let (low, high) = values().fold((f64::INFINITY, 0.0_f64), |(low, high), at| (low.min(at), high.max(at)));
    if !low.is_finite() {
        return String::new();
    }
    let y = Axis { low: low * 0.8, high: high * 1.3, is_logarithmic: true, begin: BOTTOM, end: TOP };
    let last = names.len().saturating_sub(1).max(1) as f64;
    let x = Axis { low: 0.0, high: last, is_logarithmic: false, begin: LEFT + 30.0, end: RIGHT - 30.0 };
    let mut svg = format!(
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\">\n\
         <text class=\"title\" font-size=\"15\" x=\"14\" y=\"24\">{0}</text><text x=\"14\" y=\"42\">{1}</text>\n",
        escape(title),
        escape(about)
    );
    y_marks(&y, (LEFT, RIGHT), time_mark, &mut svg);
    for (place, name) in names.iter().enumerate() {
        let at = x.at(place as f64);
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            BOTTOM + 20.0,
            escape(name)
        );
    }
    lines.iter().enumerate().for_each(|(index, line)| draw(index, line, (&x, &y), &mut svg));
    svg + "</svg>\n"
}

fn is_drawn(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// Draws a line with its points, and its name in the key at the right.
fn draw(index: usize, line: &FigureLine, (x, y): (&Axis, &Axis), svg: &mut String) {
    let class = index % COLOURS;
    let values = line.values_ns.iter().enumerate().filter(|(_, value)| is_drawn(**value));
    let points: Vec<(f64, f64, f64)> =
        values.map(|(place, value)| (x.at(place as f64), y.at(*value), *value)).collect();
    let path: Vec<String> = points.iter().map(|(x, y, _)| format!("{x:.1} {y:.1}")).collect();
    let name = escape(&line.name);
    let _ = writeln!(svg, "<path class=\"line c{class}\" d=\"M{}\"/>", path.join("L"));
    for (x, y, value) in points {
        let value = Nanos::rounded(value);
        let _ = writeln!(
            svg,
            "<circle class=\"c{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{name}: {value}</title></circle>"
        );
    }
    let at = TOP + 14.0 + index as f64 * 20.0;
    let _ = writeln!(
        svg,
        "<rect class=\"c{class}\" x=\"{}\" y=\"{:.1}\" width=\"11\" height=\"11\"/><text x=\"{}\" y=\"{at:.1}\">{name}</text>",
        RIGHT + 16.0,
        at - 10.0,
        RIGHT + 34.0
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_measurement_has_a_line_and_its_name() {
        let names = ["p50", "max"].map(str::to_owned);
        let line = |name: &str, values_ns: &[f64]| FigureLine {
            name: name.to_owned(),
            values_ns: values_ns.to_vec(),
        };
        let svg =
            figures("<t>", "5 rounds", &names, &[line("a<b", &[20.0, 3e6]), line("c", &[f64::NAN, 0.0])]);
        assert!(
            svg.contains("&lt;t&gt;") && svg.contains("a&lt;b: 3.00 ms") && svg.contains(">p50<"),
            "{svg}"
        );
        assert!(!svg.contains("NaN") && svg.matches("<circle").count() == 2, "{svg}");
        assert_eq!(figures("t", "", &names, &[line("c", &[])]), "");
    }
}
