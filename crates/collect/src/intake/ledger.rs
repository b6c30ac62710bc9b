//! The known areas, and each user's share of the recorder's resources.

use super::is_trusted;
use crate::limits;
use sordino_ring::control::FileId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Areas of one process at most: one for each copy of the library in it.
const MOST_AREAS: usize = 16;
/// Descriptors that a program takes besides its streams': its area, its process, its metadata.
const DESCRIPTORS: u64 = 4;

/// What a user's programs may have together: a quarter of what there is. Root's and the recorder's own user's have no limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    descriptors: u64,
    bytes: u64,
}

impl Limits {
    /// As this machine, the control group and the descriptors' limit have it now.
    pub(crate) fn of_this_machine() -> Self {
        Self { descriptors: limits::descriptors() / 4, bytes: limits::memory() / 4 }
    }
}

/// The areas that are recorded, or are about to be.
#[derive(Clone, Debug)]
pub(crate) struct Ledger(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    areas: HashMap<FileId, Entry>,
}

#[derive(Debug)]
struct Entry {
    pid: i32,
    user: u32,
    bytes: u64,
    descriptors: u64,
}

/// An area's place in the ledger, which it has until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    ledger: Ledger,
    id: FileId,
    user: u32,
}

/// The reason why an area can't be claimed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoClaim {
    /// Somebody has.
    Known,
    /// The process or its user has too many areas.
    TooMany(String),
}

impl Ledger {
    pub(crate) fn new(limits: Limits) -> Self {
        Self(Arc::new(Mutex::new(Inner { limits, areas: HashMap::new() })))
    }

    /// Nobody panics with it locked, and what it holds is right at every moment.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims an area that a process of `user` has, for so many rings.
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
        inner.areas.insert(id, Entry { pid, user, bytes: 0, descriptors });
        Ok(Claim { ledger: self.clone(), id, user })
    }
}

impl Ledger {
    /// The areas of a process.
    pub(crate) fn of_process(&self, pid: i32) -> Vec<FileId> {
        self.lock().areas.iter().filter(|(_, entry)| entry.pid == pid).map(|(id, _)| *id).collect()
    }
}

impl Inner {
    fn of_user(&self, user: u32) -> impl Iterator<Item = &Entry> {
        self.areas.values().filter(move |entry| entry.user == user)
    }
}

impl Claim {
    /// The area's identity.
    pub(crate) const fn id(&self) -> FileId {
        self.id
    }

    /// The user of the area's process, or whose limits hold for it.
    pub(crate) const fn user(&self) -> u32 {
        self.user
    }

    /// Counts the memory that the area's rings are about to take, in place of what was counted before.
    ///
    /// # Errors
    /// That its user's programs would have too much, and what to do about it.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<(), String> {
        let mut inner = self.ledger.lock();
        let Some(user) = inner.areas.get(&self.id).map(|entry| entry.user) else { return Ok(()) };
        if let Some(entry) = inner.areas.get_mut(&self.id) {
            entry.bytes = bytes;
        }
        let (used, limit): (u64, u64) =
            (inner.of_user(user).map(|entry| entry.bytes).sum(), inner.limits.bytes);
        if is_trusted(user) || used <= limit {
            return Ok(());
        }
        if let Some(entry) = inner.areas.get_mut(&self.id) {
            entry.bytes = 0;
        }
        let (used, limit) = ((used - bytes) >> 20, limit >> 20);
        Err(format!(
            "the rings of user {user} have {used} MiB, and at most {limit} (a quarter of the memory): use smaller rings \
             (--subbuf-size, --num-subbuf)"
        ))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.ledger.lock().areas.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        Ledger::new(Limits { descriptors: 70, bytes: 1000 })
    }

    fn id(inode: u64) -> FileId {
        FileId { device: 1, inode }
    }

    /// A user without rights, who is not the one that runs the tests.
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
    fn a_users_rings_take_a_quarter_of_the_memory_and_roots_any() {
        let (ledger, user) = (ledger(), stranger());
        let [one, two] = [1, 2].map(|inode| ledger.claim(id(inode), 20, user, 3).unwrap());
        one.reserve(600).unwrap();
        assert!(two.reserve(600).unwrap_err().contains("a quarter of the memory"));
        two.reserve(400).unwrap();
        two.reserve(300).unwrap();
        one.reserve(700).unwrap();
        ledger.claim(id(3), 10, 0, 3).unwrap().reserve(1 << 40).unwrap();
    }
}
