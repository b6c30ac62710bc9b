//! The addresses of a viewer's page with a trace, and the part of the trace that it shows.

use std::fmt::Write;

/// The origin of the public page of Perfetto's user interface.
pub const PUBLIC_PAGE: &str = "https://ui.perfetto.dev";
/// The only port of the loopback address that the public page may fetch a trace from (its content security policy).
pub const PUBLIC_PORT: u16 = 9001;

/// The part of a trace that the page shows first, in the trace's nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// First time that is visible.
    pub begin: i64,
    /// Last time that is visible.
    pub end: i64,
}

impl Shown {
    /// Returns the part around an interval: the interval, and half of its length on either side, at least 10 us.
    pub fn around(begin: i64, end: i64) -> Self {
        let margin = (end.saturating_sub(begin) / 2).max(10_000);
        Self { begin: begin.saturating_sub(margin), end: end.saturating_add(margin) }
    }
}

/// Returns the address of the page below `origin` with the trace at `trace`, both of which need no escapes.
pub(crate) fn address(page: &str, trace: &str, shown: Option<Shown>) -> String {
    let mut address = format!("{page}/#!/?url={trace}");
    if let Some(Shown { begin, end }) = shown {
        // A write to a string can't fail.
        let _ = write!(address, "&visStart={begin}&visEnd={end}");
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_the_interval_in_the_middle() {
        assert_eq!(Shown::around(1_000_000, 1_100_000), Shown { begin: 950_000, end: 1_150_000 });
        assert_eq!(Shown::around(5, 5), Shown { begin: -9_995, end: 10_005 });
        assert_eq!(Shown::around(i64::MIN, i64::MAX), Shown { begin: i64::MIN, end: i64::MAX });
    }

    #[test]
    fn the_address_names_the_trace_and_the_part() {
        let trace = "http://127.0.0.1:9001/t/trace";
        assert_eq!(address(PUBLIC_PAGE, trace, None), format!("https://ui.perfetto.dev/#!/?url={trace}"));
        let shown = Some(Shown { begin: 1, end: 2 });
        assert!(address("http://x", trace, shown).ends_with("/t/trace&visStart=1&visEnd=2"));
    }
}
