//! What a thread says of itself, for its events to come.

use crate::{long, program, system};
use sordino_clock::{Clock, nanoseconds};
use sordino_percpu::thread;
use sordino_ring::layout::{VALUE_NAME, VALUE_TEXT};
use sordino_ring::value::Value;

/// Bytes of a name and a text together, at most.
pub const SAID: usize = VALUE_NAME + VALUE_TEXT;

/// Puts it where recorders find it that come later; what it says, cut to what there is room for.
///
/// Real-time: see [`context!`](crate::context!).
#[inline(never)]
pub fn say<'a>(name: &'a str, text: &'a str) -> (&'a str, &'a str) {
    let mut value = Value { tid: 0, since: 0, name, text }.cut();
    if let Some(slots) = program::slots() {
        value.tid = (long::tag() >> 32) as u32;
        value.since = nanoseconds(Clock::Boottime);
        if !slots.values().set(&value, is_gone) {
            slots.refuse_value();
        }
    }
    (value.name, value.text)
}

/// Whether a thread of this process has ended. The child of a vfork is another process, and cannot tell.
fn is_gone(tid: u32) -> bool {
    thread::borrowed() == 0 && !system::is_thread(tid)
}
