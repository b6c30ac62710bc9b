//! Performance counters with events: the values of threads that opened counters.

use serde_json::Value;
use sordino_tests::listing::named;
use sordino_tests::session::ScopedSession;
use sordino_tests::{CompletedRecording, EndedProcess, Scene};
use std::process::Command;

/// Counters of the kernel, which every machine has.
const NAMES: &str = "page-faults, context-switches, task-clock";

/// Records the program on one CPU: the second record of a thread that migrates between two records has no counters.
fn counted_with(
    scene: &Scene,
    arguments: &[&str],
    options: &[&str],
    change: impl FnOnce(&mut Command),
) -> CompletedRecording {
    let program = scene.program("counting.c");
    let command = ["taskset", "--cpu-list", "0", program.to_str().unwrap()];
    scene.record_with(options, &[&command, arguments].concat(), change)
}

fn counted(scene: &Scene, arguments: &[&str], options: &[&str]) -> CompletedRecording {
    counted_with(scene, arguments, options, |_| {})
}

/// Returns the program's text behind `what: `.
fn printed_line<'a>(recording: &'a CompletedRecording, what: &str) -> &'a str {
    let output = &recording.ended.output;
    let line = output.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("no {what} in {output}"))
}

/// Returns counter `name` at an event; `None` if the event has none.
fn count(event: &Value, name: &str) -> Option<u64> {
    event["context"]["counters"][name].as_u64()
}

#[test]
fn each_event_has_what_its_thread_had_counted() {
    let scene = Scene::new();
    let recording = counted(&scene, &[NAMES], &["--context", "counters"]);
    assert_eq!(
        (printed_line(&recording, "first"), printed_line(&recording, "again")),
        ("0 ", "0 "),
        "{}",
        recording.notes()
    );
    assert_eq!(recording.notes(), "");
    let items = scene.listed(&recording.path);
    let steps = named(&items, "counting:step");
    assert_eq!(steps.len(), 10);
    // The first hits touch pages of the program's own.
    for pair in steps[2..].windows(2) {
        let increase = |name| count(pair[1], name).unwrap() - count(pair[0], name).unwrap();
        assert_eq!(increase("page-faults"), pair[1]["fields"]["touched"].as_u64().unwrap(), "{}", pair[1]);
        assert!(increase("context-switches") >= 1, "it slept: {}", pair[1]);
        assert!(increase("task-clock") > 0, "{}", pair[1]);
    }
    for name in ["counting:before", "counting:after"] {
        assert_eq!(named(&items, name)[0]["context"]["counters"], Value::Null, "{name}");
    }
    for name in ["counting:child", "counting:thread"] {
        let [without, with] = named(&items, name)[..] else { panic!("two of {name}") };
        assert_eq!(without["context"]["counters"], Value::Null, "not its parent's: {without}");
        assert!(count(with, "page-faults") < count(steps[9], "page-faults"), "its own: {with}");
    }
    // A signal handler's is one like any other.
    assert!(count(named(&items, "counting:handled")[0], "task-clock") > count(steps[9], "task-clock"));
}

#[test]
fn what_a_thread_counts_takes_descriptors_until_it_ends_or_says_so_and_none_of_its_child_s() {
    let scene = Scene::new();
    let recording = counted(&scene, &[NAMES], &["--context", "counters"]);
    let at = |when: &str| printed_line(&recording, &format!("descriptors {when}")).parse::<u32>().unwrap();
    let before = at("before");
    assert_eq!((at("counting"), at("after the thread"), at("after")), (before + 3, before + 3, before));
    assert_eq!(
        (at("in the thread"), at("in the child"), at("in the counting child")),
        (before + 6, before, before + 3)
    );
}

