//! Tests of pictures: names from hostile programs, and windows with more than a picture can show.

use proptest::prelude::*;
use sordino_analyze::Thread;
use sordino_draw::{Frame, standalone, timeline};
use sordino_event::{Domain, Nanos, Pid, Tid, Time};
use sordino_lanes::{
    CpuLane, FiberActivity, FiberLane, FiberWakeUp, Handler, Hole, LaneSpan, LaneState, Lanes, Mark,
    ThreadLane, WakeUp, Window,
};
use sordino_timeline::FiberId;
use std::collections::BTreeSet;

fn thread(tid: i32, comm: &str) -> Thread {
    Thread { tid: Tid(tid), comm: Some(comm.into()), priority: None, is_recorder: false }
}

/// Returns lanes of one CPU that two threads of this name share, by these lengths of their runs.
fn lanes(comm: &str, lengths: &[i64]) -> Lanes {
    let mut at = 0;
    let mut lane = CpuLane { cpu: 1, ..CpuLane::default() };
    let mut states = Vec::new();
    for (index, length) in lengths.iter().enumerate() {
        let (from, to) = (Time(at), Time(at + length));
        at += length;
        lane.runs.push(LaneSpan { from, to, activity: Some(thread(7 + index as i32 % 2, comm)) });
        let state = if index % 2 == 0 { LaneState::Running(1) } else { LaneState::Runnable };
        states.push(LaneSpan { from, to, activity: state });
        let handler = Handler { name: comm.into(), depth: 0, is_softirq: false };
        // Interrupts with time between them.
        let to = Time(at - length / 2);
        lane.interrupts.push(LaneSpan { from, to, activity: handler });
    }
    let window = Window { from: Time(0), to: Time(at), tid: Tid(7), fiber: None };
    let id = FiberId { pid: Pid(7), number: 16 };
    let on = LaneSpan {
        from: Time(0),
        to: Time(at),
        activity: FiberActivity::On { tid: Tid(7), state: LaneState::Running(1) },
    };
    let fiber = FiberLane { fiber: id, name: Some(comm.into()), states: vec![on] };
    let mark = |domain| Mark { at: Time(at / 2), count: 1, tid: Tid(7), name: comm.into(), domain };
    Lanes {
        window,
        has_switches: true,
        cpus: vec![lane],
        hidden_cpus: 0,
        threads: vec![ThreadLane { thread: thread(7, comm), states, ran: Nanos(at) }],
        hidden_threads: 0,
        waiting_threads: 0,
        fibers: vec![fiber],
        hidden_fibers: 0,
        wake_ups: vec![WakeUp { at: Time(at / 2), tid: Tid(7), cpu: Some(1), by: None }],
        fiber_wake_ups: vec![FiberWakeUp { at: Time(at / 2), fiber: id, by: None }],
        marks: [Domain::User, Domain::Kernel].map(mark).to_vec(),
        lost: Vec::new(),
        left_out: 0,
    }
}

fn drawn(lanes: &Lanes, title: &str) -> String {
    standalone(&timeline(
        lanes,
        &Frame { from: Time(0), to: lanes.window.to, title, is_alone: true, most: 1000 },
    ))
}

/// Returns the kinds of elements that markup opens, and checks that it closes each.
fn elements(markup: &str) -> BTreeSet<&str> {
    let mut open = Vec::new();
    let mut kinds = BTreeSet::new();
    for tag in markup.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()) {
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "{tag}");
        } else if !tag.starts_with('?') {
            let kind = tag.split([' ', '\n']).next().unwrap();
            kinds.insert(kind);
            if !tag.ends_with('/') {
                open.push(kind);
            }
        }
    }
    assert!(open.is_empty(), "{open:?}");
    kinds
}

