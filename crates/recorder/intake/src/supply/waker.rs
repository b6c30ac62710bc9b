//! The handle by which the thread that empties rings wakes the one that supplies them.

use std::thread::Thread;

/// Wakes a supplier's thread without waiting.
#[derive(Clone, Debug)]
pub struct SupplyWaker(Thread);

impl SupplyWaker {
    pub(super) const fn of(thread: Thread) -> Self {
        Self(thread)
    }

    /// Wakes the thread because a ring has called its pager.
    pub fn wake(&self) {
        self.0.unpark();
    }
}
