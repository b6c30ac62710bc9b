//! Text about data that could not be written.

use crate::UnwrittenData;
use sordino_event::text::{count, printable};
use sordino_quantity::bytes;

/// Returns a line about the missing data; nothing if none is missing.
pub fn missing(missing: &UnwrittenData) -> String {
    if !missing.is_any() {
        return String::new();
    }
    let events = match missing.bytes {
        0 => " of programs, whose events were not counted".to_owned(),
        known => format!(" of programs with {} of events, which were not counted", bytes(known)),
    };
    let kept = format!(
        "{} of the kernel's pages, which are kept: make room, then 'sordino recover'",
        bytes(missing.kernel_pages)
    );
    let parts = [
        (missing.sub_buffers, count(missing.sub_buffers, "sub-buffer") + &events),
        (missing.kernel_events, count(missing.kernel_events, "kernel event")),
        (missing.recordings, count(missing.recordings, "recording")),
        (
            missing.programs,
            format!("the traces of {}, for a while or to the end", count(missing.programs, "program")),
        ),
        (missing.kernel_pages, kept),
    ];
    let parts: Vec<String> =
        parts.into_iter().filter(|(number, _)| *number > 0).map(|(_, text)| text).collect();
    let what = if parts.is_empty() { "something, not counted".to_owned() } else { parts.join("; ") };
    let reason =
        missing.reason.as_deref().map_or(String::new(), |reason| format!(" ({})", printable(reason)));
    format!("INCOMPLETE: could not be written: {what}{reason}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_one_line_and_nothing_is_none() {
        assert_eq!(missing(&UnwrittenData::default()), "");
        let missing = UnwrittenData {
            sub_buffers: 2,
            bytes: 4096,
            kernel_events: 1,
            reason: Some("/x/cpu0 could not be written: No space\n left".to_owned()),
            ..UnwrittenData::default()
        };
        assert_eq!(
            super::missing(&missing),
            "INCOMPLETE: could not be written: 2 sub-buffers of programs with 4.0 KiB of events, which were not counted; \
             1 kernel event (/x/cpu0 could not be written: No space\\n left)\n"
        );
        let unknown = UnwrittenData { reason: Some("why".to_owned()), ..UnwrittenData::default() };
        assert_eq!(
            super::missing(&unknown),
            "INCOMPLETE: could not be written: something, not counted (why)\n"
        );
    }
}
