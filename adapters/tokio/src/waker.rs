//! Wakers that record who woke a fiber.

use crate::thread::current;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Wake, Waker};

/// The states of a fiber between its polls.
const BLOCKED: u8 = 0;
const READY: u8 = 1;
const RUNNING: u8 = 2;

/// The waker that a fiber's future gets.
#[derive(Debug)]
pub(crate) struct FiberWaker {
    shared: Arc<WakeState>,
    waker: Waker,
}

/// A fiber's state, and the waker of the task that it belongs to.
#[derive(Debug)]
struct WakeState {
    fiber: u64,
    state: AtomicU8,
    task: Waker,
}

impl FiberWaker {
    pub(crate) fn new(fiber: u64, task: &Waker) -> Self {
        let shared = Arc::new(WakeState { fiber, state: AtomicU8::new(RUNNING), task: task.clone() });
        Self { waker: Waker::from(Arc::clone(&shared)), shared }
    }

    pub(crate) fn are_for(&self, task: &Waker) -> bool {
        self.shared.task.will_wake(task)
    }

    pub(crate) const fn waker(&self) -> &Waker {
        &self.waker
    }

    pub(crate) fn begin(&self) {
        self.shared.state.store(RUNNING, Ordering::Relaxed);
    }

    /// Returns true if the fiber has been woken since its poll began.
    pub(crate) fn is_ready(&self) -> bool {
        self.shared.state.load(Ordering::Relaxed) == READY
    }

    /// Lets wakes be recorded, behind the switch from a fiber that blocked; one that came meanwhile is recorded now.
    pub(crate) fn block(&self) {
        let state = &self.shared.state;
        if state.compare_exchange(RUNNING, BLOCKED, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            sordino_fiber::wake(self.shared.fiber, 0);
        }
    }
}

impl Wake for WakeState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// Records the first wake of a blocked fiber, before its task can run.
    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(READY, Ordering::Relaxed) == BLOCKED {
            sordino_fiber::wake(self.fiber, current());
        }
        self.task.wake_by_ref();
    }
}
