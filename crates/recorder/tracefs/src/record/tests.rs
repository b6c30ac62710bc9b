use super::*;
use crate::lttng;
use proptest::prelude::*;

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";

fn format(name: &str, id: u16, fields: &[(&str, u32, u32)], print: &str) -> Format {
    let line = |(declaration, offset, size): &(&str, u32, u32)| {
        format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:1;\n")
    };
    let fields: String = fields.iter().map(line).collect();
    let system = name.split('_').next().unwrap();
    Format::parse(system, &format!("name: {name}\nID: {id}\n{COMMON}{fields}print fmt: {print}")).unwrap()
}

fn converter(format: &Format, mapping: impl Fn(&sordino_event::Schema) -> EventConversion) -> Converter {
    Converter::new([(format, &mapping(&format.schema()))]).unwrap()
}

/// A record of event 9 by thread 77 with flags 3 and a preempt count of 0x12.
fn record(parts: &[&[u8]]) -> Vec<u8> {
    [&9u16.to_ne_bytes()[..], &[3, 0x12], &77i32.to_ne_bytes(), &parts.concat()].concat()
}

fn payload(converter: &Converter, record: &[u8]) -> Result<Vec<u8>, Damage> {
    let mut payload = Vec::new();
    converter.convert(record, &mut payload).map(|_| payload)
}

#[test]
fn the_header_is_read() {
    let converter = converter(&format("e", 9, &[], "\"\""), EventConversion::unchanged);
    let header = converter.convert(&record(&[]), &mut Vec::new()).unwrap();
    assert_eq!(header, RecordHeader { event: 0, tid: Tid(77), flags: 3, preempt_count: 0x12 });
}

#[test]
fn aligned_fields_are_packed() {
    let fields = [("u8 a", 8, 1), ("u32 b", 12, 4), ("u32 c", 16, 4), ("char d[3]", 20, 3)];
    let format = format("e", 9, &fields, "\"\"");
    assert_eq!(
        ConversionPlan::new(&format, &EventConversion::unchanged(&format.schema())).0,
        [ConversionStep::Copy { from: 8, to: 9 }, ConversionStep::Copy { from: 12, to: 23 }]
    );
    let record = record(&[&[1, 0xff, 0xff, 0xff], b"bbbb", b"cccc", b"ddd", &[0xff]]);
    assert_eq!(
        payload(&converter(&format, EventConversion::unchanged), &record).unwrap(),
        b"\x01bbbbccccddd"
    );
}

#[test]
fn content_elsewhere_in_the_record_is_found() {
    let fields = [
        ("__data_loc char[] a", 8, 4),
        ("__rel_loc char[] b", 12, 4),
        ("__data_loc u16[] c", 16, 4),
        ("unsigned long d[]", 20, 0),
    ];
    let converter = converter(&format("e", 9, &fields, "\"\""), EventConversion::unchanged);
    let location = |at: u32, length: u32| (length << 16 | at).to_ne_bytes();
    let [text, more, words] = [location(20, 4), location(24 - 16, 3), location(28, 5)];
    // The last field extends from byte 20 to the end: one element, and three bytes that make none.
    let record = record(&[&text, &more, &words, b"abc\0de\0x", &[1, 0, 2, 0, 3, 0, 0]]);
    let expected =
        [&b"abc\0de\0"[..], &2u16.to_ne_bytes(), &[1, 0, 2, 0], &1u16.to_ne_bytes(), b"abc\0de\0x"];
    assert_eq!(payload(&converter, &record).unwrap(), expected.concat());
}

