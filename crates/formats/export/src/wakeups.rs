//! Wake-ups and the runs that they cause, for formats that join them.

use sordino_event::Tid;
use sordino_timeline::{Kernel, System};
use std::collections::HashMap;

/// The wake-ups of the threads that have not run since, each with what the format keeps of it.
#[derive(Debug)]
pub(crate) struct OpenWakeUps<T>(HashMap<Tid, T>);

impl<T> Default for OpenWakeUps<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> OpenWakeUps<T> {
    /// Returns the thread that an event wakes and that waits for a CPU from then on.
    pub(crate) fn woken(&self, kernel: &Kernel<'_>, system: &System) -> Option<Tid> {
        let tid = match *kernel {
            Kernel::Waking { tid, .. } => tid,
            // Otherwise it is the second record of the same wake-up.
            Kernel::Woken { tid, .. } if !self.0.contains_key(&tid) => tid,
            _ => return None,
        };
        // A thread that has a CPU does not wait for one.
        system.cpu(tid).is_none().then_some(tid)
    }

    pub(crate) fn begin(&mut self, tid: Tid, kept: T) {
        self.0.insert(tid, kept);
    }

    /// Applies a switch. Returns what was kept of the wake-up that led to it.
    pub(crate) fn switch(&mut self, prev: Tid, next: Tid) -> Option<T> {
        // It has run since it was woken.
        self.0.remove(&prev);
        self.0.remove(&next)
    }

    /// Forgets a thread that has ended.
    pub(crate) fn forget(&mut self, tid: Tid) {
        self.0.remove(&tid);
    }

    /// Forgets all: a wake-up or the run that it caused may be among lost records.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
