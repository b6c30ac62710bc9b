//! The slow path of a hit: all that the fast path leaves out.

use crate::condition::{self, Decision, Hit};
use crate::emit::{Clocks, PayloadSource, Staged, emit_to};
use crate::wait::Waiting;
use crate::{counters, program, system};
use sordino_percpu::thread;
use sordino_ring::enable::{EnableMask, Sessions};
use sordino_ring::layout::RingHeader;
use sordino_ring::number::{PointId, SlotIndex};
use sordino_ring::slots::Slots;
use sordino_ring::write::{self, Attempt, Full, IfFull, Record};

/// Writes the record to every session of `mask`. `event` is the tracepoint's number, shifted as in a record's tag.
///
/// # Safety
/// `staged` is laid out as the tracepoint's fields are declared, and readable; `mask` is its enable word or an
/// equivalent one.
#[cold]
#[inline(never)]
pub(crate) unsafe fn emit(event: u64, mask: EnableMask, staged: Staged) {
    let Some(slots) = program::slots() else { return };
    let record = staged.record(tag() | event);
    let cpu = remember_cpu(slots);
    let Sessions { all, conditional, .. } = mask.sessions(slots.cpus());
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
            unsafe { emit_in(slots, slot, cpu, &record, staged) };
        }
        if decision.trigger {
            slots.trigger(slot, PointId::of_tag(event));
        }
    }
}

/// Writes the record to the session in `slot`.
///
/// # Safety
/// `staged` is laid out as the tracepoint's fields are declared, and readable; `record` has it as payload; a collector
/// set `slot` up.
#[inline(always)]
unsafe fn emit_in(slots: Slots, slot: SlotIndex, cpu: Option<u32>, record: &Record, staged: Staged) {
    match cpu {
        // SAFETY: a collector enabled the event after it had made the slot's rings, which stay mapped; `cpu` is below
        // their number; the caller guarantees a readable payload.
        Some(cpu) => unsafe { emit_by_short_way(slots.rings(slot).at(cpu), record.tag, staged) },
        // SAFETY: the caller guarantees a slot that a collector set up, and a readable payload (this function's
        // # Safety).
        None => unsafe { emit_shared(slots, slot, record) },
    }
}

/// Writes a record after `attempt`, which failed on the fast path. Waits for room if [`Waiting`] does.
///
/// # Safety
/// The record's payload is laid out as the tracepoint's fields are declared, and readable; a collector set up the slot
/// of `attempt`.
#[cold]
#[inline(never)]
pub(crate) unsafe fn again(record: &Record, attempt: &Attempt) {
    let Some(slots) = program::slots() else { return };
    let Some(slot) = slots.slot_of(attempt.ring) else { return };
    // SAFETY: `slot` has the ring of `attempt`, which a collector made before it enabled the event, and which stays
    // mapped; the caller guarantees a readable payload.
    if let Err(full) = unsafe { write::write_fully(slots.rings(slot), record, Clocks, attempt, IfFull::Tell) }
    {
        // SAFETY: the caller guarantees a readable payload, and a collector set up `slot`, which has the ring of
        // `attempt`.
        unsafe { emit_waiting(slots, slot, record, attempt, full) };
    }
    remember_cpu(slots);
}

/// The thread's id, as its records carry it. Requests it from the kernel once.
pub(crate) fn tag() -> u64 {
    let borrowed = thread::borrowed();
    if borrowed != 0 {
        return borrowed << 32;
    }
    let (known, _) = thread::tag_and_base();
    if known != 0 {
        return known;
    }
    let tag = u64::from(system::thread_id()) << 32;
    thread::set_tag(tag);
    tag
}

/// Chooses the CPU whose rings get the record, and stores it for the thread's next hit; `None` for the shared ring.
fn remember_cpu(slots: Slots) -> Option<u32> {
    let cpu = sordino_percpu::cpu();
    if cpu >= slots.cpus() || thread::borrowed() != 0 {
        return None;
    }
    thread::set_base(EnableMask::base(slots.rings(SlotIndex::FIRST).at(cpu) as usize));
    Some(cpu)
}

