//! Distributions of lengths: a strip for each thread, interrupt or CPU, with its numbers beside it.

use crate::axis::{Axis, time_mark};
use crate::markup::{escape, shortened};
use sordino_event::Nanos;
use sordino_event::text::count;
use std::fmt::Write;

/// Measures of the picture, in its own units.
const WIDTH: f64 = 1100.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 790.0;
/// The right ends of the columns of numbers, and their titles.
const COLUMNS: [(f64, &str); 4] = [(850.0, "count"), (926.0, "median"), (1004.0, "p99"), (1086.0, "max")];
/// Heights of a line of text, and of the strip of one side.
const LINE: f64 = 18.0;
const STRIP: f64 = 26.0;
/// The space between strips.
const GAP: f64 = 8.0;
/// The least width and height of a bar.
const NARROWEST: f64 = 3.0;
const LOWEST: f64 = 2.5;
/// The number of letters of a strip's name.
const LETTERS: usize = 26;
/// The ratio of the longest to the shortest length of an axis; lengths that are all the same have an axis, too.
const LEAST_RATIO: f64 = 1.02;

/// The lengths of one thread, interrupt or CPU, in one measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LengthSample {
    /// The distinct lengths in nanoseconds, in ascending order, each with its number.
    pub lengths: Vec<(f64, u64)>,
    /// The relative accuracy of a length: 0.01 is one percent.
    pub resolution: f64,
    /// The number of all lengths.
    pub count: u64,
    /// The length that half of them do not exceed.
    pub median: Nanos,
    /// The length that 99 % do not exceed.
    pub p99: Nanos,
    /// The greatest of all lengths.
    pub longest: Nanos,
}

/// A strip of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DistributionStrip {
    /// The name of the measured thread, interrupt or CPU.
    pub name: String,
    /// A judgement on it, which stands below the name; may be empty.
    pub remark: String,
    /// The lengths in each of the measurements; `None` if one does not have it.
    pub samples: Vec<Option<LengthSample>>,
}

/// Strips with a common axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DistributionChart {
    /// The title above the chart.
    pub title: String,
    /// The strips, from top to bottom.
    pub strips: Vec<DistributionStrip>,
    /// Notes about data that the chart leaves out or that are missing, a line each.
    pub notes: Vec<String>,
}

/// Returns the charts as an SVG element, one below the other. Of each strip's samples, the first stands above its line,
/// and the second, if there is one, hangs below; `sides` has their names. Empty if there are no lengths.
pub fn distributions(title: &str, sides: &[&str], charts: &[DistributionChart]) -> String {
    let charts: Vec<&DistributionChart> =
        charts.iter().filter(|chart| samples(chart).next().is_some()).collect();
    if charts.is_empty() {
        return String::new();
    }
    let mut body = String::new();
    let mut y = 24.0;
    let _ =
        writeln!(body, "<text class=\"title\" font-size=\"15\" x=\"14\" y=\"{y}\">{}</text>", escape(title));
    for (side, name) in sides.iter().enumerate().filter(|_| sides.len() > 1) {
        y += LINE;
        let place = ["above", "below"][side.min(1)];
        let _ = writeln!(
            body,
            "<rect class=\"{}\" x=\"14\" y=\"{:.1}\" width=\"11\" height=\"11\"/><text x=\"32\" y=\"{y:.1}\">{place} the lines: {}</text>",
            class(side),
            y - 10.0,
            escape(name)
        );
    }
    for chart in charts {
        y = draw(chart, y + 12.0, &mut body);
    }
    y += LINE;
    let note =
        "The height of a bar is the logarithm of its count; a line marks the median, a dot the longest.";
    let _ = writeln!(body, "<text x=\"14\" y=\"{y:.1}\">{note}</text>");
    format!(
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{}\">\n{body}</svg>\n",
        y + 12.0,
        escape(title)
    )
}

fn samples(chart: &DistributionChart) -> impl Iterator<Item = &LengthSample> {
    let all = chart.strips.iter().flat_map(|strip| strip.samples.iter().flatten());
    all.filter(|sample| !sample.lengths.is_empty())
}

/// Returns the colour of a side.
fn class(side: usize) -> &'static str {
    ["bar", "second"][side.min(1)]
}

