//! Waiting for room in a full ring, where the program allows it and a session asks for it.
//!
//! A waiting thread sleeps and tries again; nobody has to wake it, so readers do nothing for it. It sees that a session ends by the
//! closed ring, in which nothing is written. That a recorder was killed it learns from the lock on its slot, which the kernel
//! releases then: it looks every second, through the area's descriptor. From then on nobody waits for that session.

use crate::program;
use sordino_clock::{Clock, nanoseconds};
use sordino_ring::slots::Slots;
use sordino_ring::write::Full;

/// Between two tries, in nanoseconds: well below what a recorder takes to come round, and 1 % of a CPU at most.
const NAP: u64 = 100_000;
/// Between two looks whether the recorder lives.
const LOOK: u64 = 1_000_000_000;
/// What [`Full::block`] says for ever with.
const FOR_EVER: u32 = u32::MAX;

/// How long one record has waited, in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Waiting {
    /// 0: not yet.
    since: u64,
    /// When it was last looked whether the recorder lives, or since.
    looked: u64,
}

/// What a thread does whose record finds no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Sleeps so many nanoseconds.
    Sleep(u64),
    /// Looks whether the recorder lives, and sleeps then.
    Look(u64),
    /// Loses the record.
    GiveUp,
}

impl Waiting {
    /// Sleeps until it is time to try once more; `false` if it no longer is, or the program does not allow it.
    ///
    /// One system call, two in each second.
    #[cold]
    pub(crate) fn sleep(&mut self, slots: Slots, slot: u32, full: Full) -> bool {
        if !slots.allows_blocking() {
            return false;
        }
        let now = nanoseconds(Clock::Monotonic);
        if self.since == 0 {
            *self = Self { since: now, looked: now };
        }
        let time = match self.step(now, full.block) {
            Step::GiveUp => return false,
            Step::Sleep(time) => time,
            Step::Look(time) => {
                self.looked = now;
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

    fn step(self, now: u64, block: u32) -> Step {
        let left = match block {
            FOR_EVER => u64::MAX,
            block => (self.since + u64::from(block) * 1000).saturating_sub(now),
        };
        let time = left.min(NAP);
        if left == 0 {
            Step::GiveUp
        } else if now - self.looked >= LOOK {
            Step::Look(time)
        } else {
            Step::Sleep(time)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_waits_as_long_as_the_session_says_and_no_longer() {
        let waiting = Waiting { since: 5_000, looked: 5_000 };
        assert_eq!(waiting.step(5_000, 250), Step::Sleep(NAP));
        assert_eq!(waiting.step(5_000 + 200_000, 250), Step::Sleep(50_000));
        assert_eq!(waiting.step(5_000 + 250_000, 250), Step::GiveUp);
        assert_eq!(waiting.step(5_000 + 900_000, 250), Step::GiveUp);
    }

    #[test]
    fn it_looks_every_second_whether_the_recorder_lives() {
        let mut waiting = Waiting { since: 1, looked: 1 };
        assert_eq!(waiting.step(LOOK, FOR_EVER), Step::Sleep(NAP));
        assert_eq!(waiting.step(LOOK + 1, FOR_EVER), Step::Look(NAP));
        waiting.looked = LOOK + 1;
        assert_eq!(waiting.step(2 * LOOK, FOR_EVER), Step::Sleep(NAP));
        assert_eq!(waiting.step(u64::MAX, FOR_EVER), Step::Look(NAP));
    }
}
