//! Listings of the events of a trace, one a line.

#[path = "../../timeline/tests/support/mod.rs"]
mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use sordino_event::{Base, Class, Classes, Domain, Event, Pid, Step, Tid, Time, Value};
use sordino_report::{Listing, ListingFormat, TimeFormat};
use sordino_timeline::SuperTrace;
use support::{HOG, NPT, RUNNABLE, Script, ScriptThread, V};

const TEXT: ListingFormat = ListingFormat::Text { time: TimeFormat::Since(Time(0)), color: false };
const COLOR: ListingFormat = ListingFormat::Text { time: TimeFormat::Since(Time(0)), color: true };

fn listed(script: &Script, format: ListingFormat) -> String {
    let mut listing = Listing::new(&script.classes, format);
    let mut out = Vec::new();
    script.play(|item| listing.write(item, &mut out).unwrap());
    listing.head(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Returns the line of an event `name` with one field for each of the values that `fill` pushes.
fn listed_event(name: &str, fields: &[&str], fill: impl Fn(&mut Event), format: ListingFormat) -> String {
    let mut classes = Classes::default();
    let class = classes.add(Class::new(Domain::User, name, fields.iter().copied()));
    let mut ended = false;
    let source = |event: &mut Event| -> Result<Step, std::io::Error> {
        if std::mem::replace(&mut ended, true) {
            return Ok(Step::End);
        }
        event.begin(Time(0), class);
        event.tid = Some(Tid(7));
        fill(event);
        Ok(Step::Event)
    };
    let mut listing = Listing::new(&classes, format);
    let mut out = Vec::new();
    let mut trace = SuperTrace::new(&classes, [source]);
    while let Some(item) = trace.next().unwrap() {
        listing.write(&item, &mut out).unwrap();
    }
    String::from_utf8(out).unwrap()
}

/// Pushes a value of each kind.
fn all_kinds(event: &mut Event) {
    event.push(Value::Unsigned(255, Base::Hexadecimal));
    event.push(Value::Signed(-8, Base::Octal));
    event.push(Value::Unsigned(5, Base::Binary));
    event.push(Value::Float(0.5));
    event.push(Value::Float(f64::NEG_INFINITY));
    event.push_text(b"a \"b\"\\\n\t\x1b[31m\xff\xe2\x80\xae");
    let label = event.intern(b"on");
    event.push(Value::Label(1, Some(label)));
    event.push(Value::Label(2, None));
    event.push(Value::List(2));
    event.push(Value::signed(1));
    event.push(Value::List(0));
    event.push(Value::Group(1));
    event.push_text(b"x");
    event.push(Value::signed(3));
}

const KINDS: [&str; 10] = ["hex", "oct", "bin", "half", "infinite", "text", "label", "none", "list", "group"];

#[test]
fn contexts_are_left_to_the_programs() {
    let fill = |event: &mut Event| [1, 2].into_iter().for_each(|number| event.push(Value::signed(number)));
    let listed = |fields: [&str; 2], format| listed_event("e:f", &fields, fill, format);
    assert!(listed(["a", "$ctx.flags"], TEXT).ends_with(" e:f a = 1\n"));
    assert!(listed(["$ctx.a", "$ctx.flags"], TEXT).ends_with(" e:f\n"));
    assert!(listed(["a", "$ctx.flags"], ListingFormat::Json).contains(r#""fields":{"a":1,"$ctx.flags":2}"#));
}

#[test]
fn text_shows_values_of_all_kinds() {
    let expected = "0.000000000 cpu? ?/7              a:b hex = 0xff, oct = -0o10, bin = 0b101, half = 0.5, \
        infinite = -Infinity, text = \"a \\\"b\\\"\\\\\\n\\t\\x1b[31m\u{fffd}\\u{202e}\", label = on (1), none = 2, \
        list = [1, []], group = {x = 3}\n";
    assert_eq!(listed_event("a:b", &KINDS, all_kinds, TEXT), expected);
}

#[test]
fn json_has_values_of_all_kinds() {
    let lines = listed_event("a:b", &KINDS, all_kinds, ListingFormat::Json);
    let [schema, event] = lines.lines().collect::<Vec<_>>()[..] else { panic!("{lines}") };
    assert_eq!(schema, r#"{"schema":"sordino-events","version":1}"#);
    let read: serde_json::Value = serde_json::from_str(event).unwrap();
    let expected = serde_json::json!({
        "type": "event", "time_ns": 0, "cpu": null, "pid": null, "tid": 7, "comm": null,
        "domain": "user", "name": "a:b",
        "fields": {
            "hex": 255, "oct": -8, "bin": 5, "half": 0.5, "infinite": "-Infinity",
            "text": "a \"b\"\\\n\t\u{1b}[31m\u{fffd}\u{202e}",
            "label": {"value": 1, "label": "on"}, "none": {"value": 2, "label": null},
            "list": [1, []], "group": {"x": 3},
        },
    });
    assert_eq!(read, expected);
}

/// Two threads, a loss of the program and one of the kernel, and time that goes back.
fn script() -> Script {
    let mut script = Script::new();
    script.at(1000).cpu(1).switch(NPT, RUNNABLE, HOG);
    script.at(2000).user("npt:loop", NPT, &[]);
    script.at(3000).lose_user(NPT, 4000, 1).lose_kernel(5000, 12);
    script.at(1500).user("npt:loop", HOG, &[]);
    script.disordered = true;
    script
}

#[test]
fn events_losses_and_disorder_have_a_line_each() {
    let expected = "\
0.000001000 cpu1 npt/10           sched_switch prev_comm = \"npt\", prev_tid = 10, prev_prio = 4, \
prev_state = 256, next_comm = \"hog\", next_tid = 123, next_prio = 3
0.000002000 cpu1 npt/10           npt:loop
-- 1 record of process 10 lost on cpu1 between 0.000003000 and 0.000004000 (ring full)
-- 12 records of the kernel lost on cpu1 between 0.000003000 and 0.000005000 (kernel buffer overrun)
-- time went back by 1.50 us in source 0; the next event was moved to 0.000003000
0.000003000 cpu1 hog/123          npt:loop
";
    assert_eq!(listed(&script(), TEXT), expected);
}

/// Directories can have any name.
#[test]
fn a_corrupt_stretch_has_its_place_which_no_name_can_fake() {
    let mut script = Script::new();
    script.at(3000).cpu(1).corrupt(4000, "a\n-- \"\x1b[2J/cpu1, stream 0, packet 7, byte 4096");
    let expected = "\
-- unknown number of records of the kernel lost on cpu1 between 0.000003000 and 0.000004000 (bytes do not make sense: \
a\\n-- \"\\x1b[2J/cpu1, stream 0, packet 7, byte 4096)
";
    assert_eq!(listed(&script, TEXT), expected);
    let read: serde_json::Value =
        serde_json::from_str(listed(&script, ListingFormat::Json).lines().nth(1).unwrap()).unwrap();
    assert_eq!(read["place"], "a\n-- \"\x1b[2J/cpu1, stream 0, packet 7, byte 4096");
}

#[test]
fn colours_tell_programs_the_kernel_and_warnings_apart() {
    let colored = listed(&script(), COLOR);
    for part in [
        "\x1b[36msched_switch\x1b[0m ",
        "\x1b[32mnpt:loop\x1b[0m",
        "\x1b[33m-- 12 records",
        "\x1b[33m-- time",
    ] {
        assert!(colored.contains(part), "{part:?} in {colored}");
    }
    let codes = ["\x1b[0m", "\x1b[32m", "\x1b[33m", "\x1b[36m"];
    let plain = codes.iter().fold(colored, |text, code| text.replace(code, ""));
    assert_eq!(plain, listed(&script(), TEXT));
}

#[test]
fn json_tells_losses_and_disorder() {
    let lines = listed(&script(), ListingFormat::Json);
    let read: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = serde_json::json!([
        {"type": "loss", "from_ns": 3000, "to_ns": 4000, "cpu": 1, "pid": 10, "count": 1, "cause": "ring full"},
        {"type": "loss", "from_ns": 3000, "to_ns": 5000, "cpu": 1, "pid": null, "count": 12,
            "cause": "kernel buffer overrun"},
        {"type": "disorder", "source": 0, "time_ns": 3000, "back_ns": 1500},
    ]);
    assert_eq!(serde_json::Value::from(read[3..6].to_vec()), expected);
    assert_eq!((&read[1]["domain"], &read[1]["comm"]), (&"kernel".into(), &"npt".into()));
}

#[test]
fn a_trace_without_events_is_still_json_of_a_schema() {
    let lines = listed(&Script::default(), ListingFormat::Json);
    assert_eq!(lines, "{\"schema\":\"sordino-events\",\"version\":1}\n");
}

#[test]
fn lists_in_lists_end_somewhere() {
    let deep = |event: &mut Event| (0..100_000).for_each(|_| event.push(Value::List(1)));
    let text = listed_event("a:b", &["deep"], deep, TEXT);
    assert!(text.ends_with(&format!("{}...{}\n", "[".repeat(64), "]".repeat(64))), "{text}");
    let json = listed_event("a:b", &["deep"], deep, ListingFormat::Json);
    assert!(json.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{json}");
}

/// Adds the events of one step in the life of threads whose names change, with events in between that change none.
fn live(script: &mut Script, step: u8) {
    let named = |name: &'static str| ScriptThread(NPT.0, name, NPT.2);
    match step {
        0 => script.user("npt:loop", NPT, &[]),
        1 => script.of(NPT.0).user("npt:loop", ScriptThread(11, "", 120), &[]),
        2 => script.user("$ctx:named", NPT, &[("$ctx.procname", V::T("by itself"))]),
        3 => script.switch(named("late"), RUNNABLE, HOG),
        4 => script.switch(HOG, RUNNABLE, named("later")),
        5 => script.kernel("task_rename", &[("tid", V::I(NPT.0.into())), ("newcomm", V::T("renamed"))]),
        6 => script.kernel("sched_process_free", &[("tid", V::I(NPT.0.into()))]),
        7 => script.by(NPT).kernel("of_no_meaning", &[]),
        8 => {
            let fields =
                [("pid", V::I(NPT.0.into())), ("vtid", V::I(NPT.0.into())), ("comm", V::T("context"))];
            script.kernel("sordino_context_comm", &fields)
        }
        // Another process has a thread with the same id, as in another pid namespace.
        9 => script.of(HOG.0).user("npt:loop", NPT, &[]).of(NPT.0),
        10 => script.cpu(2),
        _ => script.cpu(1),
    };
}

proptest! {
    #[test]
    fn what_a_listing_remembers_of_threads_is_what_it_finds_anew(steps in vec(0..12_u8, 1..60)) {
        let mut script = Script::new();
        script.cpu(1);
        script.programs.push((Pid(NPT.0), "program"));
        for (time, step) in (1..).zip(&steps) {
            live(script.at(time), *step);
        }
        let mut anew = Vec::new();
        script.play(|item| Listing::new(&script.classes, TEXT).write(item, &mut anew).unwrap());
        prop_assert_eq!(listed(&script, TEXT), String::from_utf8(anew).unwrap());
    }

    #[test]
    fn nothing_in_an_event_breaks_its_line(name in any::<String>(), field in any::<String>(), text: Vec<u8>, length: u32) {
        let fill = |event: &mut Event| {
            event.push_text(&text);
            // Fewer values follow than the group declares.
            event.push(Value::Group(length));
            event.push_text(&text);
        };
        let line = listed_event(&name, &[&field, "group"], fill, TEXT);
        prop_assert_eq!(line.find(char::is_control), Some(line.len() - 1), "{:?}", line);
        let lines = listed_event(&name, &[&field, "group"], fill, ListingFormat::Json);
        prop_assert_eq!(lines.lines().count(), 2);
        let event: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        prop_assert_eq!(&event["name"], &serde_json::Value::from(name));
    }

    #[test]
    fn numbers_are_written_exactly(values in vec(any::<i64>(), 1..4), float in any::<f64>()) {
        let fill = |event: &mut Event| {
            event.push(Value::List(values.len() as u32));
            values.iter().for_each(|value| event.push(Value::signed(*value)));
            event.push(Value::Float(float));
        };
        let text = listed_event("a:b", &["list", "float"], fill, TEXT);
        prop_assert!(text.contains(&format!("list = {values:?}, ")), "{}", text);
        let json = listed_event("a:b", &["list", "float"], fill, ListingFormat::Json);
        let event: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
        prop_assert_eq!(&event["fields"]["list"], &serde_json::json!(values));
        if float.is_finite() {
            prop_assert_eq!(text.rsplit(' ').next().unwrap().trim().parse::<f64>().unwrap(), float);
        }
    }
}

/// A thread that executes two fibers, and records that contradict each other.
fn fibers() -> Script {
    const A: ScriptThread = ScriptThread(21, "pool", 120);
    let mut script = Script::of_programs();
    script.of(20).at(1).cpu(0).fiber_enter(A).fiber_new(A, 8, "work/6").fiber_switch(A, 0, 8, 5);
    script.at(2).user("app:step", A, &[]).fiber_switch(A, 8, 0, 4);
    script.at(3).lose_user(A, 4, 1).at(5).user("app:step", A, &[]).fiber_wake(A, 9, 0);
    script
}

#[test]
fn a_program_with_fibers_has_a_column_for_them() {
    let text = listed(&fibers(), TEXT);
    let columns = |line: &str| line.get(12..).unwrap_or_default().to_owned();
    let lines: Vec<String> = text.lines().skip(3).map(columns).collect();
    assert_eq!(
        lines,
        [
            "cpu0 ?/21             8(work/6)    app:step",
            "cpu0 ?/21             8(work/6)    sordino_fiber:switch from = 8, to = 0, why = 4, on = \"a lock\"",
            "of process 20 lost on cpu0 between 0.000000003 and 0.000000004 (ring full)",
            "cpu0 ?/21             ?            app:step",
            "cpu0 ?/21             ?            sordino_fiber:wake fiber = 9, by = 0",
        ],
        "{text}"
    );
    let json = listed(&fibers(), ListingFormat::Json);
    let with = |part: &str| json.lines().filter(|line| line.contains(part)).count();
    assert_eq!(with(r#""fiber":8,"fiber_name":"work/6","fiber_known":true"#), 2, "{json}");
    assert_eq!(with(r#""fiber":null,"fiber_name":null,"fiber_known":false"#), 2, "{json}");
}

#[test]
fn a_contradiction_has_a_line_before_its_event() {
    let mut script = fibers();
    script.of(30).at(9).fiber_wake(ScriptThread(31, "other", 120), 7, 0);
    let text = listed(&script, TEXT);
    let line = "-- contradiction at 0.000000009 in process 30, thread 31: no record made fiber 7, known from here on";
    assert!(text.contains(line), "{text}");
    let json = listed(&script, ListingFormat::Json);
    let object = r#"{"type":"contradiction","time_ns":9,"pid":30,"tid":31,"kind":"unmade","text":"#;
    assert!(json.contains(object), "{json}");
}
