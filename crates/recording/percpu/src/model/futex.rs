//! Sleeping on a word, as on the kernel's futex: the sleeper compares the word and falls asleep under a lock that
//! wakers take, too.

use super::known;
use crate::primitive::{AtomicU32, Relaxed};
use loom::sync::{Condvar, Mutex};

#[derive(Default)]
struct Sleepers {
    lock: Mutex<()>,
    woken: Condvar,
}

/// The sleepers on the word at `address`.
fn sleepers(address: *mut u32) -> std::rc::Rc<Sleepers> {
    known(address as usize, Sleepers::default)
}

pub(crate) fn wake(address: *mut u32) {
    let sleepers = sleepers(address);
    let _held = sleepers.lock.lock();
    sleepers.woken.notify_all();
}

/// Sleeps until `word` is woken, if its value still is `seen`.
pub fn wait(word: &AtomicU32, seen: u32) {
    let sleepers = sleepers(word.as_ptr());
    let held = sleepers.lock.lock().unwrap_or_else(|_| unreachable!("loom's locks are not poisoned"));
    if word.load(Relaxed) == seen {
        drop(sleepers.woken.wait(held));
    }
}
