//! The meaning of each type of the format, on traces of a few bytes made by hand.

mod support;

use sordino_ctf::read::Trace;
use sordino_event::{Classes, Domain, Event, Pid, Step, Tid};
use support::{DirectoryContent, read_trace};

/// Returns the metadata of a trace with one event class.
fn metadata(order: &str, definitions: &str, fields: &str) -> String {
    format!(
        "/* CTF 1.8 */ typealias integer {{ size = 8; }} := u8; typealias integer {{ size = 16; }} := u16;
         trace {{ major = 1; minor = 8; byte_order = {order}; }}; {definitions}
         event {{ name = e; fields := struct {{ {fields} }}; }};"
    )
}

/// Returns the events in `bytes` as text, and the number of losses.
fn events(metadata: &str, bytes: &[u8]) -> (Vec<String>, usize) {
    let mut classes = Classes::default();
    let files = [("file".into(), bytes.to_vec())];
    let trace = Trace::from_memory(metadata.as_bytes(), files, &mut classes).unwrap();
    let mut reading = DirectoryContent::default();
    read_trace(&trace, &classes, &mut reading);
    (reading.events.into_iter().map(|(_, text)| text).collect(), reading.losses.len())
}

/// Returns the payload of the only event in `bytes`.
fn payload(order: &str, fields: &str, bytes: &[u8]) -> String {
    let (events, losses) = events(&metadata(order, "", fields), bytes);
    assert_eq!((events.len(), losses), (1, 0), "{events:?}");
    events[0].strip_prefix("e - - ").and_then(|text| text.strip_suffix(" {}")).unwrap().to_owned()
}

fn complaint(definitions: &str, fields: &str) -> String {
    let text = metadata("le", definitions, fields);
    Trace::from_memory(text.as_bytes(), [], &mut Classes::default()).unwrap_err().to_string()
}

#[test]
fn bits_are_counted_from_the_end_that_the_byte_order_says() {
    let fields = "integer { size = 3; } a; integer { size = 5; signed = true; } b; integer { size = 12; } c;
        integer { size = 4; } d;";
    // The values are 001, 11111, 0x123, 0x4.
    assert_eq!(payload("be", fields, &[0b0011_1111, 0x12, 0x34]), "{a1 b-1 c291 d4}");
    assert_eq!(payload("le", fields, &[0b1111_1001, 0x23, 0x41]), "{a1 b-1 c291 d4}");
    assert_eq!(
        payload("le", "u16 a; integer { size = 16; byte_order = be; } b;", &[1, 2, 1, 2]),
        "{a513 b258}"
    );
    let odd = "integer { size = 1; } a; integer { size = 64; align = 1; } b; integer { size = 7; } c;";
    assert_eq!(payload("le", odd, &[1, 0, 0, 0, 0, 0, 0, 0, 0xff]), "{a1 b9223372036854775808 c127}");
}

#[test]
fn fields_start_where_their_alignment_says() {
    let wide = "u8 a; integer { size = 8; align = 32; } b; struct { u8 c; } align(64) d; struct { } align(128) e; u8 f;";
    let mut bytes = [0; 17];
    (bytes[0], bytes[4], bytes[8], bytes[16]) = (1, 2, 3, 4);
    assert_eq!(payload("le", wide, &bytes), "{a1 b2 d{3} e{} f4}");
}

#[test]
fn dimensions_are_read_as_in_c() {
    assert_eq!(payload("le", "u8 a[2][3];", &[1, 2, 3, 4, 5, 6]), "{[[1 2 3] [4 5 6]]}");
    assert_eq!(payload("le", "u8 n; u16 m; u8 a[n][m];", &[2, 1, 0, 7, 8]), "{n2 m1 a[[7] [8]]}");
}

