//! The known areas, and each user's share of the recorder's resources.

use super::accounts::is_trusted;
use crate::headroom::Headroom;
use crate::limits;
use sordino_ring::area::control::FileId;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of areas of one process: one for each copy of the library in it.
const MOST_AREAS: usize = 16;
/// Descriptors that a program takes beside its streams': its area, its process, its metadata.
const DESCRIPTORS: u64 = 4;

/// Time for which a program counts as a recent arrival.
const LATELY: Duration = Duration::from_secs(1);
/// Maximum number of recent arrivals that are kept.
const MOST_LATE: usize = 256;

/// The limits for all programs together, and for one user. Root and the recorder's own user have no limit of their own.
#[derive(Clone, Copy, Debug)]
pub struct IntakeLimits {
    /// A user's descriptors: a quarter of the recorder's.
    descriptors: u64,
    /// Bytes of a user's rings: half of the budget, so that the other half is left for other users.
    bytes: u64,
    /// Bytes of all rings.
    budget: u64,
}

impl IntakeLimits {
    /// Returns the limits that follow from the machine's memory, the cgroup, the present limit of descriptors, and the
    /// session's options.
    pub fn of_this_machine(max_memory: Option<u64>) -> Self {
        let quarter = limits::memory().0 / 4;
        let budget = max_memory.unwrap_or(quarter);
        Self { descriptors: limits::descriptors() / 4, bytes: quarter.min(budget / 2), budget }
    }
}

/// The memory of a session's rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes in use by the rings.
    pub used: u64,
    /// Bytes that the rings may use at most.
    pub budget: u64,
    /// The number of times that a ring did not get memory that it needed, because of the budget.
    pub short: u64,
    /// The number of such times because the machine, or a control group of the recorder, had none left.
    pub exhausted: u64,
}

/// The reason that a ring gets no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// The session or the user has used its part.
    Budget,
    /// The machine, or a control group of the recorder, has none left.
    Exhausted,
}

/// The areas that are recorded or about to be.
#[derive(Clone, Debug)]
pub(crate) struct Ledger(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    limits: IntakeLimits,
    headroom: Headroom,
    short: u64,
    exhausted: u64,
    /// Bytes of areas that are prepared for programs to come.
    held: u64,
    areas: HashMap<FileId, LedgerEntry>,
    /// The times at which the latest areas were claimed, with their users.
    arrivals: VecDeque<(Instant, u32)>,
}

#[derive(Debug)]
struct LedgerEntry {
    pid: i32,
    user: u32,
    bytes: u64,
    descriptors: u64,
}

/// An area's entry in the ledger, removed when this is dropped.
#[derive(Debug)]
pub struct Claim {
    ledger: Ledger,
    id: FileId,
    user: u32,
}

/// Memory of an area without a program, which counts against the budget until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldMemory {
    ledger: Ledger,
    bytes: u64,
}

/// The reason that an area can't be claimed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoClaim {
    /// The area has been claimed already.
    Known,
    /// The process or its user has too many areas.
    TooMany(String),
}

impl Ledger {
    /// Creates a ledger for this process, within its control groups.
    pub(crate) fn of_this_process(limits: IntakeLimits) -> Self {
        Self::new(limits, limits::memory().1)
    }

