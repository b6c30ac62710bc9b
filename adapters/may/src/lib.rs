//! Events about the coroutines of may, for sordino: which coroutine does each worker thread run?
//!
//! may has no hook for its switches. [`traced`] wraps a coroutine's function and makes it a fiber with a name;
//! [`yield_now`], [`sleep`] and [`blocking`] wrap the calls in which a coroutine leaves its thread.
//!
//! ```
//! use may::sync::mpsc;
//!
//! let (sender, receiver) = mpsc::channel();
//! let adder = may::go!(sordino_may::traced("adder", move || {
//!     let number: u32 = sordino_may::blocking("queue", || receiver.recv()).expect("a number");
//!     sordino_may::yield_now();
//!     number + 1
//! }));
//! sender.send(2)?;
//! assert_eq!(adder.join().expect("a sum"), 3);
//! # Ok::<(), std::sync::mpsc::SendError<u32>>(())
//! ```
//!
//! `docs/fibers.md` describes the events, and the limits of what wrappers know.
//!
//! # Real-time
//! Each wrapped call hits two tracepoints. A coroutine's first one allocates its local storage.

mod coroutine;
mod thread;

pub use coroutine::{blocking, current, sleep, traced, yield_now};