#[test]
fn text_ends_at_the_first_zero() {
    let text = "typealias integer { size = 8; encoding = ASCII; } := char; char a[4]; u8 _b_length; char b[_b_length];";
    assert_eq!(payload("le", text, b"ab\0c\x02xy"), "{a\"ab\" b\"xy\"}");
    assert_eq!(
        payload("le", "integer { size = 8; align = 16; encoding = UTF8; } a[2];", b"a\0b"),
        "{[97 98]}"
    );
    assert_eq!(payload("le", "string a; string { encoding = UTF8; } b;", b"\0x\0"), "{a\"\" b\"x\"}");
}

#[test]
fn only_lengths_that_tracers_made_up_are_hidden() {
    assert_eq!(payload("le", "u8 __a_length; u8 _a[__a_length];", &[1, 5]), "{[5]}");
    assert_eq!(payload("le", "u8 a_length; u8 a[a_length];", &[1, 5]), "{[5]}");
    assert_eq!(payload("le", "u8 n; u8 a[n];", &[1, 5]), "{n1 a[5]}");
    assert_eq!(payload("le", "u8 a_length; u8 x; u8 a[a_length];", &[1, 9, 5]), "{a_length1 x9 a[5]}");
    assert_eq!(payload("le", "u8 a_length; u8 n; u8 a[n];", &[1, 1, 5]), "{a_length1 n1 a[5]}");
}

#[test]
fn the_first_label_counts() {
    let fields = "enum : u8 { none, one, \"a few\" = 1 ... 5, max = 255 } k[4]; enum k2 : u8 { x = 7, y } l;";
    let expected = "{k[(Some(\"none\") 0) (Some(\"one\") 1) (Some(\"a few\") 5) (None 6)] l(Some(\"y\") 8)}";
    assert_eq!(payload("le", fields, &[0, 1, 5, 6, 8]), expected);
    let signed = "enum : integer { size = 8; signed = true; } { low = -128 ... -2, b } k;";
    assert_eq!(payload("le", signed, &[0xff]), "{(Some(\"b\") -1)}");
}

#[test]
fn a_tag_selects_a_variants_option() {
    let fields = "enum : u8 { a = 0, b = 1 ... 9, a = 20, c = 30 } tag; variant v { u16 a; struct { string s; u8 n; } b; };
        struct { variant v <tag> x; } _in;";
    assert_eq!(payload("le", fields, &[20, 1, 2]), "{tag(Some(\"a\") 20) in{{513}}}");
    assert_eq!(payload("le", fields, b"\x05t\0\x07"), "{tag(Some(\"b\") 5) in{{{s\"t\" n7}}}}");
    // There is no option for the first, and no label for the second.
    assert_eq!(events(&metadata("le", "", fields), &[30, 0, 0]), (vec![], 1));
    assert_eq!(events(&metadata("le", "", fields), &[15, 0, 0]), (vec![], 1));
    let underscores = "enum : u8 { a, _a } tag; variant <tag> { u8 a; u16 _a; } x;";
    assert_eq!(payload("le", underscores, &[0, 1]), "{tag(Some(\"a\") 0) x{1}}");
    assert_eq!(payload("le", underscores, &[1, 1, 1]), "{tag(Some(\"_a\") 1) x{257}}");
}

#[test]
fn lengths_are_found_wherever_they_may_be() {
    let definitions = "stream {
        packet.context := struct { struct { u8 n; } p; };
        event.header := struct { u8 id; u8 n; };
        event.context := struct { u8 _n; };
    };";
    let fields =
        "struct { u8 n; } s; u8 a[s.n]; u8 b[stream.packet.context.p.n]; u8 c[stream.event.header.n];
        u8 d[stream.event.context._n]; u8 e[event.fields.s.n]; struct { u8 n; struct { u8 f[n]; } t; } u;";
    let (events, losses) = events(
        &metadata("le", definitions, fields),
        &[
            1, /* header */ 0, 2, /* context */ 0, /* s */ 1, 10, 20, 30, 31, /* e */ 40,
            /* u */ 3, 50, 51, 52,
        ],
    );
    assert_eq!(events, ["e - - {s{1} a[10] b[20] c[30 31] d[] e[40] u{n3 t{[50 51 52]}}} {0}"]);
    assert_eq!(losses, 0);
}

