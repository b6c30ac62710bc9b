//! Data that a recording lacks because it could not be written.

use serde::{Deserialize, Serialize};

/// Data that was recorded but could not be written because the disk was full or failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnwrittenData {
    /// The number of programs' sub-buffers.
    pub sub_buffers: u64,
    /// Bytes of records in these sub-buffers, whose events were not counted.
    pub bytes: u64,
    /// The number of kernel events that were counted.
    pub kernel_events: u64,
    /// Bytes of the kernel's pages that are kept, but not as a trace: `sordino recover` converts them when there is
    /// room.
    pub kernel_pages: u64,
    /// Recordings that could not be begun or completed.
    pub recordings: u64,
    /// Programs that were recorded late or not at all because there was no room for their traces.
    pub programs: u64,
    /// A description of the first error.
    pub reason: Option<String>,
}

impl UnwrittenData {
    /// Returns true if anything is missing.
    pub fn is_any(&self) -> bool {
        self.sub_buffers > 0
            || self.kernel_events > 0
            || self.kernel_pages > 0
            || self.recordings > 0
            || self.programs > 0
            || self.reason.is_some()
    }

    /// Adds the missing data of another recording.
    pub fn add(&mut self, other: Self) {
        let sum = |one: &mut u64, other: u64| *one = one.saturating_add(other);
        sum(&mut self.sub_buffers, other.sub_buffers);
        sum(&mut self.bytes, other.bytes);
        sum(&mut self.kernel_events, other.kernel_events);
        sum(&mut self.kernel_pages, other.kernel_pages);
        sum(&mut self.recordings, other.recordings);
        sum(&mut self.programs, other.programs);
        self.reason = self.reason.take().or(other.reason);
    }

    /// Counts a recording that could not be begun or completed.
    pub fn add_recording(&mut self, reason: String) {
        self.add(Self { recordings: 1, reason: Some(reason), ..Self::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_the_first_reason() {
        let mut sum = UnwrittenData::default();
        assert!(!sum.is_any());
        sum.add(UnwrittenData {
            sub_buffers: 2,
            bytes: u64::MAX,
            reason: Some("full".into()),
            ..UnwrittenData::default()
        });
        sum.add(UnwrittenData { sub_buffers: 1, bytes: 7, ..UnwrittenData::default() });
        sum.add_recording("other".into());
        assert_eq!((sum.sub_buffers, sum.bytes, sum.recordings), (3, u64::MAX, 1));
        assert_eq!(sum.reason.as_deref(), Some("full"));
        assert!(sum.is_any());
    }
}
