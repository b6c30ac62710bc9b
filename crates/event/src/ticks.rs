//! Timestamps as recorders and the kernel write them.

/// A timestamp of a trace's clock, in its ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Ticks(pub u64);

impl Ticks {
    /// Returns the timestamp so many ticks before this one; the first one if there is none.
    pub const fn before(self, ticks: u64) -> Self {
        Self(self.0.saturating_sub(ticks))
    }

    /// Returns the timestamp so many ticks after this one; the last one if there is none.
    pub const fn after(self, ticks: u64) -> Self {
        Self(self.0.saturating_add(ticks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_never_leaves_the_clock_s_range() {
        assert_eq!((Ticks(5).before(7), Ticks(u64::MAX).after(1)), (Ticks(0), Ticks(u64::MAX)));
        assert_eq!((Ticks(9).before(2), Ticks(9).after(2)), (Ticks(7), Ticks(11)));
    }
}
