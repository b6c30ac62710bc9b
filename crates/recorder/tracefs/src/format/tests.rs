use super::*;
use proptest::prelude::*;

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n";

/// Parses the format of an event with these fields, each `TYPE NAME;OFFSET;SIZE;SIGNED`.
fn format(fields: &[&str], print: &str) -> Result<Format, Error> {
    let line = |text: &&str| {
        let [declaration, offset, size, signed] =
            text.split(';').collect::<Vec<_>>().try_into().expect("four parts");
        format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
    };
    let fields: String = fields.iter().map(line).collect();
    Format::parse("test", &format!("name: event\nID: 7\nformat:\n{COMMON}\n{fields}\nprint fmt: {print}\n"))
}

/// Returns the fields of the schema as `name type`.
fn schema(format: &Format) -> Vec<String> {
    format.schema().fields.iter().map(|field| format!("{} {}", field.name, field.ty)).collect()
}

fn sample(path: &str) -> Format {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../testdata/tracefs/formats/");
    let text = std::fs::read_to_string(format!("{folder}{path}")).unwrap();
    Format::parse("system", &text).unwrap()
}

#[test]
fn every_shape_of_field_gets_its_type() {
    let fields = [
        "int a;8;4;1",
        "unsigned long b;16;8;0",
        "void * c;24;8;0",
        "const char *const *d;32;8;0",
        "bool e;40;1;0",
        "char f[16];44;16;0",
        "__data_loc char[] g;60;4;0",
        "__rel_loc char[] h;64;4;0",
        "__data_loc u64[] i;68;4;0",
        "__data_loc cpumask_t j;72;4;0",
        "unsigned char k[6];76;6;0",
        "long l[3];88;24;1",
        "struct sockaddr m;112;28;0",
        "__u8 n[LENGTH];140;4;0",
        "__data_loc char[] o;144;4;0",
        "unsigned long p[];148;0;0",
    ];
    let format = format(&fields, r#""%d %lx %*ph", REC->a, REC->b, __get_dynamic_array(o)"#).unwrap();
    assert_eq!(
        schema(&format),
        [
            "a i32",
            "b u64x",
            "c u64x",
            "d u64x",
            "e bool",
            "f text:16",
            "g string",
            "h string",
            "i [u64]",
            "j [u8x]",
            "k [u8x;6]",
            "l [i64;3]",
            "m [u8x;28]",
            "n [u8x;4]",
            "o [u8x]",
            "p [u64]",
        ]
    );
    assert_eq!(format.fields[7].kind, FieldKind::Dynamic { relative: true });
    assert_eq!(
        (format.fields[3].ty.as_str(), format.fields[11].kind),
        ("const char *const *", FieldKind::Array { element: 8 })
    );
}

#[test]
fn text_to_the_end_is_text_only_if_printed_so() {
    let fields = ["char buf[];8;0;0"];
    assert_eq!(schema(&format(&fields, r#""%s", REC->buf"#).unwrap()), ["buf string"]);
    assert_eq!(schema(&format(&fields, r#""%08x", (int)REC->buf[0]"#).unwrap()), ["buf [u8x]"]);
}

#[test]
fn an_arrays_length_that_does_not_fit_its_size_makes_bytes() {
    for length in ["0", "4", "7", "99999999999", "-1", "N"] {
        let format = format(&[&format!("struct s a[{length}];8;6;0")], "\"\"").unwrap();
        assert_eq!(schema(&format), ["a [u8x;6]"], "{length}");
    }
}

#[test]
fn labels_become_enumerations() {
    let print = r#""%s", __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" })"#;
    let format = format(&["unsigned int vec;8;4;0"], print).unwrap();
    let Type::Scalar(Scalar::Enumeration(labelled)) = &format.schema().fields[0].ty else {
        panic!("{:?}", format.schema())
    };
    assert_eq!(labelled.integer, Integer::new(Width::W32, false));
    assert_eq!((labelled.ranges[1].label.as_str(), labelled.ranges[1].low), ("TIMER", 1));
}

#[test]
fn formats_of_a_real_time_kernel_of_2016() {
    let fields = |name: &str| schema(&sample(&format!("linux-4.9-rt/{name}")));
    let switch = sample("linux-4.9-rt/sched_switch");
    assert_eq!((switch.id, switch.common.len(), switch.fields[0].offset), (301, 6, 12));
    assert_eq!(
        schema(&switch),
        [
            "prev_comm text:16",
            "prev_pid i32",
            "prev_prio i32",
            "prev_state enum:i64",
            "next_comm text:16",
            "next_pid i32",
            "next_prio i32"
        ]
    );
    assert_eq!(
        fields("sched_waking"),
        ["comm text:16", "pid i32", "prio i32", "success i32", "target_cpu i32"]
    );
    assert_eq!(fields("irq_handler_entry"), ["irq i32", "name string"]);
    assert_eq!(fields("softirq_entry"), ["vec enum:u32"]);
    assert_eq!(fields("hrtimer_expire_entry"), ["hrtimer u64x", "now i64", "function u64x"]);
    assert_eq!(fields("page_fault_user"), ["address u64x", "ip u64x", "error_code u64x"]);
    assert_eq!(fields("sys_enter"), ["id i64", "args [u64x;6]"]);
    assert_eq!(fields("workqueue_execute_start"), ["work u64x", "function u64x"]);
}

#[test]
fn formats_of_a_32_bit_kernel_of_2013() {
    let fields = |name: &str| schema(&sample(&format!("linux-3.10-arm/{name}")));
    let switch = fields("sched_switch");
    assert_eq!((&*switch[0], &*switch[3]), ("prev_comm text:16", "prev_state enum:i32"));
    assert_eq!(fields("sched_wakeup")[3], "success i32");
    assert_eq!(fields("irq_handler_entry"), ["irq i32", "name string"]);
    // The labels are names of constants, whose values the format does not contain.
    assert_eq!(fields("softirq_entry"), ["vec u32"]);
    assert_eq!(fields("hrtimer_expire_entry"), ["hrtimer u32x", "now i64", "function u32x"]);
    assert_eq!(fields("sys_enter"), ["id i32", "args [u32x;6]"]);
    assert_eq!(fields("workqueue_execute_start"), ["work u32x", "function u32x"]);
}

#[test]
fn nonsense_is_refused_with_its_line() {
    let head = "name: event\nID: 7\nformat:\n";
    let many: String =
        (0..=MAX_FIELDS).map(|n| format!("\tfield:int f{n};\toffset:8;\tsize:4;\tsigned:1;\n")).collect();
    for (text, expected) in [
        (String::new(), 1),
        ("name: \nID: 7\n".to_owned(), 1),
        ("name: a b\nID: 7\n".to_owned(), 1),
        ("name: event\nID: 65536\n".to_owned(), 2),
        ("name: event\nID: 7\n".to_owned(), 2),
        (format!("{head}nonsense\n"), 4),
        (format!("{head}\tfield:int;\toffset:8;\tsize:4;\tsigned:1;\n"), 4),
        (format!("{head}\tfield:int a-b;\toffset:8;\tsize:4;\tsigned:1;\n"), 4),
        (format!("{head}\tfield:int a;\toffset:-8;\tsize:4;\tsigned:1;\n"), 4),
        (format!("{head}\tfield:int a;\toffset:8;\tsigned:1;\n"), 4),
        (format!("{head}\tfield:__data_loc char[] a;\toffset:8;\tsize:8;\tsigned:1;\n"), 4),
        (format!("{head}{many}"), 4 + MAX_FIELDS),
        (format!("{head}{0}{0}", "\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n"), 5),
        (head.to_owned(), 3),
    ] {
        let Err(Error::Format { line, .. }) = Format::parse("test", &text) else {
            panic!("accepted: {text}")
        };
        assert_eq!(line, expected, "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(
        declaration in "(__data_loc |__rel_loc )?[a-z\\*\\[\\] é_0-9]{0,20}",
        numbers in "[0-9]{1,11};\tsize:[0-9]{1,11};\tsigned:[01]",
        print in "[\"%a-zREC>(){},&|<0-9_\\\\ -]*",
    ) {
        let text = format!("name: e\nID: 1\n\tfield:{declaration};\toffset:{numbers};\nprint fmt: {print}");
        if let Ok(format) = Format::parse("test", &text) {
            format.schema();
        }
    }

    #[test]
    fn no_print_format_makes_the_hints_panic(
        value in "[-0-9xuUlL<() ]*", label in "[a-z\"\\\\]*", expression in "[(REC>a&|)-]*",
    ) {
        let print = format!("\"%s\", __print_flags(REC->a{expression}, \"|\", {{ {value}, \"{label}\" }})");
        if let Ok(format) = format(&["int a;8;4;1"], &print) {
            format.schema();
        }
    }
}
