//! Time limits, and other bounds on what a registration costs.

use std::time::Duration;

/// The time that a program waits for the replies of all recorders together, at first: see [`Patience`].
pub const ANSWER_TIME: Duration = Duration::from_secs(2);

/// The time that a connected program has to send its packet. After that the recorder hangs up.
pub const PACKET_TIME: Duration = Duration::from_millis(200);

/// The most recorders with which a program registers at once. A program has only eight slots, but more recorders may
/// listen, for other programs.
pub const MAX_RECORDERS: usize = 64;

/// The most entries of a directory of sessions that a program reads.
pub const MAX_ENTRIES: usize = 64;

/// The time that a program waits for replies, which gets shorter while recorders are silent.
///
/// A program registers once for each of its modules: `libsordino.so` and itself at least. A silent recorder costs the
/// whole time once, then a quarter of the time before, until all recorders reply again. So a program never waits much
/// longer than the first time.
#[derive(Clone, Copy, Debug)]
pub struct Patience(Duration);

impl Patience {
    /// Returns the patience of a program that has not registered yet.
    pub const fn new() -> Self {
        Self(ANSWER_TIME)
    }

    /// Returns the time for the next registration, from before the first connection to the last reply.
    pub const fn time(self) -> Duration {
        self.0
    }

    /// Returns the patience after a registration, in which a recorder may have been silent.
    pub fn after(self, was_silent: bool) -> Self {
        if was_silent { Self(self.0 / 4) } else { Self::new() }
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_recorder_costs_little_more_than_the_first_time() {
        let mut patience = Patience::new();
        let mut waited = Duration::ZERO;
        for _ in 0..100 {
            waited += patience.time();
            patience = patience.after(true);
        }
        assert!(waited <= ANSWER_TIME * 4 / 3, "{waited:?}");
        assert_eq!(patience.after(false).time(), ANSWER_TIME);
    }
}
