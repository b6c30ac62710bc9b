//! Functions in formats that have their names, and their calls where there are spans.

#[path = "support/packets.rs"]
mod packets;
#[path = "../../../understanding/timeline/tests/support/mod.rs"]
mod support;

use packets::DecodedMessage;
use serde_json::Value;
use sordino_event::{Classes, Pid, Time};
use sordino_export::{Chrome, Csv, Exporter, Json, Origin, Perfetto};
use support::{Script, ScriptThread, V};

const A: ScriptThread = ScriptThread(11, "pool", 120);
const B: ScriptThread = ScriptThread(12, "pool", 120);
const PID: i32 = 10;
/// Addresses of functions: the first two have names.
const SOLVE: u64 = 0x10;
const STEP: u64 = 0x20;
const UNKNOWN: u64 = 0x30;

fn call(script: &mut Script, at: i64, (thread, function): (ScriptThread, u64), event: &str) {
    let fields = [("function", V::U(function)), ("call_site", V::U(0))];
    script.at(at).user(&format!("sordino_function:{event}"), thread, &fields);
}

/// Returns a trace in which a thread calls functions, then a fiber that goes on on another thread; the last call of the
/// thread does not return.
fn script() -> Script {
    let mut script = Script::of_programs();
    script.of(PID).at(1000).fiber_enter(A).fiber_enter(B).fiber_new(A, 7, "worker");
    for (at, function, event) in
        [(2000, SOLVE, "entry"), (3000, UNKNOWN, "entry"), (4500, UNKNOWN, "exit"), (5000, SOLVE, "exit")]
    {
        call(&mut script, at, (A, function), event);
    }
    script.at(6000).fiber_switch(A, 0, 7, 5);
    call(&mut script, 7000, (A, STEP), "entry");
    script.at(8000).fiber_switch(A, 7, 0, 1).fiber_switch(B, 0, 7, 5);
    call(&mut script, 9000, (B, STEP), "exit");
    call(&mut script, 9500, (A, SOLVE), "entry");
    script
}

fn exported<E: Exporter>(script: &Script, create: impl FnOnce(&Classes) -> E) -> Vec<u8> {
    let (mut exporter, mut out) = (create(&script.classes), Vec::new());
    exporter.name_functions(Box::new(|pid, address| match address {
        SOLVE if pid == Pid(PID) => Some("Solver::solve(int)".into()),
        STEP => Some("step".into()),
        _ => None,
    }));
    exporter.begin(&mut out);
    script.play(|item| exporter.take(item, &mut out));
    exporter.end(&mut out);
    out
}

fn origin() -> Origin {
    Origin { begin: Time(1000), ..Origin::default() }
}

#[test]
fn lines_name_the_function_of_each_event() {
    let json = exported(&script(), Json::new);
    let lines = std::str::from_utf8(&json).unwrap().lines().map(|line| serde_json::from_str(line).unwrap());
    let names: Vec<Value> = lines.filter_map(|line: Value| line.get("function_name").cloned()).collect();
    let [solve, step] = ["Solver::solve(int)", "step"].map(Value::from);
    let null = Value::Null;
    assert_eq!(names, [&solve, &null, &null, &solve, &step, &step, &solve].map(Clone::clone));
    let csv = String::from_utf8(exported(&script(), Csv::new)).unwrap();
    assert_eq!(csv.matches("\"\"function_name\"\":\"\"Solver::solve(int)\"\"").count(), 3, "{csv}");
}

#[test]
fn chrome_has_a_span_for_each_call_in_its_thread_or_its_fiber() {
    let trace = exported(&script(), |classes| Chrome::new(classes, origin()));
    let trace: Value = serde_json::from_slice(&trace).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let calls: Vec<&Value> = events.iter().filter(|event| event["cat"] == "function").collect();
    let text = |event: &Value, name: &str| event[name].as_str().unwrap_or("").to_owned();
    let found = calls.iter().map(|event| {
        let times = [event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap_or(0.0)];
        (text(event, "ph"), text(event, "name"), text(event, "id"), event["tid"].as_i64().unwrap(), times)
    });
    let of =
        |phase: &str, name: &str, id: &str, tid, times| (phase.into(), name.into(), id.into(), tid, times);
    let fiber = "fiber 7 of 10";
    let expected = [
        of("X", "0x30", "", 11, [2.0, 1.5]),
        of("X", "Solver::solve(int)", "", 11, [1.0, 3.0]),
        of("b", "step", fiber, 12, [6.0, 0.0]),
        of("e", "step", fiber, 12, [8.0, 0.0]),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    let entries = events.iter().filter(|event| event["name"] == "sordino_function:entry");
    let names = entries.map(|event| event["args"].get("function_name").and_then(Value::as_str));
    let solve = Some("Solver::solve(int)");
    assert_eq!(names.collect::<Vec<_>>(), [solve, None, Some("step"), solve]);
}

#[test]
fn perfetto_has_a_slice_for_each_call_on_the_track_of_its_thread_or_its_fiber() {
    let trace = exported(&script(), |classes| Perfetto::new(classes, origin()));
    let packets: Vec<DecodedMessage> = DecodedMessage::read(&trace).messages(1).collect();
    let tracks: Vec<DecodedMessage> = packets.iter().flat_map(|packet| packet.messages(60)).collect();
    let track = |number: u64| {
        let described = tracks.iter().find(|track| track.number(1) == Some(number)).unwrap();
        let thread = described.messages(4).next().map(|thread| thread.number(2).unwrap().to_string());
        thread.or_else(|| described.text(2).map(ToOwned::to_owned)).unwrap()
    };
    let mut slices = Vec::new();
    for packet in &packets {
        // Stretches of fibers on threads have an interned name.
        for event in packet.messages(11).filter(|event| event.number(9) != Some(3)) {
            let Some(name) = event.text(23) else { continue };
            slices.push((
                packet.number(8).unwrap(),
                event.number(9).unwrap(),
                name.to_owned(),
                track(event.number(11).unwrap()),
            ));
        }
    }
    slices.sort();
    let of = |time, kind, name: &str, track: &str| (time, kind, name.to_owned(), track.to_owned());
    let (solve, worker) = ("Solver::solve(int)", "fiber 7 worker");
    let expected = [
        of(2000, 1, solve, "11"),
        of(3000, 1, "0x30", "11"),
        of(4500, 2, "0x30", "11"),
        of(5000, 2, solve, "11"),
        of(7000, 1, "step", worker),
        of(9000, 2, "step", worker),
    ];
    assert_eq!(slices, expected);
}
