//! One ring: the times at which it gets pages and gives them back.
//!
//! | a ring | has pages for |
//! |---|---|
//! | not used yet | the portion with which it began; if its program is alone, its part of [`ALONE`](crate::portion::ALONE) |
//! | in use | [`WINDOW`] ahead of the writers; pages behind them are given back |
//! | in use so fast that half of that is gone within [`SOON`], or by a program that is alone | all its sub-buffers |
//! | idle for [`IDLE_AFTER`] | the sub-buffers that [`kept`] returns |
//!
//! A program that has written on a shielded CPU gives no pages back while there is memory for more: see
//! [`Recipient::keeps_pages`].

use super::recipient::Recipient;
use crate::ledger::Shortage;
use crate::portion::bytes_alone;
use sordino_ring::area::control::{Pager, Use};
use sordino_ring::layout::Geometry;
use sordino_ring::offset::Head;
use sordino_sched::CpuList;
use std::cmp::Reverse;
use std::time::{Duration, Instant};

/// Size of the pages ahead of the writers of a ring in use, in bytes.
const WINDOW: u64 = 4 << 20;
/// Size that the idle rings of a session keep together, in bytes, unless there are too many of them.
const IDLE: u64 = 32 << 20;
/// Size of the pages that a ring gets in one step, in bytes: 0.1 ms, for which other rings wait.
const STEP: u64 = 256 << 10;
/// Number of bytes after which a ring that was unused or idle counts as in use.
const USED: u64 = 16 << 10;
/// Time within which writers that need pages again count as fast.
const SOON: Duration = Duration::from_millis(100);
/// Time until the next attempt for a ring that got no memory.
pub(super) const RETRY: Duration = Duration::from_millis(10);
/// Time between two looks at the mark of a ring in use, whose reader may be waiting for a disk. Writers that are not in
/// fast use (see [`SOON`]) take longer than this from the mark to the end of the ring's pages.
pub(super) const WATCH: Duration = Duration::from_millis(20);
/// Time without a record after which a ring is not looked at that often.
const WATCHED: Duration = Duration::from_secs(2);
/// Time between a revocation and the removal of the pages.
const SETTLED: Duration = Duration::from_millis(900);
/// Time without a record after which a ring is idle.
const IDLE_AFTER: Duration = Duration::from_secs(4);
/// The same for a session that uses more than three quarters of its budget.
const IDLE_SHORT: Duration = Duration::from_secs(1);

/// Returns the number of sub-buffers that an idle ring keeps, the writers' included, given the number of all rings. At
/// least two, because the one behind the writers' cannot be removed.
pub(super) fn kept(geometry: Geometry, rings: usize) -> u32 {
    let each = (IDLE / rings.max(1) as u64).min(WINDOW);
    ((each >> geometry.bits) as u32).clamp(2, geometry.count)
}

/// A ring of a program, with its pages.
#[derive(Debug)]
pub(super) struct SuppliedRing {
    pager: Pager,
    /// The number of sub-buffers that writers may enter, including the present one, if there is memory.
    target: u32,
    /// True if the ring has fewer than `target`.
    is_filling: bool,
    /// True if the ring is to grow when writers reach a mark, of which the reader reports.
    is_marked: bool,
    /// The time of the last such call.
    called: Option<Instant>,
    /// The last observed head, the time since which it is unchanged, and true if it ever changed.
    head: Option<Head>,
    since: Instant,
    has_moved: bool,
    /// True if its program was alone when it began.
    is_alone: bool,
    /// The time at which there was no memory for it, and true until there was some again, or the ring was idle.
    short: Option<Instant>,
    was_short: bool,
    /// The time at which sub-buffers were revoked whose pages are to be removed.
    revoked: Option<Instant>,
}

/// The urgency of a ring's next step; the least is most urgent. Rings in use come first, and among those the ones with
/// the fewest sub-buffers ahead.
pub(super) type Urgency = (Reverse<bool>, u32);

/// The urgency of pages for rings that are not in use yet.
pub(super) const IN_ADVANCE: Urgency = (Reverse(false), 0);

/// Returns true if it is the urgency of a ring in use.
pub(super) const fn is_in_use((Reverse(in_use), _): Urgency) -> bool {
    in_use
}

impl SuppliedRing {
    pub(super) fn new(pager: Pager) -> Self {
        Self {
            pager,
            target: 0,
            is_filling: false,
            is_marked: false,
            called: None,
            head: None,
            since: Instant::now(),
            has_moved: false,
            is_alone: false,
            short: None,
            was_short: false,
            revoked: None,
        }
    }