#[test]
fn each_timeline_has_a_pattern_of_its_own() {
    let ids = |lengths| {
        let svg = drawn(&lanes("motor", lengths), "motor");
        let id = svg.split_once("<pattern id=\"").unwrap().1.split_once('"').unwrap().0.to_owned();
        assert!(svg.contains(&format!("--hatch: url(#{id});")), "{svg}");
        assert_eq!(svg.matches(&id).count(), 2, "{svg}");
        assert!(svg.contains(&format!("id=\"{}\"", id.replace("hatch", "line"))), "{svg}");
        id
    };
    assert_ne!(ids(&[1000, 2000]), ids(&[1000, 2001]));
}

#[test]
fn a_fiber_whose_number_leaves_no_room_has_its_name() {
    let mut lanes = lanes("worker 5", &[1000]);
    let label = |lanes: &Lanes, text: &str| drawn(lanes, "fibers").contains(&format!(">{text}<title>"));
    assert!(label(&lanes, "fiber 16(worker 5)"));
    lanes.fibers[0].fiber.number = 139_677_590_720_256;
    assert!(label(&lanes, "fiber worker 5"));
    lanes.fibers[0].name = None;
    assert!(label(&lanes, "fiber 139677590720256"));
    // The bold name of the explained fiber needs more room.
    lanes.fibers[0].name = Some("of twenty letters".into());
    lanes.fibers[0].fiber.number = 1;
    assert!(label(&lanes, "fiber of twenty letters"));
    lanes.window.fiber = Some(lanes.fibers[0].fiber);
    assert!(label(&lanes, "fiber of twenty lett…"));
}

#[test]
fn marks_and_arrows_of_a_full_picture_are_spread_over_it_and_their_rest_is_counted() {
    let mut full = lanes("motor", &[1000; 10]);
    let mark = full.marks[0].clone();
    full.marks = (0..5000).map(|at| Mark { at: Time(at * 2), ..mark.clone() }).collect();
    let svg = drawn(&full, "x");
    assert_eq!(svg.matches("class=\"point\"").count(), 1000);
    assert!(svg.contains("4000 more stretches, arrows and marks left out"), "{svg}");
    assert!(svg.contains("class=\"point\" data-f=\"9990\""), "the last ones are missing");
}

#[test]
fn losses_of_a_full_picture_are_spread_over_it_and_their_rest_is_counted() {
    let mut full = lanes("motor", &[1000; 10]);
    full.lost = (0..5000)
        .map(|at| Hole { from: Time(at * 2), to: Time(at * 2 + 1), cpu: Some(1), is_programs: false })
        .collect();
    let svg = drawn(&full, "x");
    assert_eq!(svg.matches("class=\"lost\"").count(), 1000);
    assert!(svg.contains("4000 more stretches, arrows and marks left out"), "{svg}");
    assert!(svg.contains("class=\"lost\" data-f=\"9990\""), "the last ones are missing");
}

proptest! {
    #[test]
    fn no_name_changes_the_elements_of_a_picture(name in "\\PC{0,40}|[<>&\"'/\\-\\]!]{1,20}|[\0-\u{1f}\u{202a}-\u{202e}]{1,9}") {
        let known = drawn(&lanes("motor", &[1000, 2000, 500]), "motor");
        let text = drawn(&lanes(&name, &[1000, 2000, 500]), &name);
        prop_assert_eq!(elements(&text), elements(&known));
        let is_harmless = |c: char| c == '\n' || c == '\t' || sordino_event::text::is_printable(c);
        prop_assert!(text.chars().all(is_harmless), "{text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_picture_is_small_whatever_happens_in_its_window(
        lengths in proptest::collection::vec(1_i64..1_000_000, 1..20_000),
    ) {
        let text = drawn(&lanes("motor", &lengths), "x");
        prop_assert!(text.len() < 300_000, "{}", text.len());
        // Each run has a state and an interrupt.
        let is_thinned = 3 * lengths.len() > 1000;
        prop_assert_eq!(text.contains("grey: several short stretches, joined"), is_thinned);
    }
}
