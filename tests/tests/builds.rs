//! Tracepoints are found and record the same events however a program is compiled and linked.

use sordino_ctf::read::{Trace, find};
use sordino_event::Classes;
use sordino_tests::install::{compile, release_program};
use sordino_tests::{COMPILERS, NativeCompiler, Scene};

use NativeCompiler::{Clang, Clangxx, Gcc, Gxx};

/// Options of the compiler in addition to -O2 -Wall -Wextra -Wpedantic -Werror. The last -std and the last -O count.
const BUILDS: &[(NativeCompiler, &[&str])] = &[
    (Gcc, &["-std=c11"]),
    (Clang, &["-std=c11"]),
    (Gcc, &["-std=c17", "-O0"]),
    (Clang, &["-std=c17", "-O0"]),
    (Gxx, &["-std=c++17", "-O0"]),
    (Clangxx, &["-std=c++17", "-O0"]),
    (Gxx, &["-std=c++20", "-O3"]),
    (Clangxx, &["-std=c++20", "-O3"]),
    (Gcc, &["-O3", "-flto"]),
    (Gxx, &["-O3", "-flto", "-fno-exceptions", "-fno-rtti"]),
    // The linker discards unreferenced sections, but no constructors.
    (Gcc, &["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]),
    (Clangxx, &["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]),
    (Gcc, &["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "-static"]),
    (Gcc, &["-fvisibility=hidden", "-Wl,--as-needed", "-Wl,-z,now"]),
    (Gcc, &["-fno-pie", "-no-pie", "-mcmodel=small"]),
    (Gcc, &["-Wconversion", "-Wshadow", "-Wcast-qual", "-Wstrict-aliasing=2", "-fsanitize=undefined"]),
    (Gxx, &["-Wshadow", "-Wfloat-equal", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]),
    (Clang, &["-fstack-protector-all", "-D_FORTIFY_SOURCE=2"]),
];

/// "Every field type from C11 and C++17 with gcc and clang", as strict, as loose and as optimised as they come.
#[test]
fn every_way_to_build_a_program_gives_the_same_events() {
    let scene = Scene::new();
    let mut expected: Option<Vec<String>> = None;
    for (compiler, flags) in BUILDS {
        let program = scene.compile(*compiler, "fields.c", flags);
        let recording = scene.record(&["--fail-on-loss"], &[program.to_str().unwrap()]);
        assert_eq!(recording.ended.status, 0, "{compiler:?} {flags:?}: {}", recording.ended.errors);
        assert_eq!(recording.ended.errors, "", "{compiler:?} {flags:?}");
        recording.assert_count(13);
        // The time and the thread are left out.
        let payloads = recording.babeltrace().iter().map(|line| payload(line)).collect();
        assert_eq!(
            expected.get_or_insert_with(|| Vec::clone(&payloads)),
            &payloads,
            "{compiler:?} {flags:?}"
        );
    }
}

/// Integer fields of `fields.c` with their values: for each tracepoint one more in each run.
const INTEGERS: &[(&str, &[(&str, &str)])] = &[
    (
        "least",
        &[
            ("a", "0"),
            ("b", "0"),
            ("c", "0"),
            ("d", "0"),
            ("e", "-128"),
            ("f", "-32768"),
            ("g", "-2147483648"),
            ("h", "-9223372036854775808"),
        ],
    ),
    (
        "most",
        &[
            ("a", "255"),
            ("b", "65535"),
            ("c", "4294967295"),
            ("d", "18446744073709551615"),
            ("e", "127"),
            ("f", "32767"),
            ("g", "2147483647"),
            ("h", "9223372036854775807"),
        ],
    ),
    (
        "hexadecimal",
        &[
            ("a", "0xab"),
            ("b", "0xabcd"),
            ("c", "0xabcdef01"),
            ("d", "0xabcdef0123456789"),
            ("e", "-1"),
            ("f", "-2"),
            ("g", "-3"),
            ("h", "-4"),
        ],
    ),
    (
        "network",
        &[
            ("a", "1"),
            ("b", "0x0102"),
            ("c", "0x01020304"),
            ("d", "0x0102030405060708"),
            ("e", "-1"),
            ("f", "-2"),
            ("g", "-3"),
            ("h", "-4"),
        ],
    ),
    ("real", &[("yes", "1"), ("no", "0")]),
    ("labels", &[("idle", "0"), ("running", "5"), ("broken", "-2")]),
    ("forty_eight", &[("f1", "1"), ("f2", "2"), ("f47", "47"), ("f48", "48")]),
];

/// A condition on a single field of any type, which is evaluated at the hit, is true for the recorded value and for no
/// other.
#[test]
fn a_condition_on_one_integer_is_met_by_what_is_recorded() {
    let scene = Scene::new();
    let c = [(Gcc, &[][..]), (Gcc, &["-O0"]), (Clang, &[]), (Gxx, &[])];
    let mut programs: Vec<_> =
        c.iter().map(|(compiler, flags)| scene.compile(*compiler, "fields.c", flags)).collect();
    programs.push(release_program("fields"));
    for (program, run) in programs.iter().flat_map(|program| (0..8).map(move |run| (program, run))) {
        let chosen = || INTEGERS.iter().filter_map(|(name, fields)| Some((name, fields.get(run)?)));
        let recorded = |relation: &str| {
            let rules =
                chosen().map(|(name, (field, value))| format!("fields:{name} if {field} {relation} {value}"));
            let rules: Vec<String> = rules.collect();
            let recording = scene.record(&["--user", &rules.join(", ")], &[program.to_str().unwrap()]);
            assert_eq!(recording.ended.status, 0, "{}", recording.ended.errors);
            let mut names: Vec<String> = recording.events().into_iter().map(|event| event.name).collect();
            names.sort();
            names
        };
        // The Rust twin has no tracepoint of forty-eight fields.
        let mut expected: Vec<String> = chosen().map(|(name, _)| format!("fields:{name}")).collect();
        expected.retain(|name| name != "fields:forty_eight" || !program.ends_with("release/fields"));
        expected.sort();
        assert_eq!(recorded("=="), expected, "{program:?} {run}");
        assert_eq!(recorded("!="), [""; 0], "{program:?} {run}");
    }
}

/// Returns the names and values of fields that are integers.
type Integers = &'static [(&'static str, &'static str)];

/// Tracepoints of `forms.c`: the fields that are recorded, and the integers among them.
const FORMS: &[(&str, &str, Integers)] = &[
    ("v", "a = -1", &[("a", "-1")]),
    ("vv", "a = -2, b = 65534", &[("a", "-2"), ("b", "65534")]),
    (
        "vvv",
        r#"a = ( "true" : container = 1 ), b = -3, c = ( "low" : container = -7 )"#,
        &[("a", "1"), ("b", "-3"), ("c", "-7")],
    ),
    ("words", "a = 18446744073709551615, b = -4", &[("a", "18446744073709551615"), ("b", "-4")]),
    ("three_words", "a = 5, b = -0.5, c = -5", &[("a", "5"), ("c", "-5")]),
    ("sixteen", "a = -1.5, b = -6, c = 6", &[("b", "-6"), ("c", "6")]),
    ("s", r#"a = "one""#, &[]),
    ("sv", r#"a = "two", b = -8"#, &[("b", "-8")]),
    ("vs", r#"a = -9, b = "three""#, &[("a", "-9")]),
    (
        "svv",
        r#"a = "four", b = 200, c = -9223372036854775808"#,
        &[("b", "200"), ("c", "-9223372036854775808")],
    ),
    ("vsv", r#"a = -128, b = "", c = -11"#, &[("a", "-128"), ("c", "-11")]),
    ("vvs", r#"a = 12, b = -12, c = "six""#, &[("a", "12"), ("b", "-12")]),
    ("network", "a = 13, b = -13", &[("a", "13"), ("b", "-13")]),
    ("vsx", r#"a = -14, b = "seven", c = 443"#, &[("a", "-14"), ("c", "443")]),
    ("ss", r#"a = "eight", b = "(null)", c = -15"#, &[("c", "-15")]),
];

/// For each way in which a hit passes its values to the library, the record holds them, and a condition is evaluated on
/// the same values.
#[test]
fn a_hit_of_every_form_is_recorded_and_met_by_conditions() {
    let scene = Scene::new();
    for (compiler, flags) in
        [(Gcc, &[][..]), (Gcc, &["-O0"]), (Gxx, &["-flto"]), (Clang, &[]), (Clangxx, &[])]
    {
        let program = scene.compile(compiler, "forms.c", flags);
        let record = |rules: &str, arguments: &[&str]| {
            let command = [&[program.to_str().unwrap()], arguments].concat();
            let recording = scene.record(&["--user", rules], &command);
            assert_eq!((recording.ended.status, recording.lost()), (0, 0), "{}", recording.ended.errors);
            recording
        };
        let expected = |name: &str, fields: &str| format!("forms:{name}: {fields}");
        let payload = |line: &String| {
            let (name, fields) = line.split_once("forms:").unwrap();
            let (name, fields) =
                (fields.split_once(':').map_or(name, |(name, _)| name), fields.rsplit_once("}, {"));
            expected(name, fields.unwrap().1.trim().trim_end_matches(" }"))
        };
        let all: Vec<String> = FORMS.iter().map(|(name, fields, _)| expected(name, fields)).collect();
        let recorded: Vec<String> = record("forms:*", &[]).babeltrace().iter().map(payload).collect();
        assert_eq!(recorded, all, "{compiler:?} {flags:?}");
        for run in 0..3 {
            let rules = |relation: &str| {
                let chosen = FORMS.iter().filter_map(|(name, _, fields)| Some((name, fields.get(run)?)));
                chosen
                    .map(|(name, (field, value))| format!("forms:{name} if {field} {relation} {value}"))
                    .collect::<Vec<_>>()
            };
            let count = |relation: &str| record(&rules(relation).join(", "), &["gated"]).events().len();
            assert_eq!((count("=="), count("!=")), (rules("").len(), 0), "{compiler:?} {flags:?} {run}");
        }
    }
}

/// Returns the name and the fields of an event as babeltrace2 prints it.
fn payload(line: &str) -> String {
    let name = line.split_whitespace().find(|word| word.starts_with("fields:")).unwrap();
    let fields = line.rsplit_once("}, {").map_or("", |(_, fields)| fields);
    format!("{name} {fields}")
}

/// "Levels": each level as the trace's readers name it.
#[test]
fn levels_are_those_of_the_declarations() {
    let scene = Scene::new();
    for compiler in COMPILERS {
        let program = scene.compile(compiler, "levels.c", &[]);
        let recording = scene.record(&[], &[program.to_str().unwrap()]);
        recording.assert_count(15);
        let mut numbers: Vec<i64> = recording.events().iter().map(|event| event.numbers[0]).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..15).collect::<Vec<_>>());
        let path = find(recording.path.join("user").as_path()).unwrap().remove(0);
        let mut classes = Classes::default();
        Trace::open(&path, &mut classes).unwrap();
        for event in recording.events() {
            let (_, class) = classes.iter().find(|(_, class)| class.name == event.name).unwrap();
            assert_eq!(
                class.level.map(|level| i64::from(level.number())),
                Some(event.numbers[0]),
                "{}",
                event.name
            );
        }
    }
}

/// "The same declaration in a header that several files include is one tracepoint."
#[test]
fn a_tracepoint_that_two_files_declare_is_one() {
    let scene = Scene::new();
    for compiler in COMPILERS {
        let (second, program) = (scene.fresh("second.o"), scene.fresh("two_files"));
        compile(compiler, "two_files.c", &second, &["-c", "-DSECOND", "-Wno-unused-command-line-argument"]);
        compile(compiler, "two_files.c", &program, &[second.to_str().unwrap()]);
        let recording = scene.record(&[], &[program.to_str().unwrap()]);
        recording.assert_count(2);
        let seen: Vec<_> = recording.events().into_iter().map(|e| (e.name, e.numbers[0], e.texts)).collect();
        let hit = |file, text: &str| ("shared_point:hit".to_owned(), file, vec![text.to_owned()]);
        assert_eq!(seen, [hit(1, "first"), hit(2, "second")], "{compiler:?}");
        let metadata =
            recording.path.join(recording.programs()[0]["trace"].as_str().unwrap()).join("metadata");
        let metadata = std::fs::read_to_string(metadata).unwrap();
        // The tracepoint is declared once for each kind of ring.
        assert_eq!(metadata.matches("name = \"shared_point:hit\"").count(), 2, "{compiler:?}");
    }
}