    pub(crate) fn new(limits: IntakeLimits, headroom: Headroom) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            limits,
            headroom,
            short: 0,
            exhausted: 0,
            held: 0,
            areas: HashMap::new(),
            arrivals: VecDeque::new(),
        })))
    }

    /// Ignores poisoning: no code panics while it holds the lock, and the contents are valid at every moment.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims an area of a process of `user`, with `rings` rings.
    pub(crate) fn claim(&self, id: FileId, pid: i32, user: u32, rings: usize) -> Result<Claim, NoClaim> {
        let mut inner = self.lock();
        if inner.areas.contains_key(&id) {
            return Err(NoClaim::Known);
        }
        let descriptors = DESCRIPTORS + rings as u64;
        if inner.areas.values().filter(|entry| entry.pid == pid).count() >= MOST_AREAS {
            return Err(NoClaim::TooMany(format!("it has more than {MOST_AREAS} areas")));
        }
        let used: u64 = inner.of_user(user).map(|entry| entry.descriptors).sum();
        if !is_trusted(user) && used + descriptors > inner.limits.descriptors {
            return Err(NoClaim::TooMany(format!(
                "the programs of user {user} use a quarter of the recorder's descriptors: raise its limit (ulimit -n)"
            )));
        }
        inner.areas.insert(id, LedgerEntry { pid, user, bytes: 0, descriptors });
        inner.arrivals.push_back((Instant::now(), user));
        Ok(Claim { ledger: self.clone(), id, user })
    }
}

impl Ledger {
    /// Returns the memory of all rings.
    pub(crate) fn memory(&self) -> Memory {
        let inner = self.lock();
        let Inner { short, exhausted, .. } = *inner;
        Memory { used: inner.used(), budget: inner.limits.budget, short, exhausted }
    }

    /// Holds memory for an area without a program; `None` if the budget does not allow it.
    pub(crate) fn hold(&self, bytes: u64) -> Option<HeldMemory> {
        let mut inner = self.lock();
        let fits = inner.used().saturating_add(bytes) <= inner.limits.budget / 8 * 7;
        if !fits || !inner.headroom.allows(bytes) {
            return None;
        }
        inner.held += bytes;
        Some(HeldMemory { ledger: self.clone(), bytes })
    }

    /// Returns true if the area is claimed.
    pub(crate) fn has(&self, id: FileId) -> bool {
        self.lock().areas.contains_key(&id)
    }

    /// Returns the areas of a process.
    pub(crate) fn of_process(&self, pid: i32) -> Vec<FileId> {
        self.lock().areas.iter().filter(|(_, entry)| entry.pid == pid).map(|(id, _)| *id).collect()
    }
}

impl Inner {
    /// Returns the number of this user's recently claimed areas, at most [`MOST_LATE`].
    fn arrivals(&mut self, user: u32) -> usize {
        let too_many = self.arrivals.len().saturating_sub(MOST_LATE);
        self.arrivals.drain(..too_many);
        while self.arrivals.pop_front_if(|(at, _)| at.elapsed() > LATELY).is_some() {}
        self.arrivals.iter().filter(|(_, other)| *other == user).count()
    }

    fn used(&self) -> u64 {
        self.held + self.areas.values().map(|entry| entry.bytes).sum::<u64>()
    }

    /// Returns the reason that the rings exceed the session's or this user's limit, if they do.
    fn excess(&self, user: u32) -> Option<String> {
        let (used, budget) = (self.used(), self.limits.budget);
        if used > budget {
            return Some(format!(
                "the session's rings would have {} MiB, and may have {} (--max-memory): allow more, or use smaller rings \
                 (--subbuf-size, --num-subbuf)",
                used.div_ceil(1 << 20),
                budget >> 20
            ));
        }
        let (used, limit) = (self.of_user(user).map(|entry| entry.bytes).sum::<u64>(), self.limits.bytes);
        (!is_trusted(user) && used > limit).then(|| {
            format!(
                "the rings of user {user} would have {} MiB, and at most {} (half of what all may have): use smaller rings \
                 (--subbuf-size, --num-subbuf)",
                used.div_ceil(1 << 20),
                limit >> 20
            )
        })
    }

    /// Returns the reason that there is no memory for so many bytes more, if there is none.
    fn exhaustion(&mut self, bytes: u64) -> Option<String> {
        (!self.headroom.allows(bytes)).then(|| {
            format!(
                "its rings need {} MiB, which a control group of the recorder has not left: raise the group's limit, or use \
                 smaller rings (--subbuf-size, --num-subbuf)",
                bytes.div_ceil(1 << 20)
            )
        })
    }