/// Returns the axis of all lengths of a chart.
fn axis(chart: &DistributionChart) -> Axis {
    let lengths =
        || samples(chart).flat_map(|sample| sample.lengths.iter().map(|(length, _)| length.max(1.0)));
    let (low, high) =
        lengths().fold((f64::INFINITY, 1.0), |(low, high): (f64, f64), at| (low.min(at), high.max(at)));
    let high = samples(chart).map(|sample| sample.longest.0 as f64).fold(high, f64::max);
    let pad = (LEAST_RATIO / (high / low)).max(1.0).sqrt();
    Axis { low: low / pad, high: high * pad, is_logarithmic: true, begin: LEFT, end: RIGHT }
}

/// Draws a chart from `top` on. Returns its lower end.
fn draw(chart: &DistributionChart, top: f64, svg: &mut String) -> f64 {
    let x = axis(chart);
    let mut y = top + LINE;
    let _ = write!(
        svg,
        "<text class=\"name\" font-size=\"13\" x=\"14\" y=\"{y:.1}\">{}</text>",
        escape(&chart.title)
    );
    y += LINE;
    for (right, title) in COLUMNS {
        let _ = write!(svg, "<text x=\"{right}\" y=\"{y:.1}\" text-anchor=\"end\">{title}</text>");
    }
    svg.push('\n');
    y += GAP;
    let height = |strip: &DistributionStrip| strip.samples.len().max(1) as f64 * STRIP + GAP;
    let bottom = y + chart.strips.iter().map(height).sum::<f64>();
    grid(&x, (y, bottom), svg);
    for strip in &chart.strips {
        strip_of(strip, &x, y, svg);
        y += height(strip);
    }
    y += LINE;
    for note in &chart.notes {
        y += LINE;
        let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{y:.1}\">{}</text>", escape(note));
    }
    y
}

/// Draws the marks of the axis between two heights, and their times below.
fn grid(x: &Axis, (top, bottom): (f64, f64), svg: &mut String) {
    for mark in x.marks() {
        let at = x.at(mark);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 15.0,
            time_mark(mark)
        );
    }
}

fn strip_of(strip: &DistributionStrip, x: &Axis, top: f64, svg: &mut String) {
    let ground = top + STRIP;
    let _ = writeln!(
        svg,
        "<text class=\"name\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}<title>{}</title></text>\
         <line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{ground:.1}\" y2=\"{ground:.1}\"/>",
        LEFT - 8.0,
        ground - 4.0,
        escape(&shortened(&strip.name, LETTERS)),
        escape(&strip.name)
    );
    if !strip.remark.is_empty() {
        let (at, y) = (LEFT - 8.0, ground + 14.0);
        let _ = writeln!(
            svg,
            "<text x=\"{at}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>",
            escape(&strip.remark)
        );
    }
    let most = strip.samples.iter().flatten().flat_map(|sample| bars(sample, x)).map(|bar| bar.count).max();
    for (side, sample) in strip.samples.iter().enumerate() {
        let place = StripHalf { ground, is_above: side == 0, most: most.unwrap_or(1), class: class(side) };
        match sample {
            Some(sample) => place.draw(sample, x, svg),
            None => place.number(COLUMNS[0].0, "none", svg),
        }
    }
}

/// A bar, and the lengths that it stands for.
struct LengthBar {
    /// The left edge of the bar, and its width.
    at: f64,
    width: f64,
    /// The shortest and the longest length.
    lengths: (f64, f64),
    count: u64,
}

/// Counts the lengths by their place on the axis, in steps no finer than their accuracy.
fn bars(sample: &LengthSample, x: &Axis) -> Vec<LengthBar> {
    let known = (1.0 + sample.resolution).ln() / (x.high / x.low).ln() * (RIGHT - LEFT);
    let width = known.max(NARROWEST);
    let mut bars: Vec<LengthBar> = Vec::new();
    for (length, count) in &sample.lengths {
        let at = ((x.at(*length) - LEFT) / width).floor() * width + LEFT;
        match bars.last_mut() {
            Some(last) if last.at >= at => {
                last.count = last.count.saturating_add(*count);
                last.lengths.1 = *length;
            }
            _ => bars.push(LengthBar { at, width, lengths: (*length, *length), count: *count }),
        }
    }
    bars
}

/// The half of a strip that a sample has.
struct StripHalf {
    ground: f64,
    is_above: bool,
    most: u64,
    class: &'static str,
}

