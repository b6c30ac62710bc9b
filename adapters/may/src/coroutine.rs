//! Coroutines that are fibers, and the calls in which they leave their threads.

use crate::thread::{arrive, leave};
use may::coroutine_local;
use sordino_fiber::SwitchReason;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of the first fiber, above those of other adapters in the same process.
const FIRST: u64 = 1 << 40;

/// Number of the next fiber.
static NEXT: AtomicU64 = AtomicU64::new(FIRST);

coroutine_local!(
    /* The fiber that the coroutine is; 0: none. */
    static CURRENT: Cell<u64> = Cell::new(0)
);

/// A fiber, which ends when its function is dropped.
#[derive(Debug)]
struct CoroutineFiber(u64);

/// Makes a fiber of a coroutine's function, which `go!` or a `Builder` of may's starts. The fiber lives until the
/// function has returned or is dropped.
pub fn traced<T, F: FnOnce() -> T>(name: &str, work: F) -> impl FnOnce() -> T + use<T, F> {
    let fiber = CoroutineFiber(NEXT.fetch_add(1, Ordering::Relaxed));
    sordino_fiber::new(fiber.0, name);
    move || {
        let running = RunningFiber(fiber);
        CURRENT.with(|current| current.set(running.0.0));
        arrive(running.0.0);
        work()
    }
}

/// Returns the number of the fiber that calls it, or 0.
#[inline(never)]
pub fn current() -> u64 {
    CURRENT.with(Cell::get)
}

/// Lets other coroutines run: `may::coroutine::yield_now` as a switch.
pub fn yield_now() {
    let _away = Away::new(SwitchReason::Yielded, "");
    may::coroutine::yield_now();
}

/// Sleeps: `may::coroutine::sleep` as a switch.
pub fn sleep(time: Duration) {
    let _away = Away::new(SwitchReason::Blocked, "sleep");
    may::coroutine::sleep(time);
}

/// Calls a function of may's that blocks the coroutine, on an object called `on`: receives, locks, joins, parks, reads.
///
/// The coroutine counts as off its thread for the whole call, also where the call does not block.
pub fn blocking<T>(on: &str, call: impl FnOnce() -> T) -> T {
    let _away = Away::new(SwitchReason::Blocked, on);
    call()
}

/// A call in which the fiber is off its thread. The fiber is back when it is dropped, also if the call panics, as it
/// does in a coroutine that is cancelled.
struct Away(u64);

impl Away {
    fn new(why: SwitchReason, on: &str) -> Self {
        let fiber = current();
        if fiber != 0 {
            leave(fiber, why, on);
        }
        Self(fiber)
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        if self.0 != 0 {
            arrive(self.0);
        }
    }
}

/// A fiber whose function runs, until the function returns or panics.
struct RunningFiber(CoroutineFiber);

impl Drop for RunningFiber {
    fn drop(&mut self) {
        CURRENT.with(|current| current.set(0));
        leave(self.0.0, SwitchReason::Ended, "");
    }
}

impl Drop for CoroutineFiber {
    fn drop(&mut self) {
        sordino_fiber::end(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use may::go;

    #[test]
    fn a_coroutine_keeps_its_number_and_a_thread_has_none() {
        let number = || {
            let before = current();
            yield_now();
            sleep(Duration::from_millis(1));
            assert_eq!(blocking("nothing", current), before);
            before
        };
        let both = [go!(traced("one", number)), go!(traced("two", number))];
        let [one, two] = both.map(|coroutine| coroutine.join().unwrap());
        assert!(one >= FIRST && two >= FIRST && one != two, "{one}, {two}");
        assert_eq!((number(), go!(number).join().unwrap()), (0, 0));
    }
}