    pub(super) const fn is_cpus(&self) -> bool {
        self.pager.cpu().is_some()
    }

    /// Returns true if it was written on one of these CPUs.
    pub(super) fn is_used_on(&self, cpus: &CpuList) -> bool {
        self.has_moved && self.pager.cpu().is_some_and(|cpu| cpus.contains(cpu.0))
    }

    /// Starts the supply; `alone` is, for a program that is alone, the number of its CPUs' rings and the budget of all
    /// rings.
    pub(super) fn begin(&mut self, alone: Option<(usize, u64)>) {
        let alone = alone.filter(|_| self.is_cpus());
        let alone = alone.map(|(rings, budget)| self.sub_buffers(bytes_alone(rings, budget)));
        let Some(Use { head, ahead, .. }) = self.pager.usage() else { return };
        (self.head, self.is_alone) = (Some(head), alone.is_some());
        self.target = (ahead + 1).max(alone.unwrap_or(1));
        self.is_filling = self.target > ahead + 1;
        self.mark(head, ahead);
    }

    /// Returns the number of sub-buffers of this size in bytes, at least one.
    fn sub_buffers(&self, bytes: u64) -> u32 {
        let geometry = self.pager.geometry();
        ((bytes >> geometry.bits) as u32).clamp(1, geometry.count)
    }

    /// Makes the reader call the pager when half of the open sub-buffers is used; for a ring with few sub-buffers or
    /// not used yet, on its first use.
    fn mark(&mut self, head: Head, ahead: u32) {
        let geometry = self.pager.geometry();
        let within = u64::from(head.start().within(geometry.size() as u32));
        let half = (u64::from(ahead) + 1) << geometry.bits >> 1;
        let used = (within + USED).min(half).max(within + 1);
        // On its first use, the recorder moves away from the program's CPU.
        let is_early = !self.has_moved || self.target < self.sub_buffers(WINDOW);
        self.pager.call_behind(head, if is_early { used } else { half.max(used) });
        self.is_marked = true;
    }

    /// Returns the urgency of the next step; `None` if there is nothing to do. Also handles writers that have reached
    /// the mark.
    pub(super) fn urgency(&mut self, now: Instant) -> Option<Urgency> {
        if self.is_marked && self.pager.is_called() {
            self.is_marked = false;
            self.grow(now);
        }
        self.is_filling |= self.short.take_if(|short| now - *short >= RETRY).is_some();
        if !self.is_filling {
            return None;
        }
        let Use { head, ahead, .. } = self.pager.usage()?;
        let has_begun = !self.has_moved && self.head.is_some_and(|before| before != head);
        if has_begun && self.is_alone {
            // The program writes from the start, and no other one needs the memory now.
            self.target = self.pager.geometry().count;
        }
        self.has_moved |= has_begun;
        Some((Reverse(self.has_moved), ahead))
    }

    /// Raises the target, because the writers have used half of what they had.
    fn grow(&mut self, now: Instant) {
        let window = self.sub_buffers(WINDOW);
        let is_fast = self.called.is_some_and(|called| now - called < SOON) && self.target >= window;
        self.target = if is_fast { self.pager.geometry().count } else { self.target.max(window) };
        (self.called, self.is_filling) = (Some(now), true);
    }

    /// Opens the next sub-buffers, at most [`STEP`] bytes.
    pub(super) fn step(&mut self, recipient: &mut Recipient, now: Instant) {
        let Some(Use { head, ahead, is_whole }) = self.pager.usage() else {
            self.is_filling = false;
            return;
        };
        if self.head != Some(head) {
            (self.head, self.since) = (Some(head), now);
        }
        self.is_filling =
            !is_whole && ahead + 1 < self.target && self.open(recipient, self.target - ahead - 1, now);
        if !self.is_filling
            && let Some(Use { head, ahead, is_whole: false }) = self.pager.usage()
        {
            self.mark(head, ahead);
        }
    }

    /// Returns true if its mark is to be looked at every [`WATCH`].
    pub(super) fn is_watched(&self, now: Instant) -> bool {
        self.is_marked && now - self.since < WATCHED
    }

    /// Returns true if it waits for memory.
    pub(super) const fn is_short(&self) -> bool {
        self.short.is_some()
    }

