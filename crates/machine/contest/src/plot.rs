//! The plot of a comparison.

use crate::Error;
use crate::contender::Contender;
use plotters::prelude::*;
use sordino_npt::Unit;

const SIZE: (u32, u32) = (960, 600);

/// Draws a line for each contender: its percentiles and, last, its maximum, on a logarithmic scale.
///
/// # Errors
/// There is nothing to draw.
pub(crate) fn svg(about: &str, contenders: &[&Contender]) -> Result<String, Error> {
    let mut text = String::new();
    draw(&mut text, about, contenders)
        .map_err(|error| Error::new(format!("can't draw the plot: {error}")))?;
    Ok(text)
}

fn draw(text: &mut String, about: &str, contenders: &[&Contender]) -> Result<(), Box<dyn std::error::Error>> {
    let samples: Vec<_> =
        contenders.iter().map(|contender| (contender.tracer, contender.samples())).collect();
    let medians = samples.iter().flat_map(|(_, samples)| samples.iter().map(|(_, samples)| samples.median()));
    let (least, greatest) =
        medians.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    let names: Vec<String> = match samples.first() {
        Some((_, samples)) => samples.iter().map(|(name, _)| name.clone()).collect(),
        None => return Err("nothing was measured".into()),
    };
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption("Gaps between loops with a tracepoint in each", ("sans-serif", 22))
        .margin(12)
        .x_label_area_size(60)
        .y_label_area_size(80)
        .build_cartesian_2d(0.0..(names.len() - 1) as f64, (least * 0.8..greatest * 1.3).log_scale())?;
    let name = |place: &f64| {
        let is_whole = (place - place.round()).abs() < 1e-6;
        if is_whole { names.get(place.round() as usize).cloned().unwrap_or_default() } else { String::new() }
    };
    chart
        .configure_mesh()
        .x_labels(names.len())
        .x_label_formatter(&name)
        .x_desc(about)
        .y_label_formatter(&|nanoseconds| Unit::Fitting.time(*nanoseconds))
        .y_desc("median of the rounds")
        .draw()?;
    for (number, (tracer, samples)) in samples.iter().enumerate() {
        let color = Palette99::pick(number).to_rgba();
        let points: Vec<(f64, f64)> = samples
            .iter()
            .enumerate()
            .map(|(place, (_, samples))| (place as f64, samples.median()))
            .collect();
        chart
            .draw_series(LineSeries::new(points.clone(), color.stroke_width(2)).point_size(3))?
            .label(tracer.to_string())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2)));
    }
    chart.configure_series_labels().position(SeriesLabelPosition::UpperLeft).border_style(BLACK).draw()?;
    area.present()?;
    Ok(())
}
