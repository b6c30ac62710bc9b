//! Conditions that are evaluated in real programs: rejected records are absent, and triggers arrive.

use rustix::process::Signal;
use sordino_event::{Cpu, Pid, Schema, Ticks, catalogue};
use sordino_filter::condition::{self, Context, Expression};
use sordino_ring::area::control::{AttachOptions, Attached, Code, EnableMode, Program, Triggers, When};
use sordino_ring::layout::{Geometry, PACKET_HEADER};
use sordino_ring::number::{PointId, Seqno};
use sordino_tests::exchange::area;
use sordino_tests::{RunningProcess, Scene};
use std::process::Command;

/// Hits of each tracepoint.
const HITS: u64 = 100;

/// Conditions of a session on one tracepoint.
struct Wish {
    name: &'static str,
    filter: &'static str,
    trigger: Option<&'static str>,
}

/// A session, and its tracepoints.
struct AttachedSession {
    program: Program,
    attached: Attached,
    points: Vec<(u16, Schema)>,
}

/// Compiles `text` for the tracepoint.
fn compiled(text: &str, schema: &Schema) -> condition::Condition {
    let context = Context { pid: Pid(1), procname: "hits" };
    Expression::parse(text).unwrap().compile(schema, &context).unwrap()
}

fn when(condition: &condition::Condition) -> When<&[u8]> {
    match condition {
        condition::Condition::Always => When::Always,
        condition::Condition::Never => When::Never,
        condition::Condition::Code(code) => When::If(code),
    }
}

impl AttachedSession {
    fn new(running: &RunningProcess, first_seqno: u32) -> Self {
        let program = Program::open(&area(running.pid())).unwrap();
        let cpus: Vec<Cpu> = (0..program.cpus()).map(Cpu).collect();
        let geometry = Geometry::new(64 << 10, 2).unwrap();
        let attached =
            program.attach(&AttachOptions::new("conditions", geometry, &cpus, Seqno(first_seqno))).unwrap();
        let (points, _) = catalogue::parse(&program.catalogue(0)).unwrap();
        Self { program, attached, points }
    }

    fn point(&self, name: &str) -> (PointId, Schema) {
        let (id, schema) = self.points.iter().find(|(_, schema)| schema.full_name() == name).unwrap();
        (PointId(*id), schema.clone())
    }

    /// Enables the records that fulfil `filter`, with an inline filter where that can express it.
    fn wish_through(&mut self, name: &str, filter: &str) -> EnableMode {
        let (id, schema) = self.point(name);
        let condition::Condition::Code(code) = compiled(filter, &schema) else { panic!("{filter}") };
        self.attached.conditions.set(id, &Code { filter: When::If(&code), trigger: When::Never }).unwrap();
        let comparison = condition::InlineComparison::of(&code, &schema);
        let mode = comparison.map_or(EnableMode::If, |comparison| {
            self.attached.conditions.inline_filter(id, comparison.field, comparison.low, comparison.span)
        });
        self.program.enable(self.attached.slot, id, mode);
        mode
    }

    fn wish(&mut self, wish: &Wish) -> PointId {
        let (id, schema) = self.point(wish.name);
        let filter = compiled(wish.filter, &schema);
        let trigger = wish.trigger.map_or(condition::Condition::Never, |text| compiled(text, &schema));
        let code = Code { filter: when(&filter), trigger: when(&trigger) };
        self.attached.conditions.set(id, &code).unwrap();
        self.program.enable(self.attached.slot, id, EnableMode::If);
        id
    }

    /// Enables all records, without a condition.
    fn enable(&self, name: &str) -> PointId {
        let (id, _) = self.point(name);
        self.program.enable(self.attached.slot, id, EnableMode::Always);
        id
    }

    /// Returns the bytes of the records in all rings.
    fn bytes(&mut self) -> usize {
        let mut bytes = 0;
        for reader in &mut self.attached.readers {
            reader.salvage(Ticks(u64::MAX), |part| bytes += part.bytes.len() - PACKET_HEADER).unwrap();
            assert_eq!(reader.lost().total, 0);
        }
        bytes
    }

    fn triggers(&self) -> Triggers {
        self.program.triggers(self.attached.slot)
    }
}

/// Starts the program, lets `sessions` enable tracepoints, and waits until the program ends.
fn hit(
    scene: &Scene,
    how: &[&str],
    environment: &[(&str, &str)],
    prepare: impl FnOnce(&RunningProcess) -> Vec<AttachedSession>,
) -> Vec<AttachedSession> {
    let mut command = Command::new(scene.program("hits.c"));
    let mut running = scene.start(command.arg(HITS.to_string()).args(how).envs(environment.iter().copied()));
    running.says("ready");
    let sessions = prepare(&running);
    running.signal(Signal::USR2);
    assert_eq!(running.end().status, 0);
    sessions
}

/// Bytes of a record of `hits:pair` in a CPU's ring and in the shared one.
const PAIR: [usize; 2] = [32, 40];

/// Arguments and environment of a program that hits in a certain way.
struct HitArguments {
    how: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// Size of a record of `hits:pair` in this way, in bytes.
    pair: usize,
}

const WAYS: [HitArguments; 3] = [
    HitArguments { how: &[], environment: &[], pair: PAIR[0] },
    HitArguments { how: &[], environment: &[("SORDINO_RING", "shared")], pair: PAIR[1] },
    HitArguments { how: &["vfork"], environment: &[], pair: PAIR[1] },
];