    /// Opens at most `missing` sub-buffers, as far as there is memory. Returns true if it did.
    fn open(&mut self, recipient: &mut Recipient, missing: u32, now: Instant) -> bool {
        let geometry = self.pager.geometry();
        let keeps_pages = recipient.keeps_pages && !self.was_short;
        if self.target < geometry.count && !keeps_pages {
            self.trim(recipient);
        }
        let most = missing.min(self.sub_buffers(STEP));
        let bytes = u64::from(most) << geometry.bits;
        let mut grown = recipient.claim.grow(bytes);
        if grown.is_err() && keeps_pages {
            self.trim(recipient);
            grown = recipient.claim.grow(bytes);
        }
        if let Err(shortage) = grown {
            // It continues with its present pages, which are reused in a circle.
            self.target = self.target.min(self.sub_buffers(WINDOW));
            self.trim(recipient);
            self.is_without(recipient, shortage, now);
            return false;
        }
        let before = self.pager.usage();
        let new = self.pager.extend(&recipient.program, recipient.pid, most);
        recipient.claim.shrink(bytes - new.as_ref().map_or(0, |new| *new));
        self.revoked = None;
        self.was_short &= new.is_err();
        match new {
            Ok(new) => new > 0 || self.pager.usage().map(|seen| seen.ahead) > before.map(|seen| seen.ahead),
            Err(_) => {
                self.is_without(recipient, Shortage::Exhausted, now);
                false
            }
        }
    }

    /// Schedules another attempt, and counts the shortage once.
    fn is_without(&mut self, recipient: &Recipient, shortage: Shortage, now: Instant) {
        if !self.was_short {
            recipient.claim.note_short(shortage);
        }
        (self.short, self.was_short) = (Some(now), true);
    }

    /// Gives back the pages that the reader has read.
    fn trim(&mut self, recipient: &Recipient) {
        if let Ok(bytes) = self.pager.trim(&recipient.program) {
            recipient.claim.shrink(bytes);
        }
    }

    /// Removes pages if the ring is idle, in two steps that are a tick apart: see [`Pager`]. Resumes filling a ring in
    /// use that did not get the pages that it needed. Returns true if the ring is idle.
    pub(super) fn look_for_idle(
        &mut self,
        recipient: &Recipient,
        now: Instant,
        kept: impl Fn(Geometry) -> u32,
    ) -> bool {
        let Some(Use { head, ahead, is_whole }) = self.pager.usage() else { return false };
        if self.head != Some(head) {
            (self.head, self.since, self.has_moved) = (Some(head), now, true);
            self.is_filling |= !is_whole && ahead + 1 < self.target / 2;
        }
        let memory = recipient.claim.memory();
        let is_short = memory.used > memory.budget / 4 * 3;
        if recipient.keeps_pages && !is_short {
            // Revoked sub-buffers keep their pages, too, and are opened again when writers need them.
            self.revoked = None;
            return false;
        }
        if let Some(at) = self.revoked {
            // Writers that were in progress at the revocation have ended by then.
            if at.elapsed() < SETTLED {
                return true;
            }
            self.revoked = None;
            if let Ok(bytes) = self.pager.reclaim(&recipient.program) {
                recipient.claim.shrink(bytes);
            }
            return true;
        }
        let after = if is_short { IDLE_SHORT } else { IDLE_AFTER };
        if now - self.since < after {
            return false;
        }
        (self.short, self.was_short) = (None, false);
        self.trim(recipient);
        let kept = kept(self.pager.geometry());
        if self.pager.present() > u64::from(kept) << self.pager.geometry().bits {
            self.revoked = self.pager.revoke(kept - 1).then(Instant::now);
            (self.is_filling, self.target) = (false, kept);
            self.mark(head, ahead.min(kept - 1));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::portion::ALONE;

    #[test]
    fn a_program_on_two_of_64_cpus_has_less_than_48_mib_once_the_others_are_idle() {
        let geometry = Geometry::new(128 << 10, 256).unwrap();
        assert_eq!(64 * bytes_alone(64, 16 << 30), ALONE);
        assert_eq!(2 * bytes_alone(2, 128 << 20), 16 << 20);
        // The shared ring is one of 63 that are idle.
        let idle = 63 * (u64::from(kept(geometry, 65)) << geometry.bits);
        assert!(idle + 2 * WINDOW < 48 << 20, "{idle}");
    }

    #[test]
    fn idle_rings_share_and_each_keeps_the_two_that_it_must() {
        let geometry = Geometry::new(128 << 10, 256).unwrap();
        assert_eq!([1, 3, 65, 300, 100_000].map(|rings| kept(geometry, rings)), [32, 32, 3, 2, 2]);
        assert_eq!(kept(Geometry::new(16 << 10, 2).unwrap(), 1), 2);
    }
}
