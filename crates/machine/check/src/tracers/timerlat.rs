//! Parser for `timerlat` (`Documentation/trace/timerlat-tracer.rst`).

use super::LineValues;

/// Parses the latency of the timer's interrupt, or of the thread that it woke; both count from the timer's expiry.
pub(super) fn read(text: &str) -> Option<LineValues> {
    let (context, latency) = text.split_once("context")?.1.split_once("timer_latency")?;
    let of = match context.trim() {
        "irq" => ", interrupt",
        "thread" => ", thread",
        _ => return None,
    };
    let time_ns = latency.trim().strip_suffix(" ns")?.parse().ok()?;
    Some(LineValues { of, time_ns, ..LineValues::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_of_the_interrupt_or_of_the_thread() {
        let measured = |text| read(text).map(|seen| (seen.of, seen.time_ns));
        // Lines of Linux 6.1 and 6.12.
        assert_eq!(
            measured("#1201  context    irq timer_latency    114960 ns"),
            Some((", interrupt", 114_960))
        );
        assert_eq!(measured("#1     context thread timer_latency    308181 ns"), Some((", thread", 308_181)));
    }

    #[test]
    fn anything_else_is_no_latency() {
        for text in [
            "",
            "#1 context fiber timer_latency 1 ns",
            "#1 context irq timer_latency -1 ns",
            "context irq 1 ns",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
