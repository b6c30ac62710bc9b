//! The plot of a comparison.

use crate::contender::Contender;
use sordino_draw::{FigureLine, figures};

/// Draws a line for each contender: its percentiles and, last, its maximum, on a logarithmic scale. Empty if nothing
/// was measured.
pub(crate) fn svg(about: &str, contenders: &[&Contender]) -> String {
    let measured = contenders.iter().map(|contender| (contender.tracer, contender.samples()));
    let (lines, names): (Vec<FigureLine>, Vec<Vec<String>>) = measured
        .map(|(tracer, samples)| {
            let (names, values_ns) =
                samples.into_iter().map(|(name, values)| (name, values.median())).unzip();
            (FigureLine { name: tracer.to_string(), values_ns }, names)
        })
        .unzip();
    let title = "Gaps between loops with a tracepoint in each, median of the rounds";
    figures(title, about, names.first().map_or(&[][..], Vec::as_slice), &lines)
}
