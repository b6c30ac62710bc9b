//! Parser for `hwlat` (`Documentation/trace/hwlat_detector.rst`).

use super::LineValues;

/// Parses the longest gap in a window: within an iteration of the loop (inner), or between two (outer). NMIs are
/// counted because they arrive although interrupts are disabled.
pub(super) fn read(text: &str) -> Option<LineValues> {
    let (_, rest) = text.split_once("inner/outer(us):")?;
    let (inner, outer) = rest.split_once('/')?;
    let outer = outer.split_whitespace().next()?;
    let us: u64 = inner.trim().parse::<u64>().ok()?.max(outer.parse().ok()?);
    let nmis = text.rsplit_once("nmi-count:").and_then(|(_, count)| count.trim().parse().ok());
    let who = nmis.map(|count| ("NMI", count)).into_iter().collect();
    Some(LineValues { time_ns: us.checked_mul(1000)?, who, ..LineValues::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_of_both_gaps_counts() {
        let time = |text| read(text).map(|seen| seen.time_ns);
        // Lines of Linux 6.1 and 6.12.
        assert_eq!(
            time("#2     inner/outer(us): 8493/8036  ts:1795313734.924692780 count:193"),
            Some(8_493_000)
        );
        assert_eq!(
            time("#2     inner/outer(us): 7558/16031 ts:1795313749.185026511 count:185"),
            Some(16_031_000)
        );
        assert_eq!(time("#1     inner/outer(us):   11/9     ts:1499801089.066141940 count:1"), Some(11_000));
    }

    #[test]
    fn nmis_are_counted() {
        let seen = read(
            "#3     inner/outer(us):   12/14    ts:1499801089.066141940 count:3 nmi-total:4 nmi-count:1",
        );
        assert_eq!(seen.unwrap().who, [("NMI", 1)]);
    }

    #[test]
    fn anything_else_is_no_gap() {
        for text in ["", "#1 inner/outer(us): x/1", "#1 inner/outer(us): 1", "inner/outer(us): 1/", "1/2"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
