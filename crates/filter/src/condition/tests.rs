//! The language of conditions, on records of one tracepoint that has a field of every kind.

use super::*;
use sordino_event::{Classes, Domain, Event, Field, Level, MAX_NAME, Range, Tid, Time, Type, Value};
use sordino_filter_vm::{Op, Sole};
use std::sync::Arc;

const FIELDS: [(&str, &str); 15] = [
    ("count", "u64"),
    ("delta", "i32"),
    ("port", "u16n"),
    ("ratio", "f64"),
    ("small", "f32"),
    ("ok", "bool"),
    ("state", "enum:u8"),
    ("label", "text:6"),
    ("data", "[i16;3]"),
    ("path", "string"),
    ("after", "u32"),
    ("list", "[u16n]"),
    ("states", "[enum:u8]"),
    ("name", "string"),
    ("last", "i8"),
];

const CONTEXT: Context<'static> = Context { pid: Pid(4711), procname: "motor-main" };

fn schema() -> Schema {
    let mut fields = FIELDS.map(|(name, ty)| Field { name: name.to_owned(), ty: ty.parse().unwrap() });
    let range = |label: &str, low, high| Range { label: label.to_owned(), low, high };
    for field in &mut fields {
        if let Some(enumeration) = field.ty.enumeration_mut() {
            enumeration.ranges = vec![range("Idle", 0, 0), range("Faulty", 5, 9), range("Faulty", 20, 20)];
        }
    }
    let (provider, name) = ("npt".to_owned(), "loop".to_owned());
    Schema { provider, name, level: Level::Notice, location: None, fields: fields.into() }
}

fn payload() -> Vec<u8> {
    [
        &u64::MAX.to_ne_bytes()[..],
        &(-5_i32).to_ne_bytes(),
        &8080_u16.to_be_bytes(),
        &1.5_f64.to_ne_bytes(),
        &0.25_f32.to_ne_bytes(),
        &[7],
        &[6],
        b"abc\0\0\0",
        &[-1_i16, 2, 300].map(i16::to_ne_bytes).concat(),
        b"/dev/x*y\0",
        &7_u32.to_ne_bytes(),
        &2_u16.to_ne_bytes(),
        &[258_u16, 1].map(u16::to_be_bytes).concat(),
        &1_u16.to_ne_bytes(),
        &[20],
        "été\0".as_bytes(),
        &[0xff],
    ]
    .concat()
}

fn compile(text: &str) -> Result<Condition, Invalid> {
    Expression::parse(text)?.compile(&schema(), &CONTEXT)
}

fn met(text: &str) -> bool {
    match compile(text).unwrap_or_else(|invalid| panic!("{}", invalid.picture(text))) {
        Condition::Always => true,
        Condition::Never => false,
        Condition::Code(code) => holds(&code, &payload(), 42),
    }
}

/// Checks that a condition holds as expected, and that its negation does not.
fn check(text: &str, expected: bool) {
    assert_eq!((met(text), met(&format!("!({text})"))), (expected, !expected), "{text}");
}

fn refused(text: &str) -> String {
    let invalid = compile(text).expect_err(text);
    assert!(text.get(invalid.at.clone()).is_some(), "{text}: {invalid:?}");
    invalid.picture(text)
}

#[test]
fn every_kind_of_field_is_compared() {
    for text in [
        "count == 18446744073709551615",
        "count > 0xffff_ffff_ffff_fffe",
        "delta == -5",
        "-6 < delta",
        "port == 8080",
        "ratio >= 1.5",
        "ratio < 2",
        "small == 0.25",
        "ok == 1",
        "state == 6",
        "label == \"abc\"",
        "path != \"\"",
        "after == 7",
        "last == -1",
    ] {
        check(text, true);
    }
    for text in
        ["count < 5", "delta != -5", "port == 36895", "ratio > 1.5", "ok == 7", "after != 7", "last == 255"]
    {
        check(text, false);
    }
}

#[test]
fn operators_bind_as_in_rust() {
    for text in [
        "2 + 3 * 4 == 14",
        "(2 + 3) * 4 == 20",
        "10 - 3 - 2 == 5",
        "7 & 4 == 4",
        "1 | 6 ^ 2 == 5",
        "1 << 2 + 1 == 8",
        "-3 + 5 == 2",
        "~0 == -1",
        "- -1 == 1",
        "0 == 1 && 0 == 1 || 1 == 1",
        "after & 3 == 3 && after >> 1 == 3",
        "!(after == 8) && !(delta > 0)",
        "count + 1 == 1 << 64",
        "delta % 3 == -2",
        "ratio * 2 == 3",
        "after / 2.0 == 3.5",
    ] {
        check(text, true);
    }
}

