//! The slow path of a hit: all that the fast path leaves out.

use crate::condition::{self, Decision, Hit};
use crate::emit::ThisThread;
use crate::{counters, program, system};
use sordino_event::Cpu;
use sordino_percpu::thread;
use sordino_ring::area::enable::{EnableMask, Sessions};
use sordino_ring::area::slots::{Rings, Slots};
use sordino_ring::number::{SlotIndex, Tag};
use sordino_ring::write::{self, PayloadSource, Staged};

/// Writes the record to every session of `mask`. `point` is the part of the tag that names the tracepoint.
///
/// # Safety
/// `staged` is laid out as the tracepoint's fields are declared, and readable; `mask` is its enable word or an
/// equivalent one.
#[cold]
#[inline(never)]
pub(crate) unsafe fn emit(point: Tag, mask: EnableMask, staged: Staged) {
    let Some(slots) = program::slots() else { return };
    let record = staged.record(tag().with(point));
    let first = slots.rings(SlotIndex::FIRST);
    let cpu = remember_cpu(first);
    let Sessions { all, conditional, .. } = mask.sessions(first.cpus);
    let mut left = all;
    while left != 0 {
        let slot = SlotIndex::first_of(left);
        left &= left - 1;
        let mut decision = Decision { record: true, trigger: false };
        if slot.is_in(conditional) {
            // SAFETY: the caller guarantees a readable payload of the tracepoint (this function's # Safety).
            decision = unsafe { decide(slots, slot, staged, record.tag) };
        }
        if decision.record {
            // SAFETY: the caller guarantees a readable payload, and a collector enabled the event in `slot` after it
            // had made its rings.
            unsafe { write::write_to(first.in_slot(slot), cpu, &record, ThisThread) };
        }
        if decision.trigger {
            slots.trigger(slot, point.point());
        }
    }
}

/// The part of its records' tags that names the thread. Requests the thread's id from the kernel once.
pub(crate) fn tag() -> Tag {
    let borrowed = thread::borrowed();
    if borrowed != 0 {
        return Tag(borrowed << 32);
    }
    let (known, _) = thread::tag_and_base();
    if known != 0 {
        return Tag(known);
    }
    let tag = Tag::of_thread(system::thread_id());
    thread::set_tag(tag.0);
    tag
}

/// Chooses the CPU whose rings get the record, and stores it for the thread's next hit; `None` for the shared ring.
/// `first` are the rings of the first slot.
pub(crate) fn remember_cpu(first: Rings) -> Option<Cpu> {
    let cpu = sordino_percpu::cpu();
    if cpu >= first.cpus || thread::borrowed() != 0 {
        return None;
    }
    thread::set_base(EnableMask::base(first.at(cpu) as usize));
    Some(Cpu(cpu))
}

/// Decides about a hit for the session in `slot`. If the hit is recorded and the session records counters, writes their
/// record; only hits with a condition or with counters take this function.
///
/// # Safety
/// `staged` is readable, and unchanged, during the call.
#[inline(never)]
unsafe fn decide(slots: Slots, slot: SlotIndex, staged: Staged, tag: Tag) -> Decision {
    // SAFETY: the caller guarantees that the payload stays readable during this call (this function's # Safety).
    let (conditions, payload) = (slots.conditions(slot), unsafe { staged.payload() });
    // A record that no ring has room for is counted as lost.
    let (Some(conditions), Some(payload)) = (conditions, payload) else {
        return Decision { record: true, trigger: false };
    };
    let decision = condition::decide(conditions, tag.point(), Hit { payload, tid: tag.tid() });
    if decision.record && slot.is_in(slots.enable_mask(tag.point()).sessions(slots.cpus()).counted) {
        emit_counters(slots, slot, tag);
    }
    decision
}

/// Writes the values of the thread's performance counters, if it has any, to the session in `slot`, before the record
/// with this tag.
#[cold]
#[inline(never)]
fn emit_counters(slots: Slots, slot: SlotIndex, tag: Tag) {
    let Some((point, payload)) = counters::payload(slots, slot, tag.point()) else { return };
    let staged = payload.staged();
    let record = staged.record(tag.thread().with(point));
    let first = slots.rings(SlotIndex::FIRST);
    // SAFETY: laid out as the fields of the tracepoint of counters are declared, and as long as its encoded length;
    // `payload` outlives the call.
    unsafe { write::write_to(first.in_slot(slot), remember_cpu(first), &record, ThisThread) };
}