#[test]
fn contexts_tell_who_and_the_rest_follows_the_payload() {
    let text = metadata(
        "le",
        "env { domain = \"kernel\"; vpid = 9; };
         stream { event.context := struct { u8 _vtid; u8 _tid; u8 _cpu_id; string _name; }; };",
        "u8 _x;",
    )
    .replace("fields :=", "context := struct { u8 _pid; u8 _k[2]; }; fields :=");
    let mut classes = Classes::default();
    let files = [("file".into(), b"\x01\x02\x03sh\0\x04\x05\x06\x07".to_vec())];
    let trace = Trace::from_memory(text.as_bytes(), files, &mut classes).unwrap();
    let (mut events, mut event) = (trace.streams()[0].events(), Event::default());
    assert_eq!(events.next(&mut event).unwrap(), Step::Event);
    let class = &classes[event.class];
    assert_eq!(class.domain, Domain::Kernel);
    assert_eq!(class.fields, ["x", "$ctx.vtid", "$ctx.name", "$ctx.k"]);
    assert_eq!((event.tid, event.pid, event.cpu.map(|cpu| cpu.0)), (Some(Tid(2)), Some(Pid(4)), Some(3)));
    assert_eq!((event.integer(0), event.integer(1), event.text(2)), (Some(7), Some(1), Some(&b"sh"[..])));
    assert_eq!(events.next(&mut event).unwrap(), Step::End);
}

#[test]
fn compact_times_wrap_and_clocks_have_offsets() {
    let text = metadata(
        "be",
        "clock { name = c; freq = 3; offset_s = 100; offset = 2; };
         stream {
            packet.context := struct { integer { size = 32; map = clock.c.value; } timestamp_begin; };
            event.header := struct { integer { size = 8; map = clock.c.value; } timestamp; };
         };",
        "",
    );
    let mut classes = Classes::default();
    let files = [("file".into(), vec![0, 0, 1, 250, 251, 251, 4, 3])];
    let trace = Trace::from_memory(text.as_bytes(), files, &mut classes).unwrap();
    let (mut events, mut event, mut times) = (trace.streams()[0].events(), Event::default(), Vec::new());
    while events.next(&mut event).unwrap() == Step::Event {
        times.push(event.time.0);
    }
    let time = |ticks: i64| 100_000_000_000 + (ticks + 2) * 1_000_000_000 / 3;
    assert_eq!(times, [507, 507, 516, 771].map(time));
}

