//! The conditions of hits, on the collector's side and the program's, whatever their code means.
mod support;

use sordino_ring::area::Area;
use sordino_ring::area::condition::{CodeRange, MAX_CODE, When};
use sordino_ring::area::control::{Code, EnableMode, NoRoom, Program, Triggers};
use sordino_ring::area::enable::EnableMask;
use sordino_ring::area::slots::{Copied, Table};
use sordino_ring::layout::{CONDITION_POOL, Geometry, INLINE_FILTERS, InlineFilter};
use sordino_ring::number::{PointId, SlotIndex};
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::Relaxed;
use support::*;

const SMALL: Geometry = Geometry { bits: 14, count: 2, overwrite: false };

/// A tracepoint's filter and trigger as the program finds them.
fn found(table: Table, id: PointId) -> [When<Vec<u8>>; 2] {
    let offset = table.code_range(id);
    [offset.filter(), offset.trigger()].map(|when| match when {
        When::Always => When::Always,
        When::Never => When::Never,
        When::If(code) => {
            let mut copied: Copied = [MaybeUninit::uninit(); _];
            // SAFETY: `code` is the range that the tracepoint's place returned.
            When::If(unsafe { table.copy(code, &mut copied) }.to_vec())
        }
    })
}

fn table(area: Area, slot: SlotIndex) -> Table {
    area.slots().conditions(slot).expect("a session's table")
}

fn code<'a>(filter: &'a [u8], trigger: &'a [u8]) -> Code<'a> {
    Code { filter: When::If(filter), trigger: When::If(trigger) }
}

#[test]
fn the_program_finds_the_code_that_was_set() {
    let harness = Harness::new();
    assert!(harness.area.slots().conditions(SlotIndex::FIRST).is_none());
    let programs = [(); 3].map(|()| Program::open(&harness.file).unwrap());
    for (slot, program) in SlotIndex::all().zip(&programs) {
        let mut attached = program.attach(&options(SMALL, 3)).unwrap();
        assert_eq!(attached.slot, slot);
        let (long, last) = ([slot.index() as u8; MAX_CODE], PointId(POINTS as u16 - 1));
        let table = table(harness.area, slot);
        assert_eq!(found(table, last), [When::Always, When::Never]);
        let set = &mut attached.conditions;
        set.set(PointId(0), &code(&long, b"trigger")).unwrap();
        set.set(PointId(1), &Code { filter: When::Never, trigger: When::Always }).unwrap();
        set.set(last, &code(b"thirteen byte", &long)).unwrap();
        assert_eq!(found(table, PointId(0)), [When::If(long.to_vec()), When::If(b"trigger".to_vec())]);
        assert_eq!(found(table, PointId(1)), [When::Never, When::Always]);
        assert_eq!(found(table, last), [When::If(b"thirteen byte".to_vec()), When::If(long.to_vec())]);
        set.set(PointId(0), &Code { filter: When::If(b"x"), trigger: When::Never }).unwrap();
        assert_eq!(found(table, PointId(0)), [When::If(b"x".to_vec()), When::Never]);
        assert_eq!(found(table, PointId(2)), [When::Always, When::Never]);
    }
}

#[test]
fn equal_code_takes_room_once_and_code_without_room_changes_nothing() {
    let harness = Harness::new();
    let mut attached = harness.attach(SMALL, 3);
    let (slot, set) = (attached.slot, &mut attached.conditions);
    for _ in 0..3 {
        (0..POINTS as u16).for_each(|id| set.set(PointId(id), &code(b"the same", b"for all")).unwrap());
    }
    let number = |index: usize| index.to_ne_bytes().repeat(MAX_CODE / 8);
    // The first condition took 16 bytes, each of these two times 512.
    for index in 0..CONDITION_POOL / 1024 - 1 {
        set.set(PointId(1), &code(&number(index), &number(index))).unwrap();
    }
    set.set(PointId(2), &code(&number(POINTS as usize), &[1; MAX_CODE - 16])).unwrap();
    let before = found(table(harness.area, slot), PointId(1));
    let refused = set.set(PointId(1), &code(b"one more", b"too many"));
    assert_eq!(refused, Err(NoRoom { needed: 16, left: 0 }));
    assert_eq!(found(table(harness.area, slot), PointId(1)), before);
    set.set(PointId(3), &code(b"the same", b"for all")).unwrap();
    assert_eq!(found(table(harness.area, slot), PointId(3))[0], When::If(b"the same".to_vec()));
}

