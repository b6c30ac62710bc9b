//! The picture of a measurement by npt.

use sordino_draw::{DistributionChart, DistributionStrip, LengthSample, distributions};
use sordino_event::Nanos;
use sordino_event::text::count;
use sordino_npt::{CpuReport, NptReport};

/// The maximum number of CPUs in a picture.
const MOST: usize = 64;
/// The relative accuracy of a gap in the histogram.
const RESOLUTION: f64 = 1.0 / 1024.0;

/// Returns the gaps of each CPU as a picture.
pub(super) fn gaps(report: &NptReport) -> String {
    let strips = report.cpus.iter().take(MOST).map(|of_cpu| DistributionStrip {
        name: format!("CPU {}", of_cpu.cpu),
        remark: String::new(),
        samples: vec![Some(sample(of_cpu))],
    });
    let left_out = report.cpus.len().saturating_sub(MOST);
    let interrupts = if report.interrupts_off { ", interrupts disabled" } else { "" };
    let chart = DistributionChart {
        title: format!("npt: {}{interrupts}", report.plan),
        strips: strips.collect(),
        notes: (left_out > 0)
            .then(|| format!("{} left out", count(left_out, "more CPU")))
            .into_iter()
            .collect(),
    };
    distributions("Gaps between two readings of the clock", &["gaps"], &[chart])
}

fn sample(of_cpu: &CpuReport) -> LengthSample {
    let (measured, statistics) = (&of_cpu.measured, &of_cpu.statistics);
    let nanoseconds = |cycles: u64| measured.rate.nanoseconds(cycles.min(measured.longest));
    let buckets = measured.histogram.buckets();
    let percentile = |percent: f64| {
        let found = statistics.percentiles.iter().find(|percentile| percentile.percent == percent);
        Nanos(found.map_or(0.0, |percentile| percentile.gap_ns).round() as i64)
    };
    LengthSample {
        lengths: buckets.map(|bucket| (nanoseconds(bucket.high), bucket.count)).collect(),
        resolution: RESOLUTION,
        count: statistics.loops,
        median: percentile(50.0),
        p99: percentile(99.0),
        longest: Nanos(statistics.maximum_ns.round() as i64),
    }
}