#[test]
fn types_that_cannot_be_are_refused_with_their_place() {
    for (definitions, fields, expected) in [
        ("", "integer { } a;", "no `size`"),
        ("", "integer { size = 0; } a;", "`size` can't be 0"),
        ("", "integer { size = 65; } a;", "`size` can't be 65"),
        ("", "integer { size = 8; align = 3; } a;", "`align` can't be 3"),
        ("", "integer { size = 8; align = 1048576; } a;", "`align` can't be 1048576"),
        ("", "integer { size = 8; base = 7; } a;", "`base` can't be 7"),
        ("", "integer { size = 8; encoding = klingon; } a;", "`encoding` can't be `klingon`"),
        ("", "integer { size = 8; byte_order = pdp; } a;", "`byte_order` can't be `pdp`"),
        (
            "",
            "floating_point { exp_dig = 5; mant_dig = 11; } a;",
            "`floating_point` can't be of 5 + 11 digits",
        ),
        ("", "struct { } align(5) a;", "`align` can't be 5"),
        ("", "enum : u8 { a = 2 ... 1 } a;", "`a` can't be 2 ... 1"),
        ("typealias string := text_t;", "enum : text_t { a } a;", "`enum` is no integer"),
        ("", "enum { a } a;", "unknown type `int`"),
        ("", "u8 a[-1];", "`length` can't be -1"),
        ("", "u8 a[b];", "`b` is no field that lies before this one"),
        ("", "u8 a[b]; u8 b;", "`b` is no field that lies before this one"),
        ("", "string b; u8 a[b];", "`b` is no unsigned integer"),
        ("", "integer { size = 8; signed = true; } b; u8 a[b];", "`b` is no unsigned integer"),
        ("", "u8 t; variant <t> { u8 x; } a;", "`t` is no enumeration"),
        ("", "variant { u8 x; } a;", "variant without a tag"),
        ("", "u8 a[event.fields];", "`event.fields` is no field that lies before this one"),
        ("", "struct nothing a;", "unknown type `struct nothing`"),
        ("", "unsigned long a;", "unknown type `unsigned long`"),
        ("", "string *a;", "expected a name, found `*`"),
        ("", "u8 *a;", "unknown type `u8 *`"),
        ("", "struct { u8 a; };", "expected a name, found `;`"),
        ("typealias u8 := u16;", "", "`u16` is defined twice"),
        (
            "stream { event.header := struct { integer { size = 8; map = clock.c.value; } timestamp; }; };",
            "",
            "unknown clock `clock.c.value`",
        ),
    ] {
        let complaint = complaint(definitions, fields);
        let (place, problem) = complaint.split_once(": ").unwrap();
        assert_eq!(problem, expected);
        assert!(place.strip_prefix("metadata:").is_some_and(|place| place.contains(':')), "{complaint}");
    }
}

#[test]
fn names_of_c_are_understood() {
    let fields =
        "typedef u8 byte_t, pair_t[2]; typealias u16 := unsigned long const *; const byte_t a, b; pair_t c;
        unsigned long * d; struct p { u8 x; }; struct p e; typedef struct { u8 y; } q_t; q_t f;";
    assert_eq!(payload("le", fields, &[1, 2, 3, 4, 5, 0, 6, 7]), "{a1 b2 c[3 4] d5 e{6} f{7}}");
}

/// Each type contains the one before twice: 2^28 parts.
#[test]
fn types_that_grow_without_end_are_refused() {
    for (first, uses) in [("u8 a;", "fields"), ("", "fields"), ("", "context")] {
        let mut definitions = format!("struct s0 {{ {first} }};");
        for level in 1..=28 {
            definitions += &format!("struct s{level} {{ struct s{0} a; struct s{0} b; }};", level - 1);
        }
        let text = metadata("le", &definitions, "struct s28 x;").replace("fields", uses);
        let error = Trace::from_memory(text.as_bytes(), [], &mut Classes::default()).unwrap_err().to_string();
        assert!(error.contains("types with more than 2097152 parts"), "{error}");
    }
    let mut definitions = "struct s0 { };".to_owned();
    for level in 1..=40 {
        definitions += &format!("struct s{level} {{ struct s{} a; }};", level - 1);
    }
    assert!(complaint(&definitions, "").ends_with("more than 32 types or parentheses within each other"));
}

/// The lengths claim more elements, which take no room, than there are.
#[test]
fn lists_that_grow_without_end_are_corrupt() {
    let wide = "typealias integer { size = 64; } := u64; u64 n;";
    for list in
        ["u8 a[n];", "struct { } a[n];", "u8 a[n][0];", "struct { } a[65536][65536];", "string a[n][n];"]
    {
        let bytes = [u64::MAX.to_le_bytes(), [0; 8]].concat();
        assert_eq!(events(&metadata("le", "", &format!("{wide} {list}")), &bytes), (vec![], 1), "{list}");
    }
    // These events take no room.
    assert_eq!(events(&metadata("le", "", ""), &[0; 8]), (vec![], 1));
}
