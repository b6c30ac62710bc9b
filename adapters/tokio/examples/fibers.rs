//! Tasks of tokio that move between two worker threads, each with a name.
//!
//! ```text
//! cargo build --release -p sordino-tokio --example fibers
//! sordino record -- target/release/examples/fibers
//! sordino events
//! ```
//!
//! Prints a line for each of their steps: the fiber's number, its name, the step and the thread.

use sordino::tracepoint;
use sordino_tokio::{current, threads};
use std::fmt::Write;
use std::io;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::sleep;

/// Takes part in a ring of tasks: gets a message from the one before, and passes it on to the next.
async fn work(name: String, steps: u32, mut from: mpsc::Receiver<u32>, to: mpsc::Sender<u32>) -> String {
    let mut log = String::new();
    // The hooks of tasks give no name.
    #[cfg(tokio_unstable)]
    sordino_fiber::rename(current(), &name);
    for step in 0..steps {
        // SAFETY: the call has no argument and no effect.
        let thread = unsafe { libc::gettid() };
        let _ = writeln!(log, "{}\t{name}\t{step}\t{thread}", current());
        tracepoint!(work:step, fiber: u64 = current(), step: u32 = step);
        match step % 3 {
            0 => yield_now().await,
            1 => sleep(Duration::from_millis(1)).await,
            _ => {
                let _ = to.send(step).await;
                from.recv().await;
            }
        }
    }
    log
}

fn main() -> io::Result<()> {
    let steps = std::env::args().nth(1).and_then(|steps| steps.parse().ok()).unwrap_or(12);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    #[cfg(tokio_unstable)]
    sordino_tokio::tasks(&mut builder);
    let runtime = threads(&mut builder).worker_threads(2).enable_time().build()?;
    let (mut senders, mut receivers): (Vec<_>, Vec<_>) = (0..6).map(|_| mpsc::channel(1)).unzip();
    senders.rotate_left(1);
    let tasks: Vec<_> = (0..6)
        .map(|index| {
            let name = format!("worker {index}");
            let (from, to) = (receivers.remove(0), senders.remove(0));
            let work = work(name.clone(), steps, from, to);
            #[cfg(not(tokio_unstable))]
            let work = sordino_tokio::traced(&name, work);
            runtime.spawn(work)
        })
        .collect();
    for task in tasks {
        let log = runtime.block_on(task).map_err(io::Error::other)?;
        io::Write::write_all(&mut io::stdout(), log.as_bytes())?;
    }
    Ok(())
}
