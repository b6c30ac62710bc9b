//! The path of a hit of an enabled tracepoint.

use crate::point::Tracepoint;
use crate::wait::Waiting;
use crate::{program, slow_path};
use sordino_event::Ticks;
use sordino_percpu::thread;
use sordino_ring::area::enable::EnableMask;
use sordino_ring::area::slots::Rings;
use sordino_ring::layout::RingHeader;
use sordino_ring::number::{SlotIndex, Tag};
use sordino_ring::write::{self, Full, PayloadSource, ReadClock, TracedThread};

/// The calling thread, as the ring's writer.
#[derive(Clone, Copy)]
pub(crate) struct ThisThread;

impl ReadClock for ThisThread {
    #[inline(always)]
    fn cycles(self) -> Ticks {
        Ticks(sordino_clock::cycles())
    }

    fn cycles_in_order(self) -> Ticks {
        Ticks(sordino_clock::cycles_in_order())
    }

    fn monotonic(self) -> Ticks {
        Ticks(sordino_clock::nanoseconds(sordino_clock::Clock::Monotonic))
    }
}

impl TracedThread for ThisThread {
    #[inline(always)]
    fn first_rings(self) -> Option<Rings> {
        program::slots().map(|slots| slots.rings(SlotIndex::FIRST))
    }

    #[inline(always)]
    fn remember_cpu(self, first: Rings) {
        slow_path::remember_cpu(first);
    }

    fn wait(self, rings: Rings) -> impl FnMut(Full) -> bool {
        let mut waiting = Waiting::default();
        move |full| waiting.sleep(rings, full)
    }
}

/// Writes one record to every session of `enabled`.
///
/// Real-time: see the crate's documentation.
///
/// # Safety
/// `content` is laid out as the tracepoint's fields are declared and, if it is [`Staged`](write::Staged), readable.
/// `enabled` is the enable word that [`Tracepoint::enabled`] returned.
#[inline(always)]
pub unsafe fn emit<C: PayloadSource>(point: &Tracepoint, enabled: EnableMask, content: C) {
    if !enabled.is_one() {
        // SAFETY: the caller guarantees a matching, readable payload and an enable word of this tracepoint (this
        // function's # Safety).
        return unsafe { emit_if(point, enabled, content) };
    }
    // A thread keeps the address of slot 0's ring of the CPU that it wrote on last. That guess saves reading the CPU's
    // number, which the restartable section compares anyway. 0 before its first record, and in the child of a vfork.
    let (tag, base) = thread::tag_and_base();
    if !program::has_area() {
        return;
    }
    if base == 0 {
        // SAFETY: the caller guarantees a matching, readable payload and an enable word of this tracepoint (this
        // function's # Safety).
        return unsafe { emit_fully(point.tag(), enabled, content) };
    }
    let ring = enabled.ring(base) as *const RingHeader;
    // SAFETY: the area is never unmapped, and a collector stored the enable word after it had made the rings that it
    // leads to; the caller guarantees a matching, readable payload.
    unsafe { write::write(ring, Tag(tag).with(point.tag()), content, ThisThread) };
}

/// Calls [`emit`], as a function that the macros call.
///
/// # Safety
/// The requirements of [`emit`] hold.
#[inline(never)]
pub(crate) unsafe fn emit_outlined<C: PayloadSource>(point: &Tracepoint, enabled: EnableMask, content: C) {
    // SAFETY: the caller guarantees a matching, readable payload and an enable word of this tracepoint (this function's
    // # Safety).
    unsafe { emit(point, enabled, content) }
}

/// Emits an event for several sessions, for one with a condition, or while it is pending. A hit that passed its inline
/// filter is recorded without another evaluation of the condition.
///
/// # Safety
/// The requirements of [`emit`] hold.
#[cold]
#[inline(never)]
unsafe fn emit_if<C: PayloadSource>(point: &Tracepoint, mask: EnableMask, content: C) {
    let mask = if mask.has_inline_filter() {
        let Some(slots) = program::slots() else { return };
        mask.always(slots.cpus())
    } else if mask.is_pending() {
        // SAFETY: the caller guarantees a matching, readable payload (this function's # Safety).
        return unsafe { emit_pending(point, content) };
    } else {
        mask
    };
    // SAFETY: the caller guarantees a matching, readable payload, and an enable word, of which `mask` has the sessions.
    unsafe { emit_fully(point.tag(), mask, content) };
}

/// Counts the hit of a pending tracepoint, and writes the record to the sessions that have answered.
///
/// Real-time: that of [`Pending::count`](sordino_ring::area::pending::Pending::count), then that of several sessions.
///
/// # Safety
/// The requirements of [`emit`] hold.
#[cold]
#[inline(never)]
unsafe fn emit_pending<C: PayloadSource>(point: &Tracepoint, content: C) {
    let Some(slots) = program::slots() else { return };
    let mask = slots.pending().count(point.id(), || ThisThread.monotonic().0);
    if !mask.is_empty() {
        // SAFETY: the caller guarantees a matching, readable payload; `mask` are the sessions that have answered.
        unsafe { emit_fully(point.tag(), mask, content) };
    }
}

/// Emits on the slow path: a thread's first record, records for several sessions, those with other conditions, those of
/// a vfork's child.
///
/// # Safety
/// The requirements of [`emit`] hold; `mask` is the enable word or an equivalent one.
#[cold]
#[inline(never)]
unsafe fn emit_fully<C: PayloadSource>(point: Tag, mask: EnableMask, content: C) {
    // SAFETY: the caller guarantees matching content and enabled sessions; `in_memory` passes a payload that is
    // readable during the call.
    content.in_memory(|staged| unsafe { slow_path::emit(point, mask, staged) });
}
