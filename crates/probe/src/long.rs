//! The long way of a hit: whatever the short way leaves out.

use crate::condition::{self, Decision, Hit};
use crate::emit::{Clocks, Content, Staged, emit_to};
use crate::wait::Waiting;
use crate::{counters, program, system};
use sordino_percpu::thread;
use sordino_ring::layout::RingHeader;
use sordino_ring::slots::Slots;
use sordino_ring::want::{Sessions, Wants};
use sordino_ring::write::{self, Attempt, Full, IfFull, Record};

/// Writes the record to every session of `wants`. `event` is the tracepoint's number in its place.
///
/// # Safety
/// As for [`emit`](crate::emit::emit).
#[cold]
#[inline(never)]
pub(crate) unsafe fn emit(event: u64, wants: Wants, staged: Staged) {
    let Some(slots) = program::slots() else { return };
    let record = staged.record(tag() | event);
    let cpu = remember_cpu(slots);
    let Sessions { all, conditional, .. } = wants.sessions(slots.cpus());
    let mut left = all;
    while left != 0 {
        let slot = left.trailing_zeros();
        left &= left - 1;
        let mut decision = Decision { record: true, trigger: false };
        if conditional >> slot & 1 != 0 {
            // SAFETY: the caller's obligation.
            decision = unsafe { decide(slots, slot, staged, record.tag) };
        }
        if decision.record {
            // SAFETY: the caller's obligations are the same.
            unsafe { emit_in(slots, slot, cpu, &record, staged) };
        }
        if decision.trigger {
            slots.trigger(slot, id_of(event));
        }
    }
}

/// Writes the record to the session in `slot`.
///
/// # Safety
/// As for [`emit`](crate::emit::emit).
#[inline(always)]
unsafe fn emit_in(slots: Slots, slot: u32, cpu: Option<u32>, record: &Record, staged: Staged) {
    match cpu {
        // SAFETY: as in `emit::emit`, which the caller's caller is.
        Some(cpu) => unsafe { emit_by_short_way(slots.rings(slot).at(cpu), record.tag, staged) },
        // SAFETY: the caller's obligations are the same.
        None => unsafe { emit_shared(slots, slot, record) },
    }
}

/// Writes a record for which the short way came to nothing, in `attempt`. Waits for room where [`Waiting`] does.
///
/// # Safety
/// As for [`emit`](crate::emit::emit).
#[cold]
#[inline(never)]
pub(crate) unsafe fn again(record: &Record, attempt: &Attempt) {
    let Some(slots) = program::slots() else { return };
    let Some(slot) = slots.slot_of(attempt.ring) else { return };
    // SAFETY: as in `emit::emit`.
    if let Err(full) = unsafe { write::write_fully(slots.rings(slot), record, Clocks, attempt, IfFull::Tell) }
    {
        // SAFETY: the caller's obligations are the same.
        unsafe { emit_waiting(slots, slot, record, attempt, full) };
    }
    remember_cpu(slots);
}

/// The thread's id, as its records carry it. Asks for it once.
pub(crate) fn tag() -> u64 {
    let borrowed = thread::borrowed();
    if borrowed != 0 {
        return borrowed << 32;
    }
    let (known, _) = thread::tag_and_place();
    if known != 0 {
        return known;
    }
    let tag = u64::from(system::thread_id()) << 32;
    thread::set_tag(tag);
    tag
}

/// Which CPU's rings a record goes to, and the thread's next hit tries first; `None` if it is the shared ring.
fn remember_cpu(slots: Slots) -> Option<u32> {
    let cpu = sordino_percpu::cpu();
    if cpu >= slots.cpus() || thread::borrowed() != 0 {
        return None;
    }
    thread::set_place(Wants::place(slots.rings(0).at(cpu) as usize));
    Some(cpu)
}

/// The number of the tracepoint in a record's tag.
fn id_of(tag: u64) -> u16 {
    (tag >> 16) as u16
}

/// What the session in `slot` does with a hit. Where that is recorded, and the session wants counters, writes theirs: here, where only
/// hits come for which something is looked up.
///
/// # Safety
/// As for [`emit`](crate::emit::emit).
#[inline(never)]
unsafe fn decide(slots: Slots, slot: u32, staged: Staged, tag: u64) -> Decision {
    // SAFETY: the caller's obligation.
    let (conditions, payload) = (slots.conditions(slot), unsafe { staged.payload() });
    // A record that no ring takes is counted as lost.
    let (Some(conditions), Some(payload)) = (conditions, payload) else {
        return Decision { record: true, trigger: false };
    };
    let decision = condition::decide(conditions, id_of(tag), Hit { payload, tid: (tag >> 32) as u32 });
    if decision.record && slots.wants(id_of(tag)).sessions(slots.cpus()).counted >> slot & 1 != 0 {
        emit_counters(slots, slot, tag);
    }
    decision
}

/// Writes what the thread's performance counters say, if it has any, to the session in `slot`, before the record with this tag.
#[cold]
#[inline(never)]
fn emit_counters(slots: Slots, slot: u32, tag: u64) {
    let Some((event, payload)) = counters::payload(slots, slot, id_of(tag)) else { return };
    let staged = payload.staged();
    let record = staged.record(tag & !0xffff_ffff | event);
    // SAFETY: laid out as the fields of the tracepoint `event` say, and as long as `staged` says.
    unsafe { emit_in(slots, slot, remember_cpu(slots), &record, staged) };
}

/// [`emit_to`], once: each copy is a restartable section more, which has to be stopped and killed at every instruction in a test.
///
/// # Safety
/// As for [`emit_to`].
#[inline(never)]
unsafe fn emit_by_short_way(ring: *const RingHeader, tag: u64, staged: Staged) {
    // SAFETY: the caller's obligations are the same.
    unsafe { emit_to(ring, tag, staged) };
}

/// Writes the record to the shared ring of the session in `slot`.
///
/// # Safety
/// As for [`emit`](crate::emit::emit).
#[cold]
#[inline(never)]
unsafe fn emit_shared(slots: Slots, slot: u32, record: &Record) {
    // A vfork's child does not wait for room: its parent waits as well.
    let if_full = if thread::borrowed() == 0 { IfFull::Tell } else { IfFull::Lose };
    // SAFETY: as in `emit`.
    if let Err(full) = unsafe { write::write_shared(slots.rings(slot), record, Clocks, if_full) } {
        // SAFETY: the caller's obligations are the same.
        unsafe { emit_waiting(slots, slot, record, &Attempt::NONE, full) };
    }
}

/// Waits for room where [`Waiting`] does, and writes the record or loses it.
///
/// # Safety
/// As for [`emit`](crate::emit::emit).
#[cold]
#[inline(never)]
unsafe fn emit_waiting(slots: Slots, slot: u32, record: &Record, attempt: &Attempt, full: Full) {
    let (mut waiting, mut written) = (Waiting::default(), Err(full));
    while let Err(full) = written {
        let if_full = if waiting.sleep(slots, slot, full) { IfFull::Tell } else { IfFull::Lose };
        // SAFETY: as in `emit`.
        written = unsafe { write::write_fully(slots.rings(slot), record, Clocks, attempt, if_full) };
    }
}
