//! The supply of one program's rings with pages.

use super::hidden::HiddenParts;
use super::recipient::Recipient;
use super::ring::{IN_ADVANCE, SuppliedRing, Urgency, is_in_use};
use super::waker::SupplyWaker;
use crate::ledger::Claim;
use sordino_ring::area::control::{Pager, Program};
use sordino_ring::area::map::MemoryPart;
use sordino_ring::layout::Geometry;
use sordino_sched::CpuList;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

/// A program whose rings get pages, until it is [closed](Self::close).
#[derive(Debug)]
pub struct Supplied {
    waker: Option<SupplyWaker>,
    /// True from the first [`close`](Self::close) on: the supplier drops the program when the step in progress has
    /// ended.
    is_closing: AtomicBool,
    /// Locked during a step, which the program can prolong for ever.
    rings: Mutex<Option<SuppliedRings>>,
}

#[derive(Debug)]
struct SuppliedRings {
    recipient: Recipient,
    rings: Vec<SuppliedRing>,
    hidden: HiddenParts,
    shielded: CpuList,
    /// The number of rings of all programs.
    all: Arc<AtomicUsize>,
}

impl Supplied {
    pub(super) fn new(
        pid: i32,
        program: &Arc<Program>,
        claim: &Arc<Claim>,
        pagers: Vec<Pager>,
        hidden: &[MemoryPart],
        all: &Arc<AtomicUsize>,
    ) -> Self {
        let (program, claim) = (Arc::clone(program), Arc::clone(claim));
        let recipient = Recipient { pid, program, claim, keeps_pages: false };
        let rings: Vec<SuppliedRing> = pagers.into_iter().map(SuppliedRing::new).collect();
        all.fetch_add(rings.len(), Relaxed);
        Self {
            waker: None,
            is_closing: AtomicBool::new(false),
            rings: Mutex::new(Some(SuppliedRings {
                recipient,
                rings,
                hidden: HiddenParts::of(hidden),
                shielded: CpuList::default(),
                all: Arc::clone(all),
            })),
        }
    }

    /// Starts the supply, with these CPUs shielded. If the program is the `only` one of its supplier, it gets pages
    /// before it needs them, unless others of its user registered within a second: programs that start one after
    /// another are usually short-lived.
    pub(super) fn begin(&mut self, only: bool, shielded: CpuList, waker: SupplyWaker) {
        self.waker = Some(waker);
        let rings = self.rings.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(of_program) = rings else { return };
        of_program.shielded = shielded;
        let SuppliedRings { recipient, rings, .. } = of_program;
        let of_cpus = rings.iter().filter(|ring| ring.is_cpus()).count();
        let budget = recipient.claim.memory().budget;
        let is_alone = only && recipient.claim.arrivals() <= 1;
        rings.iter_mut().for_each(|ring| ring.begin(is_alone.then_some((of_cpus, budget))));
    }

    /// Returns the waker for the thread that empties the rings.
    pub fn waker(&self) -> Option<SupplyWaker> {
        self.waker.clone()
    }

    /// Returns the urgency of the program's next step.
    pub(super) fn urgency(&self, now: Instant) -> Option<Urgency> {
        let mut locked = self.lock();
        let SuppliedRings { rings, hidden, .. } = locked.as_mut()?;
        let urgent = rings.iter_mut().filter_map(|ring| ring.urgency(now)).min();
        if urgent.is_some_and(is_in_use) {
            // Its pages come first, and those of other rings may be given back meanwhile.
            hidden.forget();
        }
        if hidden.is_empty() { urgent } else { Some(IN_ADVANCE) }
    }

    /// Takes a step for the most urgent ring.
    pub(super) fn step(&self, now: Instant) {
        let mut locked = self.lock();
        let Some(of_program) = &mut *locked else { return };
        of_program.heed_shield();
        let SuppliedRings { recipient, rings, hidden, .. } = of_program;
        if !hidden.is_empty() {
            return hidden.step(recipient);
        }
        let urgent = rings.iter_mut().filter_map(|ring| Some((ring.urgency(now)?, ring)));
        if let Some((_, ring)) = urgent.min_by_key(|(urgency, _)| *urgency) {
            ring.step(recipient, now);
        }
    }

    /// Returns true if a ring waits for memory.
    pub(super) fn is_short(&self) -> bool {
        let locked = self.lock();
        locked.as_ref().is_some_and(|SuppliedRings { rings, .. }| rings.iter().any(SuppliedRing::is_short))
    }

    /// Returns true if the mark of a ring is to be looked at again soon.
    pub(super) fn is_watched(&self, now: Instant) -> bool {
        let locked = self.lock();
        locked
            .as_ref()
            .is_some_and(|SuppliedRings { rings, .. }| rings.iter().any(|ring| ring.is_watched(now)))
    }

    /// Ignores poisoning: no code panics while it holds the lock, and each step is complete.
    fn lock(&self) -> MutexGuard<'_, Option<SuppliedRings>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes pages from idle rings; each keeps as many sub-buffers as `kept` returns. From now on, these CPUs are
    /// shielded.
    pub(super) fn look_for_idle(&self, now: Instant, shielded: &CpuList, kept: impl Fn(Geometry) -> u32) {
        let mut locked = self.lock();
        let Some(of_program) = &mut *locked else { return };
        of_program.shielded.clone_from(shielded);
        of_program.heed_shield();
        let SuppliedRings { recipient, rings, hidden, .. } = of_program;
        for ring in rings {
            if ring.look_for_idle(recipient, now, &kept) {
                hidden.forget();
            }
        }
    }

    /// Ends access to the program's pages. Returns true if it has ended. Without `wait`, it may end later: the program
    /// can delay a step in progress.
    pub fn close(&self, wait: bool) -> bool {
        self.is_closing.store(true, Relaxed);
        let mut locked = match self.rings.try_lock() {
            Ok(locked) => locked,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if wait => self.lock(),
            Err(TryLockError::WouldBlock) => return false,
        };
        *locked = None;
        true
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closing.load(Relaxed)
    }
}

impl SuppliedRings {
    fn heed_shield(&mut self) {
        let Self { recipient, rings, shielded, .. } = self;
        recipient.keeps_pages = rings.iter().any(|ring| ring.is_used_on(shielded));
    }
}

impl Drop for SuppliedRings {
    fn drop(&mut self) {
        self.all.fetch_sub(self.rings.len(), Relaxed);
    }
}
