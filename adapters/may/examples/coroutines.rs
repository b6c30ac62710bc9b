//! Coroutines of may that move between two worker threads, each with a name.
//!
//! ```text
//! cargo build --release -p sordino-may --example coroutines
//! sordino record -- target/release/examples/coroutines
//! sordino events
//! ```
//!
//! Prints a line for each of their steps: the fiber's number, its name, the step and the thread.

use may::sync::mpsc;
use sordino::tracepoint;
use sordino_may::{blocking, current, sleep, traced, yield_now};
use std::fmt::Write;
use std::io;
use std::time::Duration;

/// Takes part in a ring of coroutines: gets a message from the one before, and passes it on to the next.
fn work(name: &str, steps: u32, from: &mpsc::Receiver<u32>, to: &mpsc::Sender<u32>) -> String {
    let mut log = String::new();
    for step in 0..steps {
        note(name, step, &mut log);
        match step % 3 {
            0 => yield_now(),
            1 => sleep(Duration::from_millis(1)),
            _ => {
                let _ = to.send(step);
                let _ = blocking("queue", || from.recv());
            }
        }
    }
    log
}

/// A hit looks for its thread, which changes behind each of may's calls: it is not inlined among them.
#[inline(never)]
fn note(name: &str, step: u32, log: &mut String) {
    // SAFETY: the call has no argument and no effect.
    let thread = unsafe { libc::gettid() };
    let _ = writeln!(log, "{}\t{name}\t{step}\t{thread}", current());
    tracepoint!(work:step, fiber: u64 = current(), step: u32 = step);
}

fn main() -> io::Result<()> {
    let steps = std::env::args().nth(1).and_then(|steps| steps.parse().ok()).unwrap_or(12);
    may::config().set_workers(2);
    let (mut senders, mut receivers): (Vec<_>, Vec<_>) = (0..6).map(|_| mpsc::channel()).unzip();
    senders.rotate_left(1);
    let coroutines: Vec<_> = (0..6)
        .map(|index| {
            let name = format!("worker {index}");
            let (from, to) = (receivers.remove(0), senders.remove(0));
            may::go!(traced(&name.clone(), move || work(&name, steps, &from, &to)))
        })
        .collect();
    for coroutine in coroutines {
        let log = coroutine.join().map_err(|_| io::Error::other("a coroutine panicked"))?;
        io::Write::write_all(&mut io::stdout(), log.as_bytes())?;
    }
    Ok(())
}
