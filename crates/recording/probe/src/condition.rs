//! The decision about a hit by a session's condition.

use sordino_filter_vm::{self as machine, Sole, ValueInterval};
use sordino_ring::area::condition::When;
use sordino_ring::area::slots::{Copied, Table};
use sordino_ring::number::PointId;
use std::mem::MaybeUninit;
use std::ops::Range;

/// One hit, as input of conditions.
#[derive(Clone, Copy)]
pub(crate) struct Hit<'a> {
    pub(crate) payload: &'a [u8],
    pub(crate) tid: u32,
}

/// The decision of a session about a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// True if the hit is recorded.
    pub(crate) record: bool,
    /// True if the hit requests a snapshot.
    pub(crate) trigger: bool,
}

/// Decides about a hit of tracepoint `id` for the session with these conditions.
///
/// Real-time: bounded by the code's and the payload's length.
#[inline(always)]
pub(crate) fn decide(conditions: Table, id: PointId, hit: Hit<'_>) -> Decision {
    let range = conditions.code_range(id);
    let evaluate = |when| match when {
        When::Always => true,
        When::Never => false,
        When::If(code) => holds(conditions, code, hit),
    };
    Decision { record: evaluate(range.filter()), trigger: evaluate(range.trigger()) }
}

/// The interval, if the code tests only that a field lies in one.
#[inline(always)]
fn sole(conditions: Table, code: Range<usize>) -> Option<ValueInterval> {
    if code.len() != size_of::<Sole>() {
        return None;
    }
    // SAFETY: `code` is the range that the tracepoint's `Place` returned, and as long as a `Sole`; any bytes are one.
    unsafe { conditions.read::<Sole>(code) }.interval()
}

/// Evaluates code, in a function of its own, so that the code's copy takes stack only where there is code.
#[inline(never)]
fn holds(conditions: Table, code: Range<usize>, hit: Hit<'_>) -> bool {
    if let Some(interval) = sole(conditions, code.clone()) {
        return interval.holds(hit.payload);
    }
    let mut copied: Copied = [MaybeUninit::uninit(); _];
    // SAFETY: `code` is the range that the tracepoint's `Place` returned.
    let code = unsafe { conditions.copy(code, &mut copied) };
    machine::holds(code, hit.payload, hit.tid)
}
