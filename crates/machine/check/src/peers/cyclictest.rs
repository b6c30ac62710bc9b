//! Parser for cyclictest of rt-tests, which measures how late a thread wakes from a timer.

use super::BadResult;
use crate::{Bin, Measurement, Samples};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The file that `--json` writes, in rt-tests 1.7 to 2.9.
#[derive(Deserialize)]
struct CyclictestResult {
    thread: BTreeMap<u32, CyclictestThread>,
}

#[derive(Deserialize)]
struct CyclictestThread {
    #[serde(default)]
    histogram: BTreeMap<u64, u64>,
    cycles: u64,
    min: u64,
    max: u64,
    avg: f64,
    cpu: u32,
}

fn bad(what: impl Into<String>) -> BadResult {
    BadResult { program: "cyclictest", what: what.into() }
}

/// Returns one measurement for each thread. `bound_us` is the histogram's upper bound that cyclictest was given (`-h`).
///
/// cyclictest leaves longer times out of its histogram, and its JSON does not contain their number. It is the number of
/// cycles minus that of the counted ones, and the maximum is their upper bound.
///
/// # Errors
/// Returns an error if the text is no such file, or if a histogram counts more than the thread's cycles.
pub fn read(json: &str, bound_us: u64) -> Result<Vec<Measurement>, BadResult> {
    let file: CyclictestResult =
        serde_json::from_str(json).map_err(|error| bad(format!("its JSON can't be read: {error}")))?;
    file.thread
        .into_values()
        .filter(|thread| thread.cycles > 0)
        .map(|thread| measurement(thread, bound_us))
        .collect()
}

fn measurement(thread: CyclictestThread, bound_us: u64) -> Result<Measurement, BadResult> {
    let ns = |us: u64| us as f64 * 1e3;
    let mut bins: Vec<Bin> =
        thread.histogram.iter().map(|(&us, &count)| Bin { low_ns: ns(us), high_ns: ns(us), count }).collect();
    let counted = thread.histogram.values().fold(0u64, |sum, &count| sum.saturating_add(count));
    let over = thread.cycles.checked_sub(counted).ok_or_else(|| {
        bad(format!("CPU {}: {counted} in the histogram, of {} cycles", thread.cpu, thread.cycles))
    })?;
    if over > 0 {
        // The shortest of these times is unknown, so the bin starts at the bound; only if all are over it, the minimum
        // is one of them.
        let low = if counted == 0 { thread.min } else { bound_us };
        bins.push(Bin { low_ns: ns(low), high_ns: ns(thread.max.max(low)), count: over });
    }
    let samples =
        Samples { bins, minimum_ns: ns(thread.min), mean_ns: thread.avg * 1e3, maximum_ns: ns(thread.max) };
    Ok(Measurement::new(format!("CPU {}", thread.cpu), samples))
}

/// Returns the longest time so far in microseconds from a status line of a running cyclictest.
pub fn running_maximum(line: &str) -> Option<u64> {
    // Before the first cycle, the minimum is shown as one second and the maximum as 0.
    let (head, maximum) = line.trim().strip_prefix("T:")?.split_once("Max:")?;
    (!head.contains("C:      0 ")).then(|| maximum.split_whitespace().next()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cyclictest -q -t1 -a0 -p1 -i1000 -l50 -h20 --json=...` of rt-tests 2.4: 39 cycles were longer than 20 us.
    const JSON: &str = r#"{
  "file_version": 1,
  "cmdline:": "cyclictest -q -t1 -a0 -p1 -i1000 -l50 -h20 --json=j.json",
  "rt_test_version:": "2.40",
  "return_code": 0,
  "sysinfo": { "sysname": "Linux", "realtime": 0 },
  "num_threads": 1,
  "resolution_in_ns": 0,
  "thread": {
    "0": {
      "histogram": { "9": 1, "10": 4, "11": 2, "13": 1, "19": 3 },
      "cycles": 50, "min": 9, "max": 394, "avg": 41.48, "cpu": 0, "node": 0
    }
  }
}"#;

    #[test]
    fn overflows_that_the_json_leaves_out_are_in_the_histogram() {
        let [measurement] = read(JSON, 20).unwrap().try_into().unwrap();
        let times = measurement.times;
        assert_eq!(
            (times.count, times.minimum_ns, times.maximum_ns, times.mean_ns),
            (50, 9e3, 394e3, 41_480.0)
        );
        assert_eq!(times.histogram.last(), Some(&Bin { low_ns: 20e3, high_ns: 394e3, count: 39 }));
        // Half of all times are over the bound, so the median is only known to be at most the maximum.
        assert_eq!(times.percentile(50.0), Some(394e3));
        assert_eq!(measurement.what, "CPU 0");
    }

    #[test]
    fn a_thread_that_never_woke_measured_nothing() {
        let json = r#"{"thread":{"0":{"histogram":{},"cycles":0,"min":1000000,"max":0,"avg":0.0,"cpu":0}}}"#;
        assert_eq!(read(json, 20).unwrap(), []);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let json = r#"{"thread":{"0":{"histogram":{"3":7},"cycles":6,"min":3,"max":3,"avg":3.0,"cpu":2}}}"#;
        assert_eq!(
            read(json, 20).unwrap_err().to_string(),
            "cyclictest: CPU 2: 7 in the histogram, of 6 cycles"
        );
        assert!(read("{\"thread\":", 20).is_err() && read("", 20).is_err());
    }

    #[test]
    fn nothing_that_was_not_measured_is_shown() {
        let before = "T: 0 (    0) P: 1 I:1000 C:      0 Min:1000000 Act:    0 Avg:    0 Max:       0";
        assert_eq!(running_maximum(before), None);
        assert_eq!(running_maximum("policy: fifo: loadavg: 11.43 8.81 6.91 14/141 14308"), None);
    }
}
