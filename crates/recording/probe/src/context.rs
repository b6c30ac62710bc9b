//! Annotations of a thread, for its later events.

use crate::{program, slow_path, system};
use sordino_clock::{Clock, nanoseconds};
use sordino_percpu::thread;
use sordino_ring::area::annotations::Annotation;
use sordino_ring::layout::{ANNOTATION_NAME, ANNOTATION_TEXT};

/// The most bytes of a name and a text together.
pub const ANNOTATION_SIZE: usize = ANNOTATION_NAME + ANNOTATION_TEXT;

/// Stores an annotation where recorders that come later find it. Returns the name and the text, cut to the room that
/// there is.
///
/// Real-time: see [`context!`](crate::context!).
#[inline(never)]
pub fn annotate<'a>(name: &'a str, text: &'a str) -> (&'a str, &'a str) {
    let mut value = Annotation { tid: 0, since: 0, name, text }.cut();
    if let Some(slots) = program::slots() {
        value.tid = slow_path::tag().tid();
        value.since = nanoseconds(Clock::Boottime);
        if !slots.annotations().set(&value, is_gone) {
            slots.refuse_annotation();
        }
    }
    (value.name, value.text)
}

/// Returns true if a thread of this process has ended. Always false in the child of a vfork, which is another process
/// and cannot test it.
fn is_gone(tid: u32) -> bool {
    thread::borrowed() == 0 && !system::is_thread(tid)
}
