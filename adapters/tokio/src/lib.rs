//! Events about the tasks of tokio, for sordino: which task does each worker thread run?
//!
//! [`traced`] wraps a future, which becomes a fiber with a name; each poll is a switch to it and back. [`threads`] sets
//! the hooks of a runtime's threads.
//!
//! | module | content |
//! |---|---|
//! | `future`, `waker` | futures that are fibers, and wakers that record who woke one |
//! | `thread` | the threads that schedule fibers, and the fiber that each runs |
//! | `hooks` | the hooks that make every task of a runtime a fiber |
//!
//! ```
//! let mut builder = tokio::runtime::Builder::new_multi_thread();
//! let runtime = sordino_tokio::threads(&mut builder).worker_threads(2).build()?;
//! let sum = runtime.block_on(async {
//!     let task = tokio::spawn(sordino_tokio::traced("adder", async { 1 + 2 }));
//!     task.await.expect("a sum")
//! });
//! assert_eq!(sum, 3);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! With `--cfg tokio_unstable`, `tasks` sets hooks that make every task of a runtime a fiber, without a wrapper and
//! without a name. `docs/fibers.md` describes the events.
//!
//! # Real-time
//! Each poll hits two tracepoints, each wake one. A wrapped future allocates when it is polled for the first time, and
//! when it gets another waker.

mod future;
#[cfg(tokio_unstable)]
mod hooks;
mod thread;
mod waker;

pub use future::{TracedFuture, traced};
#[cfg(tokio_unstable)]
pub use hooks::{number, tasks};
pub use thread::{current, threads};
