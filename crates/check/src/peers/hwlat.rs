//! The kernel's hwlat tracer: it reads the clock with interrupts off, so what it misses was taken by hardware or a hypervisor.

use crate::Samples;

/// The gaps in what the tracer's `trace` file holds, in nanoseconds: the longer of the one within a turn of its loop and the one between
/// two (`Documentation/trace/hwlat_detector.rst`).
pub fn read(trace: &str) -> Samples {
    Samples::of(trace.lines().filter_map(gap_us).map(|us| us * 1000))
}

/// `... #1     inner/outer(us):   11/9     ts:1499801089.066141940 count:1`
fn gap_us(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("inner/outer(us):")?;
    let (inner, outer) = rest.split_whitespace().next()?.split_once('/')?;
    Some(inner.parse::<u64>().ok()?.max(outer.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_of_both_gaps_counts() {
        let trace = "# tracer: hwlat
#
           <...>-1729  [001] d...   678.473449: #1     inner/outer(us):   11/12    ts:1581527483.343962693 count:6
           <...>-1729  [004] d...   689.556542: #2     inner/outer(us):   16/9     ts:1581527494.889008092 count:1
 nonsense inner/outer(us): x/1
";
        let samples = read(trace);
        let gaps: Vec<_> = samples.bins.iter().map(|bin| (bin.low_ns, bin.count)).collect();
        assert_eq!(gaps, [(12e3, 1), (16e3, 1)]);
        assert_eq!(samples.maximum_ns, 16e3);
    }
}
