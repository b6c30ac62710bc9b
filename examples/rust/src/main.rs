//! A pipeline of two threads with a tracepoint in each.
//!
//! ```text
//! cargo build --release -p sordino-example
//! sordino record -- target/release/pipeline
//! sordino events
//! ```

use sordino::{Hex, enumeration, mark, tracepoint};
use std::sync::mpsc::sync_channel;
use std::thread;

enumeration! {
    /// Decision of the filter on an item.
    enum Verdict: u8 {
        Keep = 0,
        Drop = 1,
    }
}

fn main() {
    let items: u32 = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1000);
    let (sender, receiver) = sync_channel(16);
    mark!("pipeline of {items} items");
    let filter = thread::spawn(move || {
        for item in receiver {
            let verdict = if item % 3 == 0 { Verdict::Drop } else { Verdict::Keep };
            tracepoint!(pipeline:filtered, item: u32 = item, verdict: Verdict = verdict);
        }
    });
    for item in 0..items {
        let checksum = u64::from(item).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        tracepoint!(level: Debug, pipeline:made, item: u32 = item, checksum: Hex<u64> = Hex(checksum));
        if sender.send(item).is_err() {
            break;
        }
    }
    drop(sender);
    filter.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}
