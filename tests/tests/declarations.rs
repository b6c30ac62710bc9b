//! Programs with many tracepoints, and with invalid ones.

use sordino_tests::Scene;
use sordino_tests::install::pkg_config;
use std::fmt::Write;
use std::fs;
use std::process::Command;

/// Returns the notes on the one program of a recording, and its events by name and number.
fn recorded(scene: &Scene, arguments: &[&str]) -> (Vec<String>, Vec<(String, i64)>) {
    let program = scene.program("many.c");
    let command = [&[program.to_str().unwrap()], arguments].concat();
    let recording = scene.record(&["--user", "many:*"], &command);
    assert_eq!(recording.ended.status, 0, "{}", recording.ended.errors);
    let programs = recording.programs();
    assert_eq!(programs.len(), 1, "{}", recording.summary);
    let notes = programs[0]["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap().to_owned());
    (notes.collect(), recording.events().into_iter().map(|event| (event.name, event.numbers[0])).collect())
}

/// "20,000 in a program": the last of them is recorded.
#[test]
fn the_last_of_twenty_thousand_tracepoints_is_recorded() {
    let scene = Scene::new();
    assert_eq!(recorded(&scene, &["20000"]), (Vec::new(), vec![("many:p19999".to_owned(), 20_000)]));
}

/// "One bad tracepoint never spoils the others of its program: it alone is refused, by name."
#[test]
fn a_tracepoint_that_makes_no_sense_is_refused_by_name_and_no_other() {
    let scene = Scene::new();
    let (notes, events) = recorded(&scene, &["60", "odd"]);
    // Rejected tracepoints leave gaps in the numbers before this one's.
    assert_eq!(events, [("many:p59".to_owned(), 60)], "{notes:#?}");
    for expected in [
        "many:twice is not recorded: two fields of the name 'x'",
        "many:1st?[2J is not recorded: bad name",
        "many:loud is not recorded: unknown level",
        "many:not_\u{fffd}_text is not recorded: a name, type or label that is not UTF-8",
        "many:crowded is not recorded: more than 64 fields",
        "many:unknown is not recorded: unknown type 'u65'",
    ] {
        assert_eq!(
            notes.iter().filter(|note| note.starts_with(expected)).count(),
            1,
            "{expected}: {notes:#?}"
        );
    }
    assert_eq!(notes.len(), 6, "{notes:#?}");
}

/// 40,000 and the library's own three: those beyond the limit are rejected, counted, and reported.
#[test]
fn tracepoints_beyond_the_limit_are_refused_and_counted() {
    let scene = Scene::new();
    let (notes, events) = recorded(&scene, &["40000"]);
    assert_eq!(events, []);
    let named: Vec<&String> =
        notes.iter().filter(|note| note.contains("no room in the program's area")).collect();
    assert_eq!(named.len(), 20, "{notes:#?}");
    assert!(named[0].starts_with("many:p32765 is not recorded"), "{notes:#?}");
    let unnamed = 40_003 - 32_768 - 20;
    assert!(notes.contains(&format!("{unnamed} tracepoints more not recorded")), "{notes:#?}");
}

/// "Programs with few pay no resident memory for it": the locked area of an unrecorded program has some thirty pages.
#[test]
fn a_program_with_few_tracepoints_that_locks_its_memory_has_no_pages_for_many() {
    let Some(scene) = Scene::new().as_root() else { return };
    let resident = |count: &str| {
        let ended = scene.run(Command::new(scene.program("many.c")).args([count, "lock"]));
        let resident =
            ended.output.lines().find_map(|line| line.strip_prefix("resident ")?.parse::<u64>().ok());
        resident.expect("the program says it")
    };
    let (few, many) = (resident("10"), resident("20000"));
    assert!((1..200).contains(&few), "{few} KiB");
    assert!(many > few + 1000, "{few} and {many} KiB");
}

/// Limit of the instructions that gcc may execute for a tracepoint and its hit, a third of those for tracepoints with
/// constructors of their own; the inline filter's comparison is included.
const INSTRUCTIONS: u64 = 14_000_000;

/// "2,000 tracepoints in one C file compile in 5 s": valgrind counts the difference between few and some.
#[test]
fn a_tracepoint_and_its_hit_compile_fast() {
    let scene = Scene::new();
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Scene::not_measured(
            "instructions of the compiler: valgrind is missing (apt-get install valgrind)",
        );
    }
    let (few, some) = (4, 16);
    let each = (instructions(&scene, some) - instructions(&scene, few)) / (some - few);
    assert!(each < INSTRUCTIONS, "{each} instructions for each tracepoint");
}

/// Returns gcc's instructions for a file with this many tracepoints of each of three forms, by the number of forms.
fn instructions(scene: &Scene, count: u64) -> u64 {
    let forms = [
        ("words", "(u64, first), (u64, second)", "n, 7"),
        ("scalars", "(u64, first), (i32, second), (f64, third)", "n, 7, 0.5"),
        ("text", "(u64, first), (i32, second), (string, third)", "n, 7, \"text\""),
    ];
    let mut source = "#include <sordino/tracepoint.h>\n".to_owned();
    for (number, (form, fields, values)) in (0..count).flat_map(|number| forms.map(|form| (number, form))) {
        let name = format!("{form}{number}");
        writeln!(source, "SORDINO_TRACEPOINT(many, {name}, SORDINO_INFO, {fields})").unwrap();
        writeln!(source, "void {name}(uint64_t n) {{ sordino_tracepoint(many, {name}, {values}); }}")
            .unwrap();
    }
    let file = scene.path(&format!("compiled{count}.c"));
    fs::write(&file, source).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-g", "-S", "-o", "/dev/null"]).args(pkg_config(&["--cflags"])).arg(file);
    // This tool counts blocks, in half the time of callgrind's functions.
    gcc.args(["-wrapper", "valgrind,--tool=exp-bbv,--bb-out-file=/dev/null"]);
    let ended = scene.run(&mut gcc);
    assert_eq!(ended.status, 0, "{}", ended.errors);
    let total = ended.errors.lines().find_map(|line| line.split_once("Total instructions:"));
    let total = total.unwrap_or_else(|| panic!("no total: {}", ended.errors)).1;
    total.trim().parse::<u64>().unwrap() / forms.len() as u64
}