#[test]
fn every_reader_sees_the_records() {
    let scene = Scene::new();
    let recording = counted(&scene, &[NAMES], &["--context", "counters"]);
    recording.babeltrace_reads_all();
    let path = recording.path.to_str().unwrap();
    let text = scene.sordino(&["events", path]);
    let text = text.succeeded();
    let line = text.lines().find(|line| line.contains("counting:step number = 9")).unwrap();
    let context = line.split_once('{').expect(line).1;
    assert!(context.starts_with("page-faults = ") && context.contains(", context-switches = "), "{line}");
    assert!(!context.contains(":u") || !rustix::process::geteuid().is_root(), "{line}");
    let (lines, complaints) = sordino_tests::listing::babeltrace(&recording.path);
    assert_eq!(complaints, "");
    let named = |line: &&String| line.contains("sordino:counters: ") && line.contains("\"context-switches\"");
    assert!(lines.iter().filter(named).count() > 10, "{lines:?}");
}

#[test]
fn only_the_session_that_wants_counters_has_them() {
    let scene = Scene::new();
    let with = ScopedSession::start(&scene, "with", &["--context", "counters"]);
    let without = ScopedSession::start(&scene, "without", &["--context", "comm"]);
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", "0"]).arg(scene.program("counting.c")).arg(NAMES);
    ScopedSession::join(&scene, &mut command).end().succeeded();
    let items = [with.stop(), without.stop()].map(|recordings| scene.listed(&recordings[0]));
    let steps = items.each_ref().map(|items| named(items, "counting:step"));
    assert_eq!((steps[0].len(), steps[1].len()), (10, 10));
    assert!(steps[0].iter().all(|step| count(step, "page-faults").is_some()));
    assert_eq!(named(&items[1], "sordino:counters").len(), 0);
    with.destroy();
    without.destroy();
}

#[test]
fn conditions_decide_before_counters_are_read() {
    let scene = Scene::new();
    for condition in ["number >= 5", "number >= 5 && touched > 0"] {
        let rule = format!("counting:step if {condition}");
        let recording = counted(&scene, &[NAMES], &["--context", "counters", "--user", &rule]);
        let items = scene.listed(&recording.path);
        let steps = named(&items, "counting:step");
        assert_eq!((steps.len(), named(&items, "sordino:counters").len()), (5, 5), "{condition}");
        assert!(steps.iter().all(|step| count(step, "page-faults").is_some()), "{condition}");
    }
}

#[test]
fn threads_without_a_ring_of_their_cpu_s_have_counters_too() {
    let scene = Scene::new();
    let recording = counted_with(&scene, &[NAMES], &["--context", "counters"], |recorder| {
        recorder.env("SORDINO_RING", "shared");
    });
    let items = scene.listed(&recording.path);
    let steps = named(&items, "counting:step");
    let with = steps.iter().filter(|step| count(step, "page-faults").is_some()).count();
    assert_eq!((steps.len(), with), (10, 10));
}

/// Records a flood through rings that lose most of it. The number of its events with counters, and the number without.
fn flooded(scene: &Scene) -> (usize, usize) {
    let tiny = ["--subbuf-size", "16K", "--num-subbuf", "2", "--read-timer", "20ms"];
    let options = [&["--context", "counters"], &tiny[..]].concat();
    let recording = counted(scene, &["page-faults", "3", "2"], &options);
    assert!(recording.lost() > 0, "nothing was lost: this test needs smaller rings");
    let listed = scene.run(scene.command(&["events", "--json"]).arg(&recording.path));
    let items = sordino_tests::listing::items(listed.succeeded());
    let mut others = 0;
    let (mut with, mut without) = (0, 0);
    for event in named(&items, "counting:flood") {
        let Some(faults) = count(event, "page-faults") else {
            without += 1;
            continue;
        };
        with += 1;
        // Counts of an earlier event would lack the pages touched since.
        let now = faults.checked_sub(event["fields"]["touched"].as_u64().expect("a number"));
        let now = now.unwrap_or_else(|| panic!("fewer faults than touched pages: {event}"));
        assert!(now >= others, "{now} other faults after {others}: {event}");
        others = now;
    }
    (with, without)
}

/// An event near missing records has its own counters or none.
#[test]
fn loss_leaves_counters_out_and_puts_none_to_another_event() {
    let scene = Scene::new();
    // Room that comes between a record of counters and its event's is a matter of chance.
    let floods = std::iter::repeat_with(|| flooded(&scene)).take(5);
    let missing = floods.inspect(|(with, _)| assert!(*with > 100)).any(|(_, without)| without > 0);
    assert!(missing, "no event of five floods was without counters");
}