    fn of_user(&self, user: u32) -> impl Iterator<Item = &LedgerEntry> {
        self.areas.values().filter(move |entry| entry.user == user)
    }
}

impl Claim {
    /// Returns the identity of the claimed area's file.
    pub const fn id(&self) -> FileId {
        self.id
    }

    /// Returns the user whose limits apply to the area.
    pub const fn user(&self) -> u32 {
        self.user
    }

    /// Sets the memory that the area's rings are about to take, in place of the previous amount.
    ///
    /// # Errors
    /// If the rings of all programs or of the user would exceed the limit, or what the recorder's control groups have
    /// left; the text has the remedy. The area's amount is then 0.
    pub fn reserve(&self, bytes: u64) -> Result<(), String> {
        let mut inner = self.ledger.lock();
        let Some(entry) = inner.areas.get_mut(&self.id) else { return Ok(()) };
        let more = bytes.saturating_sub(std::mem::replace(&mut entry.bytes, bytes));
        let (user, id) = (entry.user, self.id);
        let Some(excess) = inner.excess(user).or_else(|| inner.exhaustion(more)) else { return Ok(()) };
        inner.areas.entry(id).and_modify(|entry| entry.bytes = 0);
        Err(excess)
    }

    /// Adds memory that the area's rings are about to take.
    ///
    /// # Errors
    /// If a limit forbids it. Nothing is changed then.
    pub(crate) fn grow(&self, bytes: u64) -> Result<(), Shortage> {
        let mut inner = self.ledger.lock();
        let Some(entry) = inner.areas.get_mut(&self.id) else { return Err(Shortage::Budget) };
        entry.bytes += bytes;
        let (user, id) = (entry.user, self.id);
        // The last eighth is reserved for later programs.
        let spares = inner.used() <= inner.limits.budget / 8 * 7;
        let shortage = match spares && inner.excess(user).is_none() {
            true if inner.headroom.allows(bytes) => return Ok(()),
            true => Shortage::Exhausted,
            false => Shortage::Budget,
        };
        inner.areas.entry(id).and_modify(|entry| entry.bytes -= bytes);
        Err(shortage)
    }

    /// Counts a failure to get memory for the area's rings.
    pub(crate) fn note_short(&self, shortage: Shortage) {
        let mut inner = self.ledger.lock();
        match shortage {
            Shortage::Budget => inner.short += 1,
            Shortage::Exhausted => inner.exhausted += 1,
        }
    }

    /// Subtracts memory of the area's rings that was freed.
    pub(crate) fn shrink(&self, bytes: u64) {
        let mut inner = self.ledger.lock();
        inner.areas.entry(self.id).and_modify(|entry| entry.bytes = entry.bytes.saturating_sub(bytes));
    }

    /// Returns the memory of all rings.
    pub fn memory(&self) -> Memory {
        self.ledger.memory()
    }

    /// Returns the number of areas of its user that were claimed within the last second, including this one if it is as
    /// recent.
    pub(crate) fn arrivals(&self) -> usize {
        self.ledger.lock().arrivals(self.user)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.ledger.lock().areas.remove(&self.id);
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.ledger.lock().held -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        Ledger::new(IntakeLimits { descriptors: 70, bytes: 1000, budget: 10_000 }, Headroom::default())
    }

    fn id(inode: u64) -> FileId {
        FileId { device: 1, inode }
    }

    /// Returns an unprivileged user, different from the one that runs the tests.
    fn stranger() -> u32 {
        rustix::process::geteuid().as_raw() + 1
    }

    #[test]
    fn an_area_is_claimed_once_until_it_is_given_back() {
        let ledger = ledger();
        let claim = ledger.claim(id(1), 10, 0, 3).unwrap();
        assert_eq!(ledger.claim(id(1), 11, 0, 3).unwrap_err(), NoClaim::Known);
        drop(claim);
        ledger.claim(id(1), 11, 0, 3).unwrap();
    }

