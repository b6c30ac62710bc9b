//! Hits before the recorders' answers.

use crate::support::*;
use loom::thread;
use sordino_percpu::primitive::Relaxed;
use sordino_ring::area::Area;
use sordino_ring::area::control::{Attached, EnableMode, Program};
use sordino_ring::number::{PointId, SlotIndex};

/// A time in which tracepoints are pending, and one in which they are no longer.
const NOW: u64 = 1;
const LATE: u64 = u64::MAX;

/// A session that was attached before and is attached again; no tracepoint is enabled.
fn session() -> (Area, Program, Attached) {
    let (area, program, attached) = attached(&options(&[], 1));
    // Makes the words known to loom.
    area.slots().pending().begin(0..1, NOW);
    area.slots().pending().answer();
    assert!(!program.pending().has_uncounted());
    (area, program, attached)
}

/// A hit of the pending tracepoint; returns true if it was recorded.
fn hit(area: Area, now: u64) -> bool {
    let all = area.slots().pending().count(PointId(0), || now).sessions(1).all;
    let wanting = SlotIndex::all().filter(|slot| slot.is_in(all));
    wanting.for_each(|slot| share(area.rings(slot), 1, HALF, None));
    all != 0
}

#[test]
fn a_hit_is_recorded_or_counted_and_never_both() {
    check(|| {
        let (area, program, mut attached) = session();
        area.slots().pending().begin(0..1, NOW);
        let hits = [(); 2].map(|()| thread::spawn(move || hit(area, NOW)));
        let counted = program.enable(attached.slot, PointId(0), EnableMode::Always);
        program.pending().answer();
        let recorded = hits.map(|hit| usize::from(hit.join().unwrap())).iter().sum();
        assert_eq!(finish(&mut attached.readers[0], HALF).len(), recorded);
        assert_eq!(counted as usize + recorded, 2);
        assert!(!program.pending().has_uncounted());
    });
}

#[test]
fn a_hit_that_meets_an_answer_sees_the_session_s_rings() {
    check(|| {
        let (area, program, before) = session();
        program.detach(&before).unwrap();
        area.slots().pending().begin(0..1, NOW);
        let other = thread::spawn(move || hit(area, NOW));
        let mut attached = program.attach(&options(&[], 2)).unwrap();
        let counted = program.enable(attached.slot, PointId(0), EnableMode::Always);
        let recorded = usize::from(other.join().unwrap());
        assert_eq!(
            (finish(&mut attached.readers[0], HALF).len(), counted as usize + recorded),
            (recorded, 1)
        );
    });
}

#[test]
fn who_sees_a_tracepoint_pending_sees_until_when() {
    check(|| {
        let (area, program) = area();
        area.point(PointId(0)).load(Relaxed);
        let other = thread::spawn(move || hit(area, NOW));
        area.slots().pending().begin(0..1, NOW);
        other.join().unwrap();
        assert!(!program.pending().has_uncounted());
    });
}

#[test]
fn who_finds_a_tracepoint_settled_by_a_late_hit_sees_that_it_was_not_counted() {
    check(|| {
        let (area, program, attached) = session();
        area.slots().pending().begin(0..1, NOW);
        let late = thread::spawn(move || hit(area, LATE));
        program.enable(attached.slot, PointId(0), EnableMode::Always);
        let is_reported = program.pending().has_uncounted();
        assert!(late.join().unwrap() || is_reported);
    });
}

#[test]
fn nobody_settles_what_another_recorder_was_just_told_of() {
    check(|| {
        let (area, program, _attached) = session();
        let pending = area.slots().pending();
        pending.begin(0..0, NOW);
        pending.await_another();
        let first = thread::spawn(move || program.pending().answer());
        pending.answer();
        pending.begin(0..1, NOW);
        pending.await_another();
        pending.answer();
        first.join().unwrap();
        assert_eq!(pending.hits(PointId(0)), 0);
        hit(area, NOW);
        assert_eq!(pending.hits(PointId(0)), 1);
        pending.answer();
        assert!(!hit(area, NOW) && pending.hits(PointId(0)) == 0);
    });
}
