//! A loop with a period of 1 ms that records how late it woke.

use sordino::tracepoint;
use std::thread::sleep;
use std::time::{Duration, Instant};

fn main() {
    let begin = Instant::now();
    for cycle in 0..5000 {
        let due = begin + Duration::from_millis(1) * (cycle + 1);
        sleep(due.saturating_duration_since(Instant::now()));
        let late = due.elapsed().as_nanos() as i64;
        tracepoint!(motor:period, cycle: u32 = cycle, late: i64 = late, state: &str = "running");
    }
}
