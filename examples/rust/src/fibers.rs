//! A scheduler of futures in 60 lines, whose recording says which of them its thread runs.
//!
//! ```text
//! cargo build --release -p sordino-example
//! sordino record -- target/release/fibers
//! sordino events
//! ```

use sordino::tracepoint;
use sordino_fiber::SwitchReason;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A future that is scheduled.
struct Fiber {
    number: u64,
    future: Pin<Box<dyn Future<Output = ()>>>,
    is_blocked: bool,
}

thread_local! {
    /// Object on which the running fiber blocks; none if it yields.
    static ON: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Leaves the fiber once.
async fn leave(on: Option<&'static str>) {
    let mut has_left = false;
    poll_fn(move |_| {
        if std::mem::replace(&mut has_left, true) {
            return Poll::Ready(());
        }
        ON.set(on);
        Poll::Pending
    })
    .await;
}

async fn work(number: u64, steps: u32) {
    for step in 0..steps {
        tracepoint!(work:step, fiber: u64 = number, step: u32 = step);
        leave((step % 2 == 1).then_some("queue")).await;
    }
}

impl Fiber {
    fn start(number: u64, name: &str, steps: u32) -> Self {
        sordino_fiber::new(number, "");
        sordino_fiber::rename(number, name);
        Self { number, future: Box::pin(work(number, steps)), is_blocked: false }
    }

    /// Runs the fiber until it leaves; returns true if it has ended.
    fn run(&mut self) -> bool {
        if self.is_blocked {
            sordino_fiber::wake(self.number, 0);
        }
        sordino_fiber::switch(0, self.number, SwitchReason::Resumed, "");
        let polled = self.future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let (why, on) = match (polled, ON.take()) {
            (Poll::Ready(()), _) => (SwitchReason::Ended, ""),
            (Poll::Pending, None) => (SwitchReason::Yielded, ""),
            (Poll::Pending, Some(on)) => (SwitchReason::Blocked, on),
        };
        sordino_fiber::switch(self.number, 0, why, on);
        self.is_blocked = why == SwitchReason::Blocked;
        if why == SwitchReason::Ended {
            sordino_fiber::end(self.number);
        }
        why == SwitchReason::Ended
    }
}

fn main() {
    let steps = std::env::args().nth(1).and_then(|steps| steps.parse().ok()).unwrap_or(5);
    sordino_fiber::thread_enter("round robin");
    let names = (1..).zip(["reader", "filter", "writer"]);
    let mut fibers: Vec<Fiber> = names.map(|(number, name)| Fiber::start(number, name, steps)).collect();
    while !fibers.is_empty() {
        fibers.retain_mut(|fiber| !fiber.run());
    }
    sordino_fiber::thread_leave();
}
