//! Time for which fibers are active, replayed from a listing.

use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// Returns a JSON value that is an integer.
///
/// # Panics
/// If it is none.
#[track_caller]
pub fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The time in which each fiber was on a thread that had a CPU, by the fields of the two kinds of switches alone.
#[derive(Debug, Default)]
pub struct Active {
    running: HashMap<i64, i64>,
    /// The fiber that each thread has, 0 for none.
    pub mounted: HashMap<i64, i64>,
    /// The time of each fiber in nanoseconds.
    pub time: BTreeMap<i64, i64>,
    /// The threads and CPUs on which each fiber was, one after another.
    pub places: BTreeMap<i64, Vec<(i64, i64)>>,
    now: i64,
}

impl Active {
    /// Takes the next event of a listing as JSON.
    pub fn take(&mut self, event: &Value) {
        let time = number(&event["time_ns"]);
        for (cpu, tid) in &self.running {
            if let Some(fiber) = self.mounted.get(tid).filter(|fiber| **fiber != 0) {
                *self.time.entry(*fiber).or_default() += time - self.now;
                let places = self.places.entry(*fiber).or_default();
                if places.last() != Some(&(*tid, *cpu)) && time > self.now {
                    places.push((*tid, *cpu));
                }
            }
        }
        self.now = time;
        let (fields, cpu) = (&event["fields"], &event["cpu"]);
        match event["name"].as_str() {
            Some("sched_switch") => _ = self.running.insert(number(cpu), number(&fields["next_tid"])),
            Some("sordino_fiber:switch") => {
                self.mounted.insert(number(&event["tid"]), number(&fields["to"]));
            }
            _ => {}
        }
    }
}