#[test]
fn a_session_has_its_own_inline_filters_and_each_interval_one() {
    let harness = Harness::new();
    let programs = [(); 2].map(|()| Program::open(&harness.file).unwrap());
    let mut sessions = programs.each_ref().map(|program| program.attach(&options(SMALL, 3)).unwrap());
    let seen = |id: PointId, mode| {
        let EnableMode::Through(distance) = mode else { panic!("{mode:?}") };
        let at = (&raw const *harness.area.point(id)).cast::<u8>().wrapping_add(distance as usize);
        // SAFETY: the word leads to an inline filter of the area, which stays mapped; all fields are atomics.
        let filter = unsafe { &*at.cast::<InlineFilter>() };
        (filter.field.load(Relaxed), filter.low.load(Relaxed), filter.span.load(Relaxed))
    };
    let last = PointId(POINTS as u16 - 1);
    for (session, number) in sessions.iter_mut().zip(1u64..) {
        let set = &mut session.conditions;
        for field in 0..INLINE_FILTERS as u32 {
            let mode = set.inline_filter(PointId(7), field, number, u64::MAX);
            assert_eq!(seen(PointId(7), mode), (field, number, u64::MAX));
        }
        assert_eq!(set.inline_filter(PointId(7), 0, number, 1), EnableMode::If);
        assert_eq!(seen(last, set.inline_filter(last, 3, number, u64::MAX)), (3, number, u64::MAX));
    }
    // The first session's filter is still there, beside the other session's.
    let first = sessions[0].conditions.inline_filter(PointId(0), 127, 1, u64::MAX);
    assert_eq!(seen(PointId(0), first), (127, 1, u64::MAX));
    programs[0].enable(sessions[0].slot, PointId(0), first);
    let word = || EnableMask(harness.area.point(PointId(0)).load(Relaxed));
    assert!(word().has_inline_filter());
    // Withdrawing an event that was not enabled leaves the enable word unchanged.
    programs[1].enable(sessions[1].slot, PointId(0), EnableMode::No);
    assert!(word().has_inline_filter());
    programs[1].enable(sessions[1].slot, PointId(0), EnableMode::Always);
    let both = sessions[0].slot.bit() | sessions[1].slot.bit();
    assert_eq!((word().has_inline_filter(), word().sessions(cpus()).all), (false, both));
    // While the other session has the event, there is nothing to renew.
    programs[0].renew(sessions[0].slot, PointId(0), first);
    assert_eq!((word().has_inline_filter(), word().sessions(cpus()).all), (false, both));
    programs[1].enable(sessions[1].slot, PointId(0), EnableMode::No);
    assert_eq!(word().one_if(), Some(sessions[0].slot));
    programs[0].renew(sessions[0].slot, PointId(0), first);
    assert!(word().has_inline_filter());
    // An event that the session has withdrawn is not renewed.
    programs[0].enable(sessions[0].slot, PointId(0), EnableMode::No);
    programs[0].renew(sessions[0].slot, PointId(0), first);
    assert_eq!(word(), EnableMask(0));
    programs[0].enable(sessions[0].slot, PointId(0), first);
    programs[1].enable(sessions[1].slot, PointId(0), EnableMode::Always);
    harness.program.detach(&sessions[0]).unwrap();
    assert!(word().is_one());
}

#[test]
fn whatever_lies_in_the_place_of_an_old_table_is_read_without_harm() {
    let harness = Harness::with_reserve(4 << 20);
    let mut attached = harness.attach(SMALL, 3);
    attached.conditions.set(PointId(5), &code(&[7; MAX_CODE], &[8; MAX_CODE])).unwrap();
    let old = table(harness.area, attached.slot);
    let copied_before = found(old, PointId(5));
    harness.program.detach(&attached).unwrap();
    assert_eq!(found(old, PointId(5)), [When::Always, When::Never]);
    // The sub-buffers of a larger session lie there now.
    let large = harness.attach(Geometry { bits: 17, ..SMALL }, 9);
    // The rings of all CPUs are filled: any of them may lie where the table was.
    for number in 0..2000 * u64::from(cpus()) {
        if number % 2000 == 0 {
            pin((number / 2000) as u32);
        }
        let words = (0..25).map(|word| (number + word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let payload: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        harness.write(large.slot, number << 32, &payload);
    }
    let mut anything = 0;
    for id in (0..POINTS as u16).map(PointId) {
        anything += usize::from(old.code_range(id) != CodeRange(0));
        for code in found(old, id) {
            assert!(!matches!(code, When::If(code) if code.len() > MAX_CODE));
        }
    }
    assert!(anything > 0 && copied_before[0] == When::If(vec![7; MAX_CODE]));
}

#[test]
fn triggers_are_counted_for_their_session_and_anew_for_the_next() {
    let harness = Harness::new();
    let other = Program::open(&harness.file).unwrap();
    let (first, second) = (harness.attach(SMALL, 3), other.attach(&options(SMALL, 4)).unwrap());
    let slots = harness.area.slots();
    (0..3).for_each(|_| slots.trigger(first.slot, PointId(17)));
    slots.trigger(first.slot, PointId(POINTS as u16 - 1));
    let triggers = |slot| harness.program.triggers(slot);
    assert_eq!(triggers(first.slot), Triggers { count: 4, point: PointId(POINTS as u16 - 1) });
    assert_eq!(triggers(second.slot), Triggers { count: 0, point: PointId(0) });
    harness.program.detach(&first).unwrap();
    let next = harness.attach(SMALL, 5);
    assert_eq!((next.slot, triggers(next.slot)), (first.slot, Triggers { count: 0, point: PointId(0) }));
}

#[test]
fn a_trigger_wakes_the_collector_that_asked_to_be_woken() {
    let harness = Harness::new();
    for wake in [false, true] {
        let mut options = options(SMALL, 3);
        options.wake = wake;
        let attached = harness.program.attach(&options).unwrap();
        let word = || harness.program.wake_word(attached.slot).load(std::sync::atomic::Ordering::SeqCst);
        let before = word();
        harness.area.slots().trigger(attached.slot, PointId(1));
        assert_eq!(word(), before + u32::from(wake));
        harness.program.detach(&attached).unwrap();
    }
}
