//! Plots of intervals' lengths: the number of intervals by length, and the longest over time.

use crate::axis::{Axis, time_mark, y_marks};
use crate::lane::since;
use crate::markup::escape;
use crate::style::Fillings;
use sordino_event::Time;
use sordino_event::text::count;
use sordino_intervals::LengthDistribution;
use std::fmt::Write;

pub(crate) const WIDTH: f64 = 1100.0;
pub(crate) const HEIGHT: f64 = 220.0;
pub(crate) const LEFT: f64 = 70.0;
pub(crate) const RIGHT: f64 = 26.0;
pub(crate) const TOP: f64 = 14.0;
pub(crate) const BOTTOM: f64 = 30.0;

/// Returns the number of intervals by length as an SVG element, both axes logarithmic; empty without intervals.
pub fn histogram(distribution: &LengthDistribution, title: &str) -> String {
    let buckets = &distribution.buckets;
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else { return String::new() };
    let most = buckets.iter().map(|bucket| bucket.count).max().unwrap_or(1);
    let (low, high) = (first.from.0.max(1) as f64, last.to.0.max(2) as f64);
    let x = Axis { low, high, is_logarithmic: true, begin: LEFT, end: WIDTH - RIGHT };
    let y = counts(most);
    let mut svg = opened(title);
    grid(&x, &y, time_mark, samples, &mut svg);
    for bucket in buckets {
        let (from, to) = (x.at(bucket.from.0.max(1) as f64), x.at(bucket.to.0 as f64));
        let top = y.at(bucket.count as f64);
        let _ = writeln!(
            svg,
            "<rect class=\"bar\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{} from {} to {}</title></rect>",
            (to - from - 1.0).max(1.0),
            HEIGHT - BOTTOM - top,
            count(bucket.count, "interval"),
            bucket.from,
            bucket.to
        );
    }
    svg + "</svg>\n"
}

/// The maximum number of losses in a plot.
pub(crate) const MOST_LOSSES: usize = 1000;

/// Returns the longest interval of each stretch of time as an SVG element; times are relative to `origin`. Between the
/// times in `lost`, records are missing. Empty without intervals.
pub fn course(distribution: &LengthDistribution, origin: Time, lost: &[(Time, Time)], title: &str) -> String {
    let stretches = &distribution.course;
    let (Some(first), Some(last)) = (stretches.first(), stretches.last()) else { return String::new() };
    let lengths = || stretches.iter().map(|stretch| stretch.longest.0.max(1));
    let (shortest, longest) = (lengths().min().unwrap_or(1), lengths().max().unwrap_or(1));
    let end = last.from + distribution.stretch;
    let relative = |at: Time| (at - origin).0 as f64;
    let x = Axis {
        low: relative(first.from),
        high: relative(end),
        is_logarithmic: false,
        begin: LEFT,
        end: WIDTH - RIGHT,
    };
    let (low, high) = (shortest as f64 * 0.8, longest as f64 * 1.3);
    let y = Axis { low, high, is_logarithmic: high / low > 20.0, begin: HEIGHT - BOTTOM, end: TOP };
    let mut svg = opened(title);
    let fillings = Fillings::new("course");
    svg = svg.replacen("<svg ", &format!("<svg style=\"{}\" ", fillings.variables()), 1)
        + &fillings.definitions();
    grid(&x, &y, time_mark, time_mark, &mut svg);
    for (from, to) in lost.iter().take(MOST_LOSSES) {
        let (left, right) = (x.at(relative(*from)), x.at(relative(*to)));
        let _ = writeln!(
            svg,
            "<rect class=\"lost\" x=\"{left:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{}\"><title>records are lost for {} from {} on</title></rect>",
            (right - left).max(1.0),
            HEIGHT - BOTTOM - TOP,
            *to - *from,
            since(*from, origin)
        );
    }
    for stretch in stretches {
        let at = x.at(relative(stretch.from) + distribution.stretch.0 as f64 / 2.0);
        let _ = writeln!(
            svg,
            "<circle class=\"dot\" cx=\"{at:.1}\" cy=\"{:.1}\" r=\"2.2\"><title>the longest of {} from {} on: {}</title></circle>",
            y.at(stretch.longest.0 as f64),
            count(stretch.count, "interval"),
            since(stretch.from, origin),
            stretch.longest
        );
    }
    svg + "</svg>\n"
}

/// Returns the logarithmic axis of numbers up to `most`.
pub(crate) fn counts(most: u64) -> Axis {
    Axis {
        low: 0.7,
        high: (most as f64 * 1.5).max(10.0),
        is_logarithmic: true,
        begin: HEIGHT - BOTTOM,
        end: TOP,
    }
}

/// Returns a number of samples for the mark of an axis: `100`, `10k`, `1M`.
pub(crate) fn samples(mark: f64) -> String {
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let unit = units.into_iter().find(|(unit, _)| mark >= *unit);
    unit.map_or_else(|| format!("{mark}"), |(unit, name)| format!("{}{name}", mark / unit))
}

/// Begins a plot's SVG element.
pub(crate) fn opened(title: &str) -> String {
    format!(
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
        escape(title)
    )
}

/// Writes the lines and marks of both axes.
pub(crate) fn grid(
    x: &Axis,
    y: &Axis,
    x_name: impl Fn(f64) -> String,
    y_name: impl Fn(f64) -> String,
    svg: &mut String,
) {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for mark in x.marks() {
        let at = x.at(mark);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            x_name(mark)
        );
    }
    y_marks(y, (LEFT, right), y_name, svg);
}