    #[test]
    fn programs_that_came_lately_are_counted_for_each_user() {
        let (ledger, user) = (ledger(), stranger());
        let of_root = ledger.claim(id(0), 10, 0, 3).unwrap();
        assert_eq!(of_root.arrivals(), 1);
        (1..9).for_each(|inode| drop(ledger.claim(id(inode), 20, user, 3).unwrap()));
        let of_user = ledger.claim(id(9), 20, user, 3).unwrap();
        assert_eq!((of_user.arrivals(), of_root.arrivals()), (9, 1));
        (0..2 * MOST_LATE).for_each(|_| ledger.lock().arrivals.push_back((Instant::now(), user)));
        assert_eq!((of_user.arrivals(), ledger.lock().arrivals.len()), (MOST_LATE, MOST_LATE));
        std::thread::sleep(LATELY);
        assert_eq!((of_user.arrivals(), of_root.arrivals()), (0, 0));
    }

    #[test]
    fn a_process_and_a_user_have_limits_and_others_none_of_theirs() {
        let (ledger, user) = (ledger(), stranger());
        let of_root: Vec<_> = (0..16).map(|inode| ledger.claim(id(inode), 10, 0, 3).unwrap()).collect();
        assert!(
            matches!(ledger.claim(id(16), 10, 0, 3), Err(NoClaim::TooMany(why)) if why.contains("16 areas"))
        );
        let of_user: Vec<_> = (20..30).map(|inode| ledger.claim(id(inode), 20, user, 3).unwrap()).collect();
        assert!(
            matches!(ledger.claim(id(30), 21, user, 3), Err(NoClaim::TooMany(why)) if why.contains("quarter"))
        );
        ledger.claim(id(31), 11, 0, 3).unwrap();
        drop((of_root, of_user));
        ledger.claim(id(30), 21, user, 3).unwrap();
    }

    #[test]
    fn all_rings_share_a_budget_whose_last_eighth_is_for_programs_to_come() {
        let ledger = ledger();
        let [one, two] = [1, 2].map(|inode| ledger.claim(id(inode), 20, 0, 3).unwrap());
        one.reserve(6000).unwrap();
        assert!(two.reserve(5000).unwrap_err().contains("--max-memory"));
        two.reserve(3000).unwrap();
        let short = Err(Shortage::Budget);
        assert_eq!([two.grow(1), one.grow(1)], [short, short], "the last eighth is for others");
        two.reserve(4000).unwrap();
        assert_eq!(ledger.memory(), Memory { used: 10_000, budget: 10_000, short: 0, exhausted: 0 });
        one.shrink(1750);
        assert_eq!([two.grow(500), two.grow(1)], [Ok(()), short]);
        drop(one);
        assert_eq!(ledger.memory().used, 4500);
    }

    #[test]
    fn memory_that_is_held_for_a_program_to_come_is_part_of_the_budget() {
        let ledger = ledger();
        let claim = ledger.claim(id(1), 20, 0, 3).unwrap();
        claim.reserve(5000).unwrap();
        assert!(ledger.hold(3751).is_none() && ledger.hold(u64::MAX).is_none());
        let held = ledger.hold(3750).unwrap();
        assert_eq!(ledger.memory().used, 8750);
        assert_eq!(claim.grow(1), Err(Shortage::Budget));
        drop(held);
        assert_eq!((claim.grow(3750), ledger.memory().used), (Ok(()), 8750));
    }

    #[test]
    fn a_users_rings_take_half_of_the_budget_and_roots_any() {
        let (ledger, user) = (ledger(), stranger());
        let [one, two] = [1, 2].map(|inode| ledger.claim(id(inode), 20, user, 3).unwrap());
        one.reserve(600).unwrap();
        assert!(two.reserve(600).unwrap_err().contains("half of what all may have"));
        two.reserve(400).unwrap();
        two.reserve(300).unwrap();
        one.reserve(700).unwrap();
        ledger.claim(id(3), 10, 0, 3).unwrap().reserve(9000).unwrap();
    }
}