fn refused(scene: &Scene, names: &str) -> (i32, String) {
    let ended = scene.run(Command::new(scene.program("counting.c")).arg(names));
    parsed(&ended)
}

fn parsed(ended: &EndedProcess) -> (i32, String) {
    let line = ended.succeeded().lines().find_map(|line| line.strip_prefix("first: ")).unwrap();
    let (number, why) = line.split_once(' ').unwrap();
    (number.parse().unwrap(), why.to_owned())
}

#[test]
fn what_cannot_be_counted_is_refused_with_its_reason() {
    let scene = Scene::new();
    let nine = ["cycles"; 9].join(",");
    for (names, number, words) in [
        ("cycels", -libc::EINVAL, "there is no counter 'cycels': there are cycles, instructions,"),
        ("page-faults,,", -libc::EINVAL, "there is no counter ''"),
        ("context-switches:u", -libc::EINVAL, "there is no counter 'context-switches:u'"),
        ("page-faults,page-faults", -libc::EINVAL, "counter 'page-faults' twice"),
        (&nine, -libc::E2BIG, "9 counters: a thread may have 8"),
    ] {
        let (answer, why) = refused(&scene, names);
        assert!(answer == number && why.contains(words), "{names}: {answer} {why}");
    }
    let (answer, why) = refused(&scene, "cycles,instructions");
    let is_known = match answer {
        0 => why.is_empty(),
        number if number == -libc::ENOENT => why.contains("this machine has no counter 'cycles'"),
        number if number == -libc::EACCES => why.contains("perf_event_paranoid"),
        number if number == -libc::ENOSPC => why.contains("is taken"),
        _ => false,
    };
    assert!(is_known, "{answer} {why}");
}

/// The processor's counters, read in user space where the machine allows that, increase from step to step.
#[test]
fn the_processor_s_counters_count_on() {
    let scene = Scene::new();
    let recording = counted(&scene, &["instructions"], &["--context", "counters"]);
    if !printed_line(&recording, "first").starts_with("0 ") {
        return Scene::not_measured("instructions: this machine does not let programs count them");
    }
    let items = scene.listed(&recording.path);
    let steps = named(&items, "counting:step");
    let counts: Vec<_> = steps
        .iter()
        .map(|step| count(step, "instructions").or_else(|| count(step, "instructions:u")))
        .collect();
    assert!(counts.iter().all(Option::is_some) && counts.is_sorted_by(|one, next| one < next), "{counts:?}");
}

#[test]
fn who_may_not_count_the_kernel_is_told_what_it_takes_or_counts_without() {
    use std::os::unix::process::CommandExt;
    let Some(scene) = Scene::new().as_root() else { return };
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    if paranoid.trim() != "2" {
        return Scene::not_measured("users' counters: perf_event_paranoid is not 2, the default");
    }
    let program = scene.program("counting.c");
    let nobody = sordino_tests::NOBODY;
    let run = |names| parsed(&scene.run(Command::new(&program).arg(names).uid(nobody).gid(nobody)));
    let (answer, why) = run("context-switches");
    assert_eq!(answer, -libc::EACCES);
    assert!(why.contains("perf_event_paranoid is 2: it has to be 1"), "{why}");
    assert_eq!(run("page-faults,task-clock"), (0, String::new()));
    assert_eq!(run("page-faults,page-faults:u").0, -libc::EINVAL);
}

#[test]
fn a_recording_whose_programs_count_nothing_says_so() {
    let scene = Scene::new();
    let program = scene.program("burst.c");
    let command = [program.to_str().unwrap(), "1", "10"];
    let noted = |context| scene.record(&["--context", context], &command).notes();
    assert!(
        noted("counters").contains("none of its threads has opened counters: sordino_counters"),
        "{}",
        noted("counters")
    );
    assert_eq!((noted("all"), noted("comm")), (String::new(), String::new()));
}