#[test]
fn content_that_lies_outside_is_damage_and_leaves_nothing() {
    let format = format("e", 9, &[("int a", 8, 4), ("__data_loc char[] b", 12, 4)], "\"\"");
    let converter = converter(&format, EventConversion::unchanged);
    for location in [20 | 1 << 16, 16 | 5 << 16, 0xffff_ffff, 21] {
        let record = record(&[b"aaaa", &u32::to_ne_bytes(location), b"text"]);
        let mut payload = b"before".to_vec();
        let damage = converter.convert(&record, &mut payload).unwrap_err();
        assert!(matches!(damage, Damage::Short { length: 20, end } if end > 20), "{location:x}: {damage}");
        assert_eq!(payload, b"before");
    }
    assert_eq!(payload(&converter, &record(&[b"aa"])), Err(Damage::Short { length: 10, end: 12 }));
    assert_eq!(payload(&converter, &[9]), Err(Damage::Short { length: 1, end: 2 }));
    assert_eq!(payload(&converter, &[8, 0, 0, 0]), Err(Damage::UnknownEvent(8)));
    assert_eq!(payload(&converter, &[0xff; 99]), Err(Damage::UnknownEvent(0xffff)));
}

#[test]
fn values_become_lttngs() {
    let fields =
        [("pid_t prev_pid", 8, 4), ("int prev_prio", 12, 4), ("int success", 16, 4), ("long state", 24, 8)];
    let format = format("sched_switch", 9, &fields, "\"\"");
    let mapping = lttng(&format.schema());
    let names: Vec<_> = mapping.schema.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["prev_tid", "prev_prio", "state"]);
    let record = record(&[&5i32.to_ne_bytes(), &120i32.to_ne_bytes(), &[1; 8], &(-1i64).to_ne_bytes()]);
    let expected = [&5i32.to_ne_bytes()[..], &20i32.to_ne_bytes(), &[0xff; 8]].concat();
    assert_eq!(payload(&converter(&format, lttng), &record).unwrap(), expected);
}

#[test]
fn a_softirq_has_a_number_and_a_name_in_lttng() {
    let print = r#""%s", __print_symbolic(REC->vec, { 1, "TIMER" })"#;
    let mut format = format("irq", 9, &[("unsigned int vec", 8, 4)], print);
    format.event.name = "softirq_entry".to_owned();
    let mapping = lttng(&format.schema());
    let fields: Vec<_> =
        mapping.schema.fields.iter().map(|field| (field.name.as_str(), field.ty.to_string())).collect();
    assert_eq!(mapping.schema.name, "irq_softirq_entry");
    assert_eq!(fields, [("vec", "i32".to_owned()), ("name", "enum:i32".to_owned())]);
    assert_eq!(
        payload(&converter(&format, lttng), &record(&[&[1, 0, 0, 0]])).unwrap(),
        [1, 0, 0, 0, 1, 0, 0, 0]
    );
}

#[test]
fn the_letters_of_a_block_request_become_flags_in_lttng() {
    let format = format("block_rq_issue", 9, &[("char rwbs[8]", 8, 8)], "\"\"");
    let payload = payload(&converter(&format, lttng), &record(&[b"WS\0\0\0\0\0\0"])).unwrap();
    assert_eq!(payload, 0b10_0001u32.to_ne_bytes());
}

#[test]
fn events_whose_common_fields_differ_are_refused() {
    let plain = format("e", 9, &[], "\"\"");
    let mut moved = format("f", 10, &[], "\"\"");
    moved.common[3].offset = 8;
    let mapping = EventConversion::unchanged(&plain.schema());
    assert!(matches!(Converter::new([(&plain, &mapping), (&moved, &mapping)]), Err(Error::Format { .. })));
    moved.common.pop();
    assert!(matches!(Converter::new([(&moved, &mapping)]), Err(Error::Format { .. })));
    // A converter without events knows no record.
    let nothing = Converter::new([]).unwrap();
    assert_eq!(payload(&nothing, &record(&[])), Err(Damage::UnknownEvent(9)));
}

proptest! {
    #[test]
    fn no_record_makes_the_converter_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..64),
        offset in prop_oneof![0..64u32, any::<u32>()],
        size in prop_oneof![0..64u32, any::<u32>()],
    ) {
        let format = format("sched_switch", 9, &[
            ("int prio", offset, 4),
            ("char a[3]", offset, size),
            ("__data_loc char[] b", offset, 4),
            ("__rel_loc u64[] c", 8, 4),
        ], "\"\"");
        for mapping in [EventConversion::unchanged, lttng] {
            let _ = payload(&converter(&format, mapping), &record(&[&bytes]));
            let _ = payload(&converter(&format, mapping), &bytes);
        }
    }
}
