//! Test bench of the end-to-end tests: real programs, a real recorder, independent readers.
//!
//! | module | content |
//! |---|---|
//! | [`scene`] | one test: its directory, its programs and recorders, the machine's state before it |
//! | [`session`] | a session of `sordino start` that ends with its test |
//! | [`install`] | sordino, built and installed by `make install`, and programs compiled against it |
//! | [`running`] | a process that is killed when it takes too long |
//! | [`boot`] | a machine that boots with systemd and sordino's units |
//! | [`sandbox`] | a machine of its own for one attack |
//! | [`disk`] | a small file system in memory, which is soon full |
//! | [`group`] | a control group with a limit |
//! | [`recording`] | a finished recording, read by sordino's reader and by babeltrace2 |
//! | [`terminal`] | a pseudo-terminal, and the text that is written to it |
//! | [`active`] | the time for which fibers are active, replayed from a listing |
//! | [`listing`] | a trace as `sordino events` and babeltrace2 list it |
//! | [`browser`] | a headless Chromium |
//! | [`perfetto`] | Perfetto's `trace_processor` |
//! | [`lttng`] | LTTng's daemon |
//! | [`assembly`] | a function's compiled instructions |
//! | [`machine`] | state of the machine that tests could leave changed |
//! | [`exchange`] | a collector that exchanges sub-buffers as fast as it can |
//! | [`stepper`] | a debugger that counts the instructions of a hit |
//! | [`documents`] | README and the pages of docs, run as they stand |
//! | [`order`] | a recording as a machine of the other byte order writes it |
//! | [`storm`] | a program under all loads at once |
//! | [`verified`] | its records, which verify themselves |
#![forbid(unsafe_code)]

pub mod active;
pub mod assembly;
pub mod boot;
pub mod browser;
pub mod disk;
pub mod documents;
pub mod exchange;
pub mod group;
pub mod install;
pub mod listing;
pub mod lttng;
pub mod machine;
pub mod order;
pub mod perfetto;
pub mod recording;
pub mod running;
pub mod sandbox;
pub mod scene;
pub mod session;
pub mod stepper;
pub mod storm;
pub mod terminal;
pub mod verified;

pub use install::{COMPILERS, NativeCompiler, installed};
pub use recording::{CompletedRecording, RecordedEvent};
pub use running::{EndedProcess, RunningProcess};
pub use sandbox::Sandbox;
pub use scene::{DAEMON, NOBODY, Scene};

use std::time::{Duration, Instant};

/// Nothing here takes as long as this unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the last CPU that this test may use: measured and disturbed programs run on it, load and recorders on the
/// others.
pub fn last_cpu() -> String {
    sordino_sched::affinity().unwrap().as_slice().last().unwrap().to_string()
}

/// Waits until `done` answers `true`.
///
/// # Panics
/// After [`PATIENCE`], naming `what`.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