#[test]
fn a_session_has_the_hits_that_its_condition_lets_through() {
    let scene = Scene::new();
    let cases = [
        ("number < 7", 7),
        ("number >= 7", HITS - 7),
        ("rest == 3 || rest == 4", HITS / 5),
        ("number * 2 == rest", 1),
        ("1 == 2", 0),
        ("1 == 1", HITS),
        ("$tid == 1", 0),
        ("$tid > 1", HITS),
    ];
    for HitArguments { how, environment, pair } in WAYS {
        for (filter, expected) in cases {
            let sessions = hit(&scene, how, environment, |running| {
                let mut session = AttachedSession::new(running, 3);
                session.wish(&Wish { name: "hits:pair", filter, trigger: None });
                vec![session]
            });
            for mut session in sessions {
                assert_eq!(session.bytes(), expected as usize * pair, "{filter} {how:?} {environment:?}");
                assert_eq!(session.triggers().count, 0);
            }
        }
    }
}

#[test]
fn a_gate_lets_through_what_its_condition_does() {
    let scene = Scene::new();
    let cases = [
        ("number < 7", 7),
        ("number >= 7", HITS - 7),
        ("number != 7", HITS - 1),
        ("rest == 3", HITS / 10),
        ("rest > 9", 0),
        ("rest < 100", HITS),
    ];
    for (HitArguments { how, environment, pair }, (filter, expected)) in
        WAYS.iter().flat_map(|way| cases.map(|case| (way, case)))
    {
        let mut sessions = hit(&scene, how, environment, |running| {
            // The session has another slot than the first.
            let (other, mut session) = (AttachedSession::new(running, 2), AttachedSession::new(running, 3));
            let mode = session.wish_through("hits:pair", filter);
            assert!(matches!(mode, EnableMode::Through(_)), "{filter}: {mode:?}");
            // A field behind a string has no constant offset.
            assert_eq!(session.wish_through("hits:text", "number == 200"), EnableMode::If);
            vec![other, session]
        });
        let bytes: Vec<usize> = sessions.iter_mut().map(AttachedSession::bytes).collect();
        assert_eq!(bytes, [0, expected as usize * pair], "{filter} {how:?} {environment:?}");
    }
}

#[test]
fn a_gate_ends_where_a_second_session_wants_the_event() {
    let scene = Scene::new();
    let mut sessions = hit(&scene, &[], &[], |running| {
        let mut sessions: Vec<AttachedSession> =
            (0..3).map(|number| AttachedSession::new(running, number)).collect();
        for (session, filter) in sessions.iter_mut().zip(["number < 5", "number >= 90"]) {
            session.wish_through("hits:pair", filter);
        }
        sessions[2].enable("hits:pair");
        let third = sessions.pop().unwrap();
        third.program.detach(&third.attached).unwrap();
        sessions
    });
    let counts: Vec<usize> = sessions.iter_mut().map(|session| session.bytes() / PAIR[0]).collect();
    assert_eq!(counts, [5, 10]);
}

#[test]
fn conditions_of_several_sessions_are_each_session_s_own() {
    let scene = Scene::new();
    let filters = ["number < 1", "number < 2", "number < 3", "number < 4", "number < 5", "number < 6"];
    let mut sessions = hit(&scene, &[], &[], |running| {
        let mut sessions: Vec<AttachedSession> =
            (0..8).map(|number| AttachedSession::new(running, number)).collect();
        for (session, filter) in sessions.iter_mut().zip(filters) {
            session.wish(&Wish { name: "hits:pair", filter, trigger: None });
        }
        sessions[6].enable("hits:pair");
        sessions
    });
    let counts: Vec<usize> = sessions.iter_mut().map(|session| session.bytes() / PAIR[0]).collect();
    assert_eq!(counts, [1, 2, 3, 4, 5, 6, HITS as usize, 0]);
}

#[test]
fn triggers_are_heard_of_whatever_the_filter_says() {
    let scene = Scene::new();
    let mut ids = Vec::new();
    let mut sessions = hit(&scene, &[], &[], |running| {
        let mut sessions: Vec<AttachedSession> =
            (0..3).map(|number| AttachedSession::new(running, number)).collect();
        let wishes = [
            Wish { name: "hits:pair", filter: "number < 10", trigger: Some("number == 50") },
            Wish { name: "hits:text", filter: "1 == 2", trigger: Some("text == \"od?\" && number < 20") },
            Wish { name: "hits:text", filter: "number == 1", trigger: Some("1 == 1") },
        ];
        ids.extend(sessions.iter_mut().zip(&wishes).map(|(session, wish)| session.wish(wish)));
        sessions
    });
    let triggers: Vec<Triggers> = sessions.iter().map(AttachedSession::triggers).collect();
    let expected = [1, 10, HITS as u32].into_iter().zip(ids).map(|(count, point)| Triggers { count, point });
    assert_eq!(triggers, expected.collect::<Vec<_>>());
    assert_eq!(sessions[0].bytes() / PAIR[0], 10);
    assert_eq!(sessions[1].bytes(), 0);
    // The text "odd" with its zero, and the number; a last record has no padding.
    assert_eq!(sessions[2].bytes(), 16 + 4 + 4);
}

#[test]
fn a_session_in_any_slot_has_every_record_of_an_event_that_it_wants_alone() {
    let scene = Scene::new();
    let mut sessions = hit(&scene, &[], &[], |running| {
        let sessions: Vec<AttachedSession> =
            (0..8).map(|number| AttachedSession::new(running, number)).collect();
        sessions[5].enable("hits:pair");
        sessions
    });
    let bytes: Vec<usize> = sessions.iter_mut().map(AttachedSession::bytes).collect();
    assert_eq!(bytes, [0, 0, 0, 0, 0, HITS as usize * PAIR[0], 0, 0]);
}
