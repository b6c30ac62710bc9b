//! Conditions that are replaced while hits read them, and hits that request a snapshot.

use crate::support::*;
use loom::thread;
use sordino_event::Cpu;
use sordino_percpu::primitive::{Acquire, Relaxed};
use sordino_ring::area::condition::When;
use sordino_ring::area::control::{Code, EnableMode};
use sordino_ring::area::enable::EnableMask;
use sordino_ring::area::slots::{Copied, Table};
use sordino_ring::layout::InlineFilter;
use sordino_ring::number::{PointId, SlotIndex};
use std::mem::MaybeUninit;

const OLD: Code<'_> = Code { filter: When::If(b"the old"), trigger: When::Never };
const NEW: Code<'_> = Code { filter: When::If(b"the newer one"), trigger: When::Never };

/// The filter's code, as a hit finds it.
fn filter(table: Table) -> Vec<u8> {
    let When::If(code) = table.code_range(PointId(0)).filter() else { return Vec::new() };
    let mut copied: Copied = [MaybeUninit::uninit(); _];
    // SAFETY: `code` is the range that the tracepoint's place returned.
    unsafe { table.copy(code, &mut copied) }.to_vec()
}

#[test]
fn who_sees_a_condition_s_word_sees_its_code() {
    check(|| {
        let (area, program, mut before) = attached(&options(&[], 1));
        // Makes the words of both known to loom.
        for code in [OLD, NEW] {
            before.conditions.set(PointId(0), &code).unwrap();
            let table = area.slots().conditions(before.slot).unwrap();
            assert_eq!(When::If(&filter(table)[..]), code.filter);
        }
        program.detach(&before).unwrap();
        let mut attached = program.attach(&options(&[], 2)).unwrap();
        attached.conditions.set(PointId(0), &OLD).unwrap();
        let table = area.slots().conditions(attached.slot).unwrap();
        let hit = thread::spawn(move || filter(area.slots().conditions(SlotIndex::FIRST).unwrap()));
        attached.conditions.set(PointId(0), &NEW).unwrap();
        let seen = hit.join().unwrap();
        assert!([OLD.filter, NEW.filter].contains(&When::If(&seen)), "{seen:?}");
        assert_eq!(When::If(&filter(table)[..]), NEW.filter);
    });
}

#[test]
fn who_sees_that_a_session_has_an_inline_filter_sees_the_filter() {
    check(|| {
        let (area, program, mut before) = attached(&options(&[], 1));
        // Makes the words known to loom.
        before.conditions.inline_filter(PointId(0), 1, 1, 1);
        program.enable(before.slot, PointId(0), EnableMode::No);
        program.detach(&before).unwrap();
        let mut attached = program.attach(&options(&[], 2)).unwrap();
        let word = area.point(PointId(0));
        let hit = thread::spawn(move || {
            let mask = EnableMask(word.load(Acquire));
            let at = (&raw const *word).cast::<u8>().wrapping_add(mask.distance());
            // SAFETY: the word leads to an inline filter of the area, which stays mapped; all fields are atomics.
            let filter = mask.has_inline_filter().then(|| unsafe { &*at.cast::<InlineFilter>() });
            filter.map(|filter| {
                (filter.field.load(Relaxed), filter.low.load(Relaxed), filter.span.load(Relaxed))
            })
        });
        let mode = attached.conditions.inline_filter(PointId(0), 3, 5, 7);
        assert!(matches!(mode, EnableMode::Through(_)));
        program.enable(attached.slot, PointId(0), mode);
        assert!([None, Some((3, 5, 7))].contains(&hit.join().unwrap()));
        program.detach(&attached).unwrap();
    });
}

#[test]
fn who_sees_that_a_snapshot_is_requested_sees_the_record_that_requests_it() {
    check(|| {
        let (area, program, mut attached) = attached(&options(&[Cpu(0)], 1));
        let slot = attached.slot;
        program.triggers(slot);
        let hit = thread::spawn(move || {
            emit(area.rings(slot), 1, HALF);
            area.slots().trigger(slot, PointId(0));
        });
        if program.triggers(slot).count == 1 {
            assert_eq!(finish(&mut attached.readers[0], HALF), [1]);
        }
        hit.join().unwrap();
        assert_eq!(program.triggers(slot).count, 1);
    });
}