impl StripHalf {
    fn draw(&self, sample: &LengthSample, x: &Axis, svg: &mut String) {
        let Self { ground, is_above, class, .. } = self;
        for bar in bars(sample, x) {
            let height = self.height(bar.count);
            let top = if *is_above { ground - height } else { *ground };
            let (from, to) = bar.lengths;
            let [from, to] = [from, to].map(|length| Nanos(length as i64).to_string());
            let lengths = if from == to { from } else { format!("{from} to {to}") };
            let _ = writeln!(
                svg,
                "<rect class=\"{class}\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\"><title>{}: {lengths}</title></rect>",
                bar.at,
                (bar.width.min(RIGHT - bar.at) - 0.4).max(1.0),
                count(bar.count, "time"),
            );
        }
        let far = if *is_above { ground - STRIP + 2.0 } else { ground + STRIP - 2.0 };
        let median = x.at(sample.median.0 as f64);
        let (longest, y) =
            (x.at(sample.longest.0 as f64), if *is_above { ground - 5.0 } else { ground + 5.0 });
        let _ = writeln!(
            svg,
            "<line class=\"median\" x1=\"{median:.1}\" x2=\"{median:.1}\" y1=\"{ground:.1}\" y2=\"{far:.1}\"/>\
             <circle class=\"longest\" cx=\"{longest:.1}\" cy=\"{y:.1}\" r=\"3.2\"/>"
        );
        let [median, p99, longest] = [sample.median, sample.p99, sample.longest].map(|time| time.to_string());
        let numbers = [sample.count.to_string(), median, p99, longest];
        for ((right, _), number) in COLUMNS.iter().zip(numbers) {
            self.number(*right, &number, svg);
        }
    }

    /// Returns the height of a bar: the logarithm of its count, which leaves a single one visible.
    fn height(&self, count: u64) -> f64 {
        let part = (count.max(1) as f64).ln() / (self.most.max(2) as f64).ln();
        LOWEST + part.min(1.0) * (STRIP - 2.0 - LOWEST)
    }

    fn number(&self, right: f64, text: &str, svg: &mut String) {
        let y = if self.is_above { self.ground - 4.0 } else { self.ground + 14.0 };
        let _ = write!(svg, "<text x=\"{right}\" y=\"{y:.1}\" text-anchor=\"end\">{text}</text>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(lengths: &[(f64, u64)]) -> LengthSample {
        let count = lengths.iter().map(|(_, count)| count).sum();
        let longest = Nanos(lengths.last().map_or(0, |(length, _)| *length as i64));
        LengthSample { lengths: lengths.to_vec(), count, longest, ..LengthSample::default() }
    }

    fn chart(samples: Vec<Option<LengthSample>>) -> DistributionChart {
        let strip = DistributionStrip { name: "<motor>".to_owned(), remark: "longer".to_owned(), samples };
        DistributionChart { title: "latency".to_owned(), strips: vec![strip], notes: vec!["a&b".to_owned()] }
    }

    #[test]
    fn two_samples_lie_on_both_sides_of_the_line_and_a_missing_one_is_said() {
        let one = || Some(sample(&[(1000.0, 9), (2000.0, 1)]));
        let both = distributions("x", &["a", "b"], &[chart(vec![one(), one()])]);
        assert_eq!(both.matches("<title>9 times: 1.00 us").count(), 2, "{both}");
        assert!(
            both.contains("above the lines: a") && both.contains("&lt;motor&gt;") && both.contains("a&amp;b")
        );
        let missing = distributions("x", &["a", "b"], &[chart(vec![one(), None])]);
        assert!(missing.contains(">none<"), "{missing}");
        assert_eq!(distributions("x", &["a"], &[chart(vec![None]), chart(vec![Some(sample(&[]))])]), "");
    }

    proptest! {
        #[test]
        fn bars_have_all_lengths_and_lie_side_by_side_on_the_axis(
            lengths in proptest::collection::btree_map(0_u64..10_000_000_000, 1_u64..u64::MAX / 1000, 1..300),
            resolution in 0.0..0.05,
        ) {
            let lengths: Vec<(f64, u64)> = lengths.into_iter().map(|(length, count)| (length as f64, count)).collect();
            let sample = LengthSample { resolution, ..sample(&lengths) };
            let chart = chart(vec![Some(sample.clone())]);
            let bars = bars(&sample, &axis(&chart));
            prop_assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), sample.count);
            prop_assert!(bars.is_sorted_by(|one, next| one.at + one.width <= next.at + 1e-6));
            prop_assert!(bars.iter().all(|bar| LEFT - 1e-6 <= bar.at && bar.at <= RIGHT));
            let svg = distributions("x", &["a"], &[chart]);
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            prop_assert!(svg.len() < 60_000, "{}", svg.len());
        }
    }
}
