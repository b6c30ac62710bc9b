//! What a session's condition says of a hit.

use sordino_event::condition::{self, Interval, Sole};
use sordino_ring::condition::When;
use sordino_ring::slots::{Copied, Table};
use std::mem::MaybeUninit;
use std::ops::Range;

/// One hit, as conditions see it.
#[derive(Clone, Copy)]
pub(crate) struct Hit<'a> {
    pub(crate) payload: &'a [u8],
    pub(crate) tid: u32,
}

/// What a session does with a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// It is recorded.
    pub(crate) record: bool,
    /// It asks for a snapshot.
    pub(crate) trigger: bool,
}

/// What the session with these conditions does with a hit of tracepoint `id`.
///
/// Real-time: bounded by the code's and the payload's length.
#[inline(always)]
pub(crate) fn decide(conditions: Table, id: u16, hit: Hit<'_>) -> Decision {
    let place = conditions.place(id);
    let says = |when| match when {
        When::Always => true,
        When::Never => false,
        When::If(code) => holds(conditions, code, hit),
    };
    Decision { record: says(place.filter()), trigger: says(place.trigger()) }
}

/// The interval, if all of that code is the test of one.
#[inline(always)]
fn sole(conditions: Table, code: Range<usize>) -> Option<Interval> {
    if code.len() != size_of::<Sole>() {
        return None;
    }
    // SAFETY: its place said so, and it is as long; any bytes are a `Sole`.
    unsafe { conditions.read::<Sole>(code) }.interval()
}

/// A function of its own, so that the code's copy takes no stack but where there is code.
#[inline(never)]
fn holds(conditions: Table, code: Range<usize>, hit: Hit<'_>) -> bool {
    if let Some(interval) = sole(conditions, code.clone()) {
        return interval.holds(hit.payload);
    }
    let mut copied: Copied = [MaybeUninit::uninit(); _];
    // SAFETY: its place said so.
    let code = unsafe { conditions.copy(code, &mut copied) };
    condition::holds(code, hit.payload, hit.tid)
}
