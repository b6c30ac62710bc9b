//! Futures that are fibers.

use crate::thread::{mount, unmount};
use crate::waker::Wakes;
use sordino_fiber::SwitchReason;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// Number of the next fiber.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A future whose polls are recorded.
#[derive(Debug)]
pub struct Traced<F> {
    /// The future, in memory of its own, so that it need not be pinned here.
    future: Pin<Box<F>>,
    fiber: Fiber,
    wakes: Option<Wakes>,
}

/// A fiber, which ends when it is dropped.
#[derive(Debug)]
struct Fiber(u64);

/// Makes a fiber of a future. The fiber lives until the future has completed or is dropped.
pub fn traced<F: Future>(name: &str, future: F) -> Traced<F> {
    let fiber = NEXT.fetch_add(1, Ordering::Relaxed);
    sordino_fiber::new(fiber, name);
    Traced { future: Box::pin(future), fiber: Fiber(fiber), wakes: None }
}

impl<F: Future> Future for Traced<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let fiber = this.fiber.0;
        if this.wakes.as_ref().is_none_or(|wakes| !wakes.are_for(context.waker())) {
            this.wakes = Some(Wakes::new(fiber, context.waker()));
        }
        let Some(wakes) = &this.wakes else { return Poll::Pending };
        wakes.begin();
        let poll = Polled { outer: mount(fiber) };
        let polled = this.future.as_mut().poll(&mut Context::from_waker(wakes.waker()));
        if polled.is_pending() {
            poll.suspend(wakes);
        }
        polled
    }
}

/// A poll that ends the fiber if it is dropped: it has completed, or panicked.
struct Polled {
    outer: u64,
}

impl Polled {
    /// Records that the poll will be repeated. A fiber that was woken during it is ready, and has yielded.
    fn suspend(self, wakes: &Wakes) {
        let outer = ManuallyDrop::new(self).outer;
        if wakes.is_ready() {
            unmount(outer, SwitchReason::Yielded);
        } else {
            unmount(outer, SwitchReason::Blocked);
            wakes.block();
        }
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        unmount(self.outer, SwitchReason::Ended);
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        sordino_fiber::end(self.0);
    }
}