/// Decides about a hit for the session in `slot`. If the hit is recorded and the session records counters, writes their
/// record: here, where only hits arrive for which something is looked up.
///
/// # Safety
/// `staged` is readable, and unchanged, during the call.
#[inline(never)]
unsafe fn decide(slots: Slots, slot: SlotIndex, staged: Staged, tag: u64) -> Decision {
    // SAFETY: the caller guarantees that the payload stays readable during this call (this function's # Safety).
    let (conditions, payload) = (slots.conditions(slot), unsafe { staged.payload() });
    // A record that no ring has room for is counted as lost.
    let (Some(conditions), Some(payload)) = (conditions, payload) else {
        return Decision { record: true, trigger: false };
    };
    let decision =
        condition::decide(conditions, PointId::of_tag(tag), Hit { payload, tid: (tag >> 32) as u32 });
    if decision.record && slot.is_in(slots.enable_mask(PointId::of_tag(tag)).sessions(slots.cpus()).counted) {
        emit_counters(slots, slot, tag);
    }
    decision
}

/// Writes the values of the thread's performance counters, if it has any, to the session in `slot`, before the record
/// with this tag.
#[cold]
#[inline(never)]
fn emit_counters(slots: Slots, slot: SlotIndex, tag: u64) {
    let Some((event, payload)) = counters::payload(slots, slot, PointId::of_tag(tag)) else { return };
    let staged = payload.staged();
    let record = staged.record(tag & !0xffff_ffff | event);
    // SAFETY: laid out as the fields of the tracepoint `event` are declared, and as long as its encoded length;
    // `payload` outlives the call.
    unsafe { emit_in(slots, slot, remember_cpu(slots), &record, staged) };
}

/// Calls [`emit_to`], as one copy: each copy is another restartable section, which a test has to stop and kill at every
/// instruction.
///
/// # Safety
/// The requirements of [`emit_to`] hold.
#[inline(never)]
unsafe fn emit_by_short_way(ring: *const RingHeader, tag: u64, staged: Staged) {
    // SAFETY: the caller guarantees a ring of an enabled slot, and a readable payload (this function's # Safety).
    unsafe { emit_to(ring, tag, staged) };
}

/// Writes the record to the shared ring of the session in `slot`.
///
/// # Safety
/// The record's payload is laid out as the tracepoint's fields are declared, and readable; a collector set `slot` up.
#[cold]
#[inline(never)]
unsafe fn emit_shared(slots: Slots, slot: SlotIndex, record: &Record) {
    // The child of a vfork does not wait for room: its parent would wait, too.
    let if_full = if thread::borrowed() == 0 { IfFull::Tell } else { IfFull::Lose };
    // SAFETY: the caller guarantees a slot whose rings a collector made, which stay mapped, and a readable payload.
    if let Err(full) = unsafe { write::write_shared(slots.rings(slot), record, Clocks, if_full) } {
        // SAFETY: the caller guarantees a slot that a collector set up, and a readable payload (this function's
        // # Safety).
        unsafe { emit_waiting(slots, slot, record, &Attempt::NONE, full) };
    }
}

/// Waits for room if [`Waiting`] does, and writes the record or loses it.
///
/// # Safety
/// The record's payload is laid out as the tracepoint's fields are declared, and readable; a collector set `slot` up.
#[cold]
#[inline(never)]
unsafe fn emit_waiting(slots: Slots, slot: SlotIndex, record: &Record, attempt: &Attempt, full: Full) {
    let (mut waiting, mut written) = (Waiting::default(), Err(full));
    while let Err(full) = written {
        let if_full = if waiting.sleep(slots, slot, full) { IfFull::Tell } else { IfFull::Lose };
        // SAFETY: the caller guarantees a slot whose rings a collector made, which stay mapped, and a readable payload.
        written = unsafe { write::write_fully(slots.rings(slot), record, Clocks, attempt, if_full) };
    }
}
