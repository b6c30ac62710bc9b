//! Futures that are fibers.

use crate::thread::{mount, unmount};
use crate::waker::FiberWaker;
use sordino_fiber::SwitchReason;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// Number of the next fiber.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A future whose polls are recorded.
#[derive(Debug)]
pub struct TracedFuture<F> {
    /// The future, in memory of its own, so that it need not be pinned here.
    future: Pin<Box<F>>,
    fiber: FutureFiber,
    waker: Option<FiberWaker>,
}

/// A fiber, which ends when it is dropped.
#[derive(Debug)]
struct FutureFiber(u64);

/// Makes a fiber of a future. The fiber lives until the future has completed or is dropped.
pub fn traced<F: Future>(name: &str, future: F) -> TracedFuture<F> {
    let fiber = NEXT.fetch_add(1, Ordering::Relaxed);
    sordino_fiber::new(fiber, name);
    TracedFuture { future: Box::pin(future), fiber: FutureFiber(fiber), waker: None }
}

impl<F: Future> Future for TracedFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let fiber = this.fiber.0;
        if this.waker.as_ref().is_none_or(|waker| !waker.are_for(context.waker())) {
            this.waker = Some(FiberWaker::new(fiber, context.waker()));
        }
        let Some(waker) = &this.waker else { return Poll::Pending };
        waker.begin();
        let poll = Polled { outer: mount(fiber) };
        let polled = this.future.as_mut().poll(&mut Context::from_waker(waker.waker()));
        if polled.is_pending() {
            poll.suspend(waker);
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
    fn suspend(self, waker: &FiberWaker) {
        let outer = ManuallyDrop::new(self).outer;
        if waker.is_ready() {
            unmount(outer, SwitchReason::Yielded);
        } else {
            unmount(outer, SwitchReason::Blocked);
            waker.block();
        }
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        unmount(self.outer, SwitchReason::Ended);
    }
}

impl Drop for FutureFiber {
    fn drop(&mut self) {
        sordino_fiber::end(self.0);
    }
}
