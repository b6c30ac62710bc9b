//! Waiting for room in a full ring, if the program allows it and a session requests it.
//!
//! A waiting thread sleeps and tries again; it needs no wake-up from a reader. A session that ends closes the ring, in
//! which nothing is written any more. If a recorder is killed, the kernel releases the lock on its slot: the waiting
//! thread tests that lock every second, through the area's descriptor. From then on no thread waits for that session.

use crate::program;
use sordino_clock::{Clock, nanoseconds};
use sordino_percpu::thread;
use sordino_ring::area::slots::Rings;
use sordino_ring::number::SlotIndex;
use sordino_ring::write::Full;

/// Time between two tries, in nanoseconds: well below a recorder's period, and 1 % of a CPU at most.
const NAP: u64 = 100_000;
/// Time between two tests if the recorder lives, in nanoseconds.
const PROBE_PERIOD: u64 = 1_000_000_000;
/// The value of [`Full::block`] that sets no limit.
const FOR_EVER: u32 = u32::MAX;

/// The wait of one record; times in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Waiting {
    /// The time at which it began; 0 before that.
    since: u64,
    /// The time of the last test if the recorder lives, or of the begin.
    probed: u64,
}

/// The next step of a thread whose record finds no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitStep {
    /// Sleeps so many nanoseconds.
    Sleep(u64),
    /// Tests if the recorder lives, and sleeps so many nanoseconds then.
    Probe(u64),
    /// Gives up: the record is lost.
    GiveUp,
}

impl Waiting {
    /// Sleeps until the next try to write to `rings`; returns `false` if there is none, because the time is over or the
    /// program does not allow it.
    ///
    /// One system call; a second one once a second.
    #[cold]
    pub(crate) fn sleep(&mut self, rings: Rings, full: Full) -> bool {
        let Some(slots) = program::slots() else { return false };
        let Some(slot) = slots.rings(SlotIndex::FIRST).slot_of(rings.first) else { return false };
        // The child of a vfork does not wait: its parent would wait, too.
        if !slots.allows_blocking() || thread::borrowed() != 0 {
            return false;
        }
        let now = nanoseconds(Clock::Monotonic);
        if self.since == 0 {
            *self = Self { since: now, probed: now };
        }
        let time = match self.step(now, full.block) {
            WaitStep::GiveUp => return false,
            WaitStep::Sleep(time) => time,
            WaitStep::Probe(time) => {
                self.probed = now;
                if !program::is_recorded(slot) {
                    slots.stop_blocking(slot);
                    return false;
                }
                time
            }
        };
        sordino_percpu::sleep(time as u32);
        true
    }

    fn step(self, now: u64, block: u32) -> WaitStep {
        let left = match block {
            FOR_EVER => u64::MAX,
            block => (self.since + u64::from(block) * 1000).saturating_sub(now),
        };
        let time = left.min(NAP);
        if left == 0 {
            WaitStep::GiveUp
        } else if now - self.probed >= PROBE_PERIOD {
            WaitStep::Probe(time)
        } else {
            WaitStep::Sleep(time)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_waits_as_long_as_the_session_sets_and_no_longer() {
        let waiting = Waiting { since: 5_000, probed: 5_000 };
        assert_eq!(waiting.step(5_000, 250), WaitStep::Sleep(NAP));
        assert_eq!(waiting.step(5_000 + 200_000, 250), WaitStep::Sleep(50_000));
        assert_eq!(waiting.step(5_000 + 250_000, 250), WaitStep::GiveUp);
        assert_eq!(waiting.step(5_000 + 900_000, 250), WaitStep::GiveUp);
    }

    #[test]
    fn it_tests_every_second_if_the_recorder_lives() {
        let mut waiting = Waiting { since: 1, probed: 1 };
        assert_eq!(waiting.step(PROBE_PERIOD, FOR_EVER), WaitStep::Sleep(NAP));
        assert_eq!(waiting.step(PROBE_PERIOD + 1, FOR_EVER), WaitStep::Probe(NAP));
        waiting.probed = PROBE_PERIOD + 1;
        assert_eq!(waiting.step(2 * PROBE_PERIOD, FOR_EVER), WaitStep::Sleep(NAP));
        assert_eq!(waiting.step(u64::MAX, FOR_EVER), WaitStep::Probe(NAP));
    }
}