#[test]
fn numbers_have_bases_underscores_and_units() {
    for text in [
        "0x1F == 31",
        "0o17 == 15",
        "0b1_01 == 5",
        "1_000 == 1000",
        "1us == 1000ns",
        "1.5ms == 1_500_000",
        "2 s == 2000ms",
        "1h == 60m",
        "1m == 60s",
        "1e3 == 1000",
        "2.5e-1 == 0.25",
        "0x1f_ffff_ffff_ffff_ffff > 18446744073709551615",
    ] {
        check(text, true);
    }
}

#[test]
fn texts_match_patterns() {
    for text in [
        "path == \"/dev/*\"",
        "path == \"/dev/x\\*y\"",
        "path == \"*\"",
        "path != \"/dev/x\"",
        "\"/dev/x?y\" == path",
        "name == \"?t?\"",
        "name != \"??\"",
        "label == \"a*\"",
        "label != \"abcd\"",
    ] {
        check(text, true);
    }
    check(r#"path == "/dev/x\?y""#, false);
}

#[test]
fn labels_stand_for_their_values() {
    check("state == \"Faulty\"", true);
    check("state == \"Idle\"", false);
    check("state != \"Idle\"", true);
    check("state == \"*\"", true);
    check("states[0] == \"Faulty\"", true);
    check("states[0] != \"Fault?\"", false);
}

#[test]
fn elements_count_from_zero() {
    for text in
        ["data[0] == -1", "data[2] == 300", "list[0] == 258", "list[1] == 1", "list[0] - list[1] == 257"]
    {
        check(text, true);
    }
}

#[test]
fn what_cannot_be_compared_holds_neither_plainly_nor_negated() {
    for text in [
        "data[3] == 0",
        "data[3] != 0",
        "list[2] < 70000",
        "list[2] >= 0",
        "list[65536] != 1",
        "states[1] != \"Idle\"",
        "after / (state - 6) == 0",
        "after % 0 == 0",
        "after << 128 == 0",
        "after >> -1 == 0",
        "0.0 / 0 != 1",
        "ratio / 0 * 0 != 1",
        "-(data[3]) < 1",
        "data[3]",
    ] {
        assert_eq!((met(text), met(&format!("!({text})"))), (false, false), "{text}");
        check(&format!("{text} || after == 7"), true);
        assert!(!met(&format!("!({text} && after == 7)")), "{text}");
        check(&format!("{text} && after == 8"), false);
    }
}

#[test]
fn a_number_alone_asks_whether_it_is_not_zero() {
    check("ok", true);
    check("!ok || after == 8", false);
    check("after & 8", false);
    check("after & 8 || list[0]", true);
}

#[test]
fn what_is_known_beforehand_needs_no_code() {
    for text in [
        "$pid == 4711",
        "$procname == \"motor*\"",
        "\"npt\" == $provider",
        "$name != \"period\"",
        "$level <= notice",
        "$level > warning",
        "debug-system > $level",
        "$level == \"notice\"",
        "$level < 6 && $pid > 1",
        "count >= 0",
        "state < 256",
        "ok <= 1",
    ] {
        assert_eq!(compile(text), Ok(Condition::Always), "{text}");
        assert_eq!(compile(&format!("!({text})")), Ok(Condition::Never), "{text}");
        let Ok(Condition::Code(left)) = compile(&format!("{text} && after == 7")) else { panic!("{text}") };
        assert_eq!(Ok(Condition::Code(left)), compile("after == 7"), "{text}");
    }
    assert_eq!(compile("delta < -3000000000"), Ok(Condition::Never));
    check("$tid == 42", true);
}

#[test]
fn one_integer_and_constants_are_one_operation() {
    for text in
        ["count > 50us", "5 >= delta", "port != 3 + 4", "data[1] == 2", "!(ok == 0)", "state == 3", "!state"]
    {
        let Ok(Condition::Code(code)) = compile(text) else { panic!("{text}") };
        let interval = Sole::of(&code).and_then(Sole::interval);
        assert!(interval.is_some(), "{text}: {code:?}");
        for payload in [&payload()[..], &payload()[..1], &[0; 200], &[0xff; 200]] {
            assert_eq!(
                interval.map(|interval| interval.holds(payload)),
                Some(holds(&code, payload, 1)),
                "{text}"
            );
        }
    }
}

#[test]
fn a_gate_lets_through_what_its_code_holds_of() {
    let texts = [
        "last < 5",
        "last >= -3",
        "last != 3",
        "last == -1",
        "!(last == 0)",
        "3 <= last",
        "last - 200 > 20",
        "last",
    ];
    let types = ["u8", "i8", "u16x", "i16", "u32n", "i32x", "u64", "i64n", "bool", "enum:i16"];
    let mut inlined = 0;
    for (ty, text) in types.into_iter().flat_map(|ty| texts.map(|text| (ty, text))) {
        let last = Field { name: "last".to_owned(), ty: ty.parse().unwrap() };
        let Type::Scalar(scalar) = last.ty.clone() else { panic!("{ty}") };
        let before = Field { name: "before".to_owned(), ty: "[u8;4]".parse().unwrap() };
        let schema = Schema { fields: vec![before, last], ..schema() };
        let Ok(Condition::Code(code)) = Expression::parse(text).unwrap().compile(&schema, &CONTEXT) else {
            continue;
        };
        let Some(InlineComparison { field, low, span }) = InlineComparison::of(&code, &schema) else {
            continue;
        };
        inlined += 1;
        for value in (-300..300).chain([i64::MIN, i64::MAX]) {
            let bytes = if ty.ends_with('n') { value.to_be_bytes() } else { value.to_ne_bytes() };
            let size = scalar.bytes() as usize;
            let stored = if ty.ends_with('n') { &bytes[8 - size..] } else { &bytes[..size] };
            let stored: &[u8] = if ty == "bool" { &[u8::from(value & 1 != 0)] } else { stored };
            let payload = [&[9; 4], stored].concat();
            let shift = 64 - 8 * size;
            // The value that the program passes: its own type, extended to 64 bits.
            let extended = match &ty[..1] {
                "b" => u64::from(stored[0]),
                "u" => (value as u64) << shift >> shift,
                _ => (value << shift >> shift) as u64,
            };
            let passes = extended.wrapping_sub(low) <= span;
            assert_eq!((field, passes), (1, holds(&code, &payload, 1)), "{text} of {ty} {value}");
        }
    }
    assert!(inlined > 50, "{inlined}");
}

#[test]
fn a_gate_is_for_one_comparison_of_a_whole_field_that_has_its_place() {
    let comparison = |text| match compile(text) {
        Ok(Condition::Code(code)) => InlineComparison::of(&code, &schema()),
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(comparison("port == 8080"), Some(InlineComparison { field: 2, low: 8080, span: 0 }));
    assert_eq!(comparison("state == 3").map(|comparison| comparison.field), Some(6));
    for text in [
        "data[0] == 2",
        "after == 7",
        "ratio > 1.0",
        "count == 1 || delta == 2",
        "$tid == 1",
        "path == \"x\"",
    ] {
        assert_eq!(comparison(text), None, "{text}");
    }
}

#[test]
fn the_base_is_moved_no_more_than_it_must_be() {
    let ops = |text: &str| {
        let Ok(Condition::Code(code)) = compile(text) else { panic!("{text}") };
        let mut rest = &code[..];
        let mut ops = Vec::new();
        while let Some(op) = Op::read(&mut rest) {
            ops.push(op);
        }
        assert!(rest.is_empty());
        ops.into_iter()
            .filter(|op| matches!(op, Op::Start | Op::PastString { .. } | Op::PastSequence { .. }))
            .count()
    };
    assert_eq!(ops("after > 1 && after < 9"), 1);
    assert_eq!(ops("after > 1 && last < 9"), 4);
    assert_eq!(ops("last < 9 && after > 1"), 6);
    // The base has been moved on only one of the ways to the last test.
    assert_eq!(ops("(count == 1 || after == 2) && last == 3"), 6);
    check("(count > 1 || after == 2) && last == -1", true);
    check("(count < 1 || after == 7) && last == -1", true);
}

#[test]
fn code_that_no_compiler_wrote_gets_an_answer() {
    // A full stack; operands missing for a calculation and for a comparison; a jump behind the end; a truncated
    // operation.
    for code in
        [&[0x24; 2 * MAX_CODE][..], &[0x30; 9], &[0x40; 9], &[0x51, 0xff, 0xff, 0x40], &[0x10, 0x06], &[0xff]]
    {
        assert!(!holds(code, &payload(), 1), "{code:?}");
    }
}

/// The bytes that `docs/conditions.md` shows.
#[test]
#[cfg(target_endian = "little")]
fn code_is_the_bytes_that_are_documented() {
    let code = |text| match compile(text) {
        Ok(Condition::Code(code)) => {
            code.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(code("delta >= -2"), "10 06 08 00 fe ff ff ff ff ff ff ff 01 00 00 80 00 00 00 00");
    assert_eq!(
        code("path == \"/dev/*\" && $tid != 1"),
        "12 28 00 ff ff 06 2f 64 65 76 2f 2a 51 0b 00 24 20 01 00 00 00 00 00 00 00 41"
    );
    assert_eq!(
        code("ratio * 2 > 3.5"),
        "23 13 0e 00 20 02 00 00 00 00 00 00 00 32 22 00 00 00 00 00 00 0c 40 44"
    );
    assert_eq!(
        code("list[1] == 9"),
        "02 28 00 04 04 00 02 01 00 10 09 00 00 09 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
    );
}

#[test]
fn errors_name_the_place_and_the_remedy() {
    let cases = [
        ("duration > 50 uss", "^^^ no unit of time: ns, us, ms, s, m, h"),
        ("count >", "^ a field, a number, a text or '(' is missing here"),
        ("count = 5", "^ equality is written =="),
        ("count > 5 after < 3", "^^^^^ no unit of time"),
        ("(count > 5", "^ the parenthesis that closes this one is missing"),
        ("(count > ok ok", "^^ an operator or ')' is missing before this"),
        ("count ok", "^^ an operator is missing before this"),
        ("1 < count < 5", "^ one comparison at a time: connect two with &&"),
        ("path == \"x", "^^ the quote that ends this text is missing"),
        (r#"path == "a\nb""#, r#"^^ no escape: there are \" \\ \* \?"#),
        (
            "$core == 1",
            "^^^^^ no such variable; there are $tid, $pid, $procname, $level, $provider, $name, $cpu, $comm, $prio, $host,",
        ),
        ("$cpu == 1", "^^^^ $cpu is known of recorded events only"),
        ("!($comm == \"x\")", "^^^^^ $comm is known of recorded events only"),
        ("$level < loud", "^^^^ no level; there are emergency, alert,"),
        ("data[-1] == 0", "^ an element's number is missing here: 0 is the first"),
        ("data[1 == 0", "^^ ']' is missing here"),
        ("0b12 == 1", "^ 2 is no digit of a number with base 2"),
        ("0x == 1", "^ digits are missing"),
        ("1__ == 1", "^^^ digits are missing"),
        ("1.5ns == 1", "^^^^^ no whole number of nanoseconds"),
        ("1e3us == 1", "^^^^^ a time is written without an exponent"),
        ("1e999 == 1", "^^^^^ too large a number"),
        (
            "after == 170141183460469231731687303715884105728",
            "^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ too large a number",
        ),
        ("count § 1", "^ '§' means nothing in a condition"),
        ("countt > 1", "^^^^^^ no field 'countt': npt:loop has count, delta, port,"),
        ("count == \"x\"", "^^^^^ 'count' (u64) is not compared with a text"),
        ("path == 5", "^^^^ 'path' (string) is compared with a text in quotes only"),
        ("path == name", "^^^^ 'path' (string) is compared with a text in quotes only"),
        ("\"a\" == \"b\"", "^^^ a text is not compared with a text"),
        ("path < \"x\"", "^^^^^^^^^^ texts and labels are compared with == and != only"),
        ("path + 1 == 2", "^^^^ 'path' (string) is no number"),
        ("path", "^^^^ 'path' (string) is no number"),
        ("$procname + 1 == 2", "^^^^^^^^^ $procname is no number"),
        ("state == \"Broken\"", "^^^^^^^^ no such label: 'state' (enum:u8) has Idle, Faulty, Faulty"),
        ("data == 5", "^^^^ 'data' ([i16;3]) is many values: choose one, as in data[0]"),
        ("count[0] == 5", "^^^^^^^^ 'count' (u64) has no elements"),
        ("ratio & 1 == 1", "^^^^^ 'ratio' (f64) is no integer: it has no bits to work on"),
        ("~(ratio + 1) == 1", "^^^^^^^^^ a number is no integer: it has no bits to work on"),
        ("!ok == 1", "^^^ a condition is no number"),
    ];
    for (text, expected) in cases {
        let picture = refused(text);
        assert!(
            picture.contains(&format!(" {expected}")) || picture.contains(&format!("\n{expected}")),
            "{picture}"
        );
    }
}

#[test]
fn there_are_limits_to_length_depth_and_size() {
    let deep = |levels: usize| format!("{}ok{}", "(".repeat(levels), ")".repeat(levels));
    assert!(met(&deep(63)));
    assert!(refused(&deep(100_000 / 50)).contains("nested too deeply"));
    assert!(refused(&"!".repeat(70)).contains("nested too deeply"));
    assert!(refused(&format!("after{} == 1", " + 1".repeat(64))).contains("nested too deeply"));
    assert!(refused(&" ".repeat(4097)).contains("too long: 4097 bytes"));
    assert!(met(&format!("ok{}", " || after == 1".repeat(20))));
    assert!(
        refused(&format!("ok{}", " || after == 1".repeat(30)))
            .contains("bytes of code for this tracepoint, at most 512")
    );
    assert!(refused(&format!("path == \"{}\"", "x".repeat(MAX_NAME + 1))).contains("at most 255 bytes"));
    let right = |levels: usize| format!("{}after{} == 0", "after - (".repeat(levels), ")".repeat(levels));
    assert!(met(&right(7).replace("== 0", "== after")) != met(&right(6).replace("== 0", "== after")));
    assert!(refused(&right(8)).contains("too many numbers wait"));
}

#[test]
fn a_field_far_behind_is_refused_as_what_it_is() {
    let mut schema = schema();
    schema.fields.insert(0, Field { name: "huge".to_owned(), ty: "[u64;9000]".parse().unwrap() });
    let compile = |text: &str| Expression::parse(text).unwrap().compile(&schema, &CONTEXT);
    assert!(compile("huge[8191] == 1").is_ok());
    for text in ["huge[8192] == 1", "count == 1", "last == 1", "path == \"x\""] {
        assert!(
            compile(text).unwrap_err().message.contains("does not lie within the first 65535 bytes"),
            "{text}"
        );
    }
}

#[test]
fn a_truncated_payload_meets_no_comparison() {
    for text in
        ["last == -1", "last != 5", "name == \"*\"", "name != \"x\"", "list[1] == 1", "after + 0 == 7"]
    {
        let Ok(Condition::Code(code)) = compile(text) else { panic!("{text}") };
        assert!(holds(&code, &payload(), 0), "{text}");
        assert!(!holds(&code, &payload()[..45], 0), "{text}");
    }
}

#[test]
fn a_missing_field_is_found_wherever_it_stands() {
    let missing = |text: &str, fields: &[&str]| {
        Expression::parse(text).unwrap().missing_field(fields).map(str::to_owned)
    };
    let fields = ["count", "after", "path"];
    assert_eq!(missing("count > 1 && !(after + absent[2] == 2)", &fields).as_deref(), Some("absent"));
    assert_eq!(missing("$level <= warning && path == 3", &fields), None);
}

#[test]
fn a_fiber_is_compared_by_its_number_and_by_its_name() {
    let class = Class::new(Domain::User, "net:request", [""; 0]);
    let event = Event::default();
    let is_met = |text: &str, fiber| {
        let known = Known { fiber, ..Known::default() };
        Expression::parse(text).unwrap().for_class(&class).unwrap().is_met_by(&event, &known).unwrap()
    };
    let worker = Some((7, Some("worker-1")));
    assert!(is_met("$fiber == 7 && $fiber == \"worker*\" && $fiber + 1 == 8", worker));
    assert!(!is_met("$fiber == 8 || $fiber == \"w\"", worker));
    assert!(is_met("$fiber == 7", Some((7, None))) && !is_met("$fiber == \"*\"", Some((7, None))));
    assert!(!is_met("$fiber == 7 || $fiber != 7", None));
}

#[test]
fn functions_are_compared_by_their_addresses_once_these_are_known() {
    let field = Field { name: "function".to_owned(), ty: "u64x".parse().unwrap() };
    let schema = Schema { fields: vec![field], ..schema() };
    let compiled = |text: &str| {
        let expression = Expression::parse(text).unwrap();
        assert!(expression.names_functions(), "{text}");
        assert_eq!(expression.missing_field(&["address"]), Some("function"), "{text}");
        assert_eq!(
            expression.compile(&schema, &CONTEXT),
            Ok(Condition::Never),
            "{text}: no program is known"
        );
        let resolved = expression.with_functions(&mut |pattern| match pattern {
            "solve" => vec![0x10..=0x10],
            "step_*" => vec![0x20..=0x40, 0x80..=0x80],
            _ => Vec::new(),
        });
        resolved.compile(&schema, &CONTEXT)
    };
    let recorded = |text: &str| {
        let Ok(Condition::Code(code)) = compiled(text) else { panic!("{text}") };
        [0x10_u64, 0x11, 0x20, 0x30, 0x40, 0x41, 0x80]
            .map(|function| holds(&code, &function.to_ne_bytes(), 0))
    };
    let solve = [true, false, false, false, false, false, false];
    assert_eq!(recorded("$function == \"solve\""), solve);
    assert_eq!(recorded("\"solve\" == $function"), solve);
    assert_eq!(recorded("!($function != \"solve\")"), solve);
    assert_eq!(recorded("$function == \"step_*\""), [false, false, true, true, true, false, true]);
    assert_eq!(
        recorded("$function == \"step_*\" && !($function == \"solve\") && function < 0x80"),
        [false, false, true, true, true, false, false]
    );
    assert_eq!(compiled("$function == \"unknown\""), Ok(Condition::Never));
    let Ok(Condition::Code(code)) = compiled("$function == \"solve\"") else { panic!() };
    let filter = InlineComparison { field: 0, low: 0x10, span: 0 };
    assert_eq!(InlineComparison::of(&code, &schema), Some(filter));
}

#[test]
fn functions_are_compared_with_texts_only() {
    let field = Field { name: "function".to_owned(), ty: "u64x".parse().unwrap() };
    let schema = Schema { fields: vec![field], ..schema() };
    for text in ["$function == 16", "$function < \"solve\"", "$function"] {
        assert!(Expression::parse(text).unwrap().compile(&schema, &CONTEXT).is_err(), "{text}");
        assert!(recorded(text, "sordino_function:entry", 0x10).is_err(), "{text}");
    }
}

/// The functions of process 7.
#[derive(Debug)]
struct Functions;

impl FunctionNames for Functions {
    fn name(&self, pid: Pid, address: u64) -> Option<Arc<str>> {
        (pid == Pid(7) && address == 0x10).then(|| "Solver::step(int)".into())
    }

    fn unnamed(&self) -> usize {
        0
    }
}

/// Returns true if an event of process 7 about the function at this address meets the condition.
fn recorded(text: &str, event: &str, function: u64) -> Result<bool, Invalid> {
    let mut classes = Classes::default();
    let id = classes.add(Class::new(Domain::User, event, ["function"]));
    let mut decoded = Event::default();
    decoded.begin(Time(1), id);
    decoded.push(Value::unsigned(function));
    let known =
        Known { pid: Some(Pid(7)), tid: Some(Tid(8)), functions: Some(&Functions), ..Known::default() };
    Expression::parse(text).unwrap().for_class(&classes[id]).unwrap().is_met_by(&decoded, &known)
}

#[test]
fn a_recorded_function_is_compared_by_its_name() {
    let entry = |text: &str, function| recorded(text, "sordino_function:entry", function).unwrap();
    for text in
        ["$function == \"Solver::*\"", "\"*step*\" == $function", "!($function != \"Solver::step(int)\")"]
    {
        assert!(entry(text, 0x10), "{text}");
        assert!(!entry(&format!("!({text})"), 0x10), "{text}");
        // Neither holds for a function without a name, nor for another event.
        for (event, function) in [("sordino_function:exit", 0x11), ("timer:entry", 0x10)] {
            assert_eq!(recorded(text, event, function), Ok(false), "{text}");
            assert_eq!(recorded(&format!("!({text})"), event, function), Ok(false), "{text}");
        }
    }
    assert!(entry("$function == \"x\" || $tid == 8", 0x11));
}

#[test]
fn results_wait_for_their_operators_in_any_number() {
    let mut classes = Classes::default();
    let id = classes.add(Class::new(Domain::User, "p:e", ["a"]));
    let mut event = Event::default();
    event.begin(Time(0), id);
    event.push(Value::unsigned(3));
    // Each level keeps two results until that within it is known.
    let (mut text, mut sum) = ("a".to_owned(), 3);
    for _ in 0..9 {
        (text, sum) = (format!("(a * a - -a * (1 + {text}))"), 9 + 3 * (1 + sum));
        let condition = Expression::parse(&format!("{text} == {sum}")).unwrap();
        let condition = condition.for_class(&classes[id]).unwrap();
        assert_eq!(condition.is_met_by(&event, &Known::NOTHING), Ok(true), "{text} == {sum}");
    }
}
