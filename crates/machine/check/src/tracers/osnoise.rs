//! Parser for `osnoise` (`Documentation/trace/osnoise-tracer.rst`).

use super::LineValues;

/// Sources of interruptions in the order of the columns. Noise without any of the other sources is counted as the
/// hardware's, which includes a hypervisor's.
const SOURCES: [&str; 5] = ["hardware", "NMI", "IRQ", "softirq", "thread"];

/// Parses the longest noise in a period. The columns are the length of the period and its noise (us), the available
/// part of the CPU (%), the longest noise (us), and the number of interruptions by each source.
pub(super) fn read(text: &str) -> Option<LineValues> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [looked, noise, available, longest, counts @ ..] = words.as_slice() else { return None };
    available.parse::<f64>().ok()?;
    let number = |word: &&str| word.parse::<u64>().ok();
    let counts: Vec<u64> = counts.iter().map(number).collect::<Option<_>>()?;
    let who: Vec<_> = SOURCES.into_iter().zip(counts.iter().copied()).collect();
    (counts.len() == SOURCES.len()).then_some(LineValues {
        time_ns: number(longest)?.checked_mul(1000)?,
        who,
        noise: Some((number(looked)?, number(noise)?)),
        ..LineValues::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_is_that_of_its_head() {
        // Columns of Linux 6.1: runtime, noise, % available, max single noise, HW, NMI, IRQ, SIRQ, thread.
        let seen = read("103929      34655  66.65512   11890     27      0     21      0      3").unwrap();
        assert_eq!((seen.time_ns, seen.noise), (11_890_000, Some((103_929, 34_655))));
        assert_eq!(seen.who, [("hardware", 27), ("NMI", 0), ("IRQ", 21), ("softirq", 0), ("thread", 3)]);
    }

    #[test]
    fn anything_else_is_no_period() {
        for text in [
            "",
            "1 2 3.0",
            "100 2 99.0 1 0 0 0 0",
            "100 2 99.0 1 0 0 0 0 0 0",
            "100 2 x 1 0 0 0 0 0",
            "100 -2 99.0 1 0 0 0 0 0",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
