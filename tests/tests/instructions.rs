//! Instructions of a hit, on every path: none enters the kernel, and none takes more than the limit in
//! `docs/instructions.md`.

use rustix::process::Signal;
use sordino_event::{Cpu, Pid, Schema, Ticks, catalogue};
use sordino_filter::condition::{Condition, Context, Expression, InlineComparison};
use sordino_ring::area::control::{AttachOptions, Attached, Code, EnableMode, Program, When};
use sordino_ring::layout::{Geometry, PACKET_HEADER, SLOTS};
use sordino_ring::number::{PointId, Seqno};
use sordino_tests::exchange::area;
use sordino_tests::install::{compile_for_lttng, compilers, release_program, root, succeed};
use sordino_tests::lttng::LttngDaemon;
use sordino_tests::stepper::{HitCost, HitInterruption, Stepper};
use sordino_tests::{NativeCompiler, Scene};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;

/// Number of instructions that a sub-buffer's first record may take more than another one.
const CROSSING: u64 = 60;
/// Tolerance of a row in the table: a count may be lower by as much. A table that is too high is wrong, too.
const SLACK: u64 = 4;
/// Maximum number of instructions of a function's entry and exit that no session has enabled, that a condition does not
/// select, and of a call of the library that rejects a hit.
const DISABLED_PAIR: u64 = 24;
const REJECTED_PAIR: u64 = 52;
const REJECTED: u64 = 40;
/// Records of two words that a sub-buffer of 16 KiB takes, in a CPU's ring and in the shared ring.
const FILL: u64 = (16384 - 80) / 32;
const FILL_LARGE: u64 = (16384 - 80) / 528;
const SHARED_FILL: u64 = (16384 - 80) / 40;

/// A way to a path: the program and its hit, the sessions, and the hits before.
#[derive(Clone, Debug)]
struct HitPath<'a> {
    program: &'a PathBuf,
    case: &'a str,
    environment: &'a [(&'a str, &'a str)],
    sessions: usize,
    options: AttachOptions<'a>,
    /// Sessions that enable the event, and their condition.
    wanting: Range<usize>,
    condition: Option<&'a str>,
    /// True if an inline filter evaluates the condition.
    inline: bool,
    before: u64,
    interruption: HitInterruption,
}

impl HitPath<'_> {
    /// Steps through the hit. Returns its cost, after that of one in a signal handler, and the events in the rings.
    fn go(&self, scene: &Scene) -> (Vec<HitCost>, RingCounts) {
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", "0"]).arg(self.program);
        command.args([self.case, &(self.before + 1).to_string()]);
        // Functions are resolved at their first call or, as real-time programs do, at the start.
        command.env("LD_BIND_NOW", "1").envs(self.environment.iter().copied());
        let mut running = scene.start(&mut command);
        running.says("ready");
        let attach = |_| {
            let program = Program::open(&area(running.pid())).unwrap();
            let attached = program.attach(&self.options).unwrap();
            (program, attached)
        };
        let mut sessions: Vec<(Program, Attached)> = (0..self.sessions).map(attach).collect();
        for (program, attached) in &mut sessions[self.wanting.start..self.wanting.end.min(self.sessions)] {
            let (points, _) = catalogue::parse(&program.catalogue(0)).unwrap();
            for (id, schema) in points.into_iter().map(|(id, schema)| (PointId(id), schema)) {
                let mode = self
                    .condition
                    .map_or(EnableMode::Always, |text| condition(attached, id, &schema, text, self.inline));
                program.enable(attached.slot, id, mode);
            }
        }
        let stepper = Stepper::new(&running).unwrap();
        running.signal(Signal::USR2);
        stepper.skip(self.before).unwrap();
        let before = RingCounts::of(&mut sessions);
        let hits = stepper.step(self.interruption).unwrap();
        let after = RingCounts::of(&mut sessions);
        (hits, RingCounts { lost: after.lost - before.lost, left: after.left - before.left, ..after })
    }
}

/// Sets the condition if the tracepoint has its fields.
fn condition(attached: &mut Attached, id: PointId, schema: &Schema, text: &str, inline: bool) -> EnableMode {
    let context = Context { pid: Pid(1), procname: "stepped" };
    let Ok(Condition::Code(code)) = Expression::parse(text).unwrap().compile(schema, &context) else {
        return EnableMode::No;
    };
    let filter = InlineComparison::of(&code, schema).filter(|_| inline);
    let code = Code { filter: When::If(&code), trigger: When::Never };
    attached.conditions.set(id, &code).unwrap();
    filter.map_or(EnableMode::If, |filter| {
        attached.conditions.inline_filter(id, filter.field, filter.low, filter.span)
    })
}

/// Events in the rings of all sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RingCounts {
    /// Number of lost records.
    lost: u64,
    /// Number of sub-buffer switches.
    left: u32,
    /// True if the shared ring has a record.
    shared: bool,
}

impl RingCounts {
    fn of(sessions: &mut [(Program, Attached)]) -> Self {
        let mut rings = Self { lost: 0, left: 0, shared: false };
        for reader in sessions.iter_mut().flat_map(|(_, attached)| &mut attached.readers) {
            rings.lost += reader.lost().total;
            rings.left += reader.waiting().unwrap();
            let is_shared = reader.cpu().is_none();
            reader
                .salvage(Ticks(u64::MAX), |part| {
                    rings.shared |= is_shared && part.bytes.len() > PACKET_HEADER
                })
                .unwrap();
        }
        rings
    }

    /// Returns the expected events of a hit on the path of this name.
    fn expected(name: &str, sessions: usize) -> Self {
        let left = if name.contains("sub-buffer switch") { sessions as u32 } else { 0 };
        Self { lost: name.contains("lost:").into(), left, shared: name.starts_with("shared ring") }
    }
}

/// Returns a session with common settings and the smallest rings.
fn session() -> AttachOptions<'static> {
    AttachOptions::new(
        "instructions",
        Geometry::new(16 << 10, 2).unwrap(),
        &[Cpu(0), Cpu(1)],
        Seqno(u32::MAX),
    )
}

/// Returns the way to the second record of two words of a program's thread.
fn typical(program: &PathBuf) -> HitPath<'_> {
    HitPath {
        program,
        case: "two_words",
        environment: &[],
        sessions: 1,
        options: session(),
        wanting: 0..SLOTS,
        condition: None,
        inline: true,
        before: 1,
        interruption: HitInterruption::None,
    }
}

/// Returns the row of each path in the table.
fn paths<'a>(c: &'a PathBuf, rust: &'a PathBuf) -> Vec<(&'static str, HitPath<'a>)> {
    let overwrite = AttachOptions { geometry: session().geometry.overwriting(), ..session() };
    let elsewhere = AttachOptions { cpus: &[Cpu(1)], ..session() };
    let of = || typical(c);
    let in_rust = || typical(rust);
    let shared = || HitPath { environment: &[("SORDINO_RING", "shared")], ..of() };
    let signal = HitInterruption::Signalled(nix::sys::signal::SIGUSR1);
    vec![
        ("C, nobody records it", HitPath { wanting: 0..0, ..of() }),
        ("Rust, nobody records it", HitPath { wanting: 0..0, ..in_rust() }),
        ("C, two words", of()),
        ("Rust, two words", in_rust()),
        ("C, two words, the session in the last slot", HitPath { sessions: SLOTS, wanting: 7..8, ..of() }),
        (
            "C, two words, an inline filter that rejects it",
            HitPath { condition: Some("second == 0"), ..of() },
        ),
        (
            "Rust, two words, an inline filter that rejects it",
            HitPath { condition: Some("second == 0"), ..in_rust() },
        ),
        (
            "C, two words, an inline filter that accepts it",
            HitPath { condition: Some("second != 0"), ..of() },
        ),
        (
            "C, two words, code of one comparison that does not hold",
            HitPath { condition: Some("second == 0"), inline: false, ..of() },
        ),
        ("C, 8 bytes", HitPath { case: "one_word", ..of() }),
        ("C, u64, i32, f64", HitPath { case: "three_values", ..of() }),
        ("C, u64, i32, a text of 7 bytes", HitPath { case: "text", ..of() }),
        (
            "C, u64, i32, a text of 7 bytes, an inline filter that rejects it",
            HitPath { case: "text", condition: Some("second == -1"), ..of() },
        ),
        ("C, 64 bytes", HitPath { case: "eight_words", ..of() }),
        ("C, 512 bytes", HitPath { case: "many_words", ..of() }),
        ("sub-buffer switch", HitPath { before: FILL, ..of() }),
        ("Rust, sub-buffer switch", HitPath { before: FILL, ..in_rust() }),
        ("sub-buffer switch, overwriting", HitPath { before: FILL, options: overwrite.clone(), ..of() }),
        ("C, 512 bytes, sub-buffer switch", HitPath { case: "many_words", before: FILL_LARGE, ..of() }),
        (
            "sub-buffer switch, the recorder asked to be woken",
            HitPath { before: FILL, options: AttachOptions { wake: true, ..session() }, ..of() },
        ),
        ("first record of a thread", HitPath { before: 0, ..of() }),
        ("another CPU than the record before", HitPath { case: "elsewhere", ..of() }),
        ("interrupted once", HitPath { interruption: HitInterruption::Preempted(1), ..of() }),
        ("interrupted by a signal whose handler records", HitPath { interruption: signal, ..of() }),
        ("two sessions", HitPath { sessions: 2, ..of() }),
        ("eight sessions", HitPath { sessions: SLOTS, ..of() }),
        ("eight sessions, sub-buffer switch in each", HitPath { sessions: SLOTS, before: FILL, ..of() }),
        ("lost: ring full", HitPath { before: 2 * FILL, ..of() }),
        ("lost: too large", HitPath { case: "too_large", ..of() }),
        (
            "not recorded: a CPU that is left out",
            HitPath { options: AttachOptions { leave_out_others: true, ..elsewhere.clone() }, ..of() },
        ),
        ("shared ring", shared()),
        ("shared ring, sub-buffer switch", HitPath { before: SHARED_FILL, ..shared() }),
        (
            "shared ring, sub-buffer switch, overwriting",
            HitPath { before: SHARED_FILL, options: overwrite, ..shared() },
        ),
        ("shared ring, first record of a thread", HitPath { before: 0, ..shared() }),
        ("shared ring, lost: ring full", HitPath { before: 2 * SHARED_FILL, ..shared() }),
        ("shared ring, from a CPU without a ring", HitPath { options: elsewhere, ..of() }),
        (
            "shared ring, interrupted in every try",
            HitPath { interruption: HitInterruption::Preempted(u32::MAX), ..of() },
        ),
    ]
}

/// Returns the page, and true if its numbers are from the compilers and the C library of this machine.
fn page() -> (String, bool) {
    let text = fs::read_to_string(root().join("docs/instructions.md")).unwrap();
    let c_library = succeed(Command::new("getconf").arg("GNU_LIBC_VERSION"));
    let here: Vec<String> = compilers().into_iter().chain([c_library.trim().to_owned()]).collect();
    let comparable = here.iter().all(|name| text.contains(name));
    if !comparable {
        Scene::not_measured(&format!("whether docs/instructions.md is right, which is not about {here:?}"));
    }
    (text, comparable)
}

/// Parses the rows of the page's table: `| path | instructions | system calls |`.
fn table(page: &str) -> BTreeMap<&str, HitCost> {
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        let [name, instructions, system_calls, ..] = cells[..] else { return None };
        let hit =
            HitCost { instructions: instructions.parse().ok()?, system_calls: system_calls.parse().ok()? };
        Some((name, hit))
    });
    rows.collect()
}

/// Returns true if a count agrees with its row.
fn fits(hit: HitCost, documented: Option<&HitCost>) -> bool {
    documented.is_some_and(|documented| {
        (hit.instructions..=hit.instructions + SLACK).contains(&documented.instructions)
    })
}

/// Puts `rows` in the place of those of the same names; a path without a row gets none.
fn accept(page: &str, rows: &str) {
    let name = |line: &str| line.split('|').nth(1).map(str::to_owned);
    let newer =
        |line: &str| rows.lines().find(|row| name(row) == name(line)).unwrap_or(line).to_owned() + "\n";
    let page: String = page.lines().map(newer).collect();
    fs::write(root().join("docs/instructions.md"), page).unwrap();
}

/// "No system call on any path", except if the recorder requests a wake-up.
#[test]
fn no_path_takes_more_instructions_than_the_table_says() {
    let scene = Scene::new();
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Scene::not_measured("one CPU: no other than the record before");
    }
    let (c, rust) = (scene.program("stepped.c"), release_program("stepped"));
    let (page, comparable) = page();
    let (mut documented, mut typical, mut agrees, mut rows) = (table(&page), None, true, String::new());
    let mut counted = BTreeMap::new();
    documented.retain(|name, _| !name.starts_with("LTTng"));
    for (name, way) in paths(&c, &rust) {
        let (mut hits, rings) = way.go(&scene);
        assert_eq!(rings, RingCounts::expected(name, way.sessions), "{name}");
        let hit = hits.pop().unwrap();
        rows += &format!("| {name} | {} | {} |\n", hit.instructions, hit.system_calls);
        assert_eq!(hit.system_calls, u64::from(way.options.wake), "{name}");
        agrees &= fits(hit, documented.remove(name).as_ref());
        counted.insert(name, hit.instructions);
        typical = typical.or((name == "C, two words").then_some(hit));
        assert_eq!(
            hits.len(),
            usize::from(matches!(way.interruption, HitInterruption::Signalled(_))),
            "{name}"
        );
        assert!(hits.iter().all(|handlers| Some(*handlers) == typical), "{name}: {hits:?}");
    }
    for (crossing, other) in [
        ("sub-buffer switch", "C, two words"),
        ("sub-buffer switch, overwriting", "C, two words"),
        ("Rust, sub-buffer switch", "Rust, two words"),
        ("C, 512 bytes, sub-buffer switch", "C, 512 bytes"),
    ] {
        let more = counted[crossing] - counted[other];
        assert!(more <= CROSSING, "{crossing}: {more} instructions more than {other}");
    }
    if !comparable || agrees && documented.is_empty() {
        return;
    }
    if std::env::var_os("SORDINO_ACCEPT").is_none() {
        panic!("docs/instructions.md says otherwise, SORDINO_ACCEPT=1 writes what is here:\n{rows}");
    }
    accept(&page, &rows);
}

/// A switch of fibers costs at most 1.3 times another record of its 18 bytes.
#[test]
fn a_switch_of_fibers_costs_little_more_than_another_record_of_its_size() {
    let scene = Scene::new();
    for program in [scene.program("stepped.c"), release_program("stepped")] {
        let count = |case| HitPath { case, ..typical(&program) }.go(&scene).0[0].instructions;
        let [switch, other] = ["switch", "eighteen_bytes"].map(count);
        assert!(10 * switch <= 13 * other, "{switch} instructions for a switch, {other} for other 18 bytes");
    }
}

/// Returns the way to a function's entry and exit, the last of several.
fn function<'a>(program: &'a PathBuf, case: &'a str) -> HitPath<'a> {
    HitPath { case, ..typical(program) }
}

/// An entry and an exit cost at most 2.2 times a record of their size. Where no session has enabled them, they take
/// some 20 instructions, and some 50 where a condition selects other functions.
#[test]
fn a_function_costs_little_more_than_two_records_and_hardly_anything_unless_it_is_selected() {
    let scene = Scene::new();
    let library = scene.compile(NativeCompiler::Gcc, "stepped.c", &["-lsordino-functions"]);
    let rust = release_program("stepped");
    for (program, case) in [(&library, "function"), (&library, "function_macros"), (&rust, "function")] {
        let count = |way: HitPath<'_>| way.go(&scene).0[0].instructions;
        let pair = count(function(program, case));
        let record = count(typical(program));
        assert!(10 * pair <= 22 * record, "{case}: {pair} instructions, {record} for a record");
        let disabled = count(HitPath { wanting: 0..0, ..function(program, case) });
        assert!(
            (1..=DISABLED_PAIR).contains(&disabled),
            "{case}: {disabled} instructions where nobody records it"
        );
        let rejected = count(HitPath { condition: Some("function == 1"), ..function(program, case) });
        let limit = if case == "function_macros" { 2 * REJECTED } else { REJECTED_PAIR };
        assert!((1..=limit).contains(&rejected), "{case}: {rejected} instructions where it is not selected");
    }
}

/// Number of those instructions that belong to the dynamic linker.
#[test]
fn the_first_hit_of_a_lazily_linked_program_makes_no_system_call() {
    let scene = Scene::new();
    let program = scene.program("stepped.c");
    let first = HitPath { before: 0, ..typical(&program) };
    let linked = first.go(&scene).0[0];
    let lazily = HitPath { environment: &[("LD_BIND_NOW", "")], ..first }.go(&scene).0[0];
    assert!(lazily.instructions > linked.instructions, "{lazily:?}, {linked:?}");
    assert_eq!(lazily.system_calls, 0);
}

/// Steps through `times` hits of LTTng-UST's, in a session of its own with the smallest sub-buffers and no timer.
fn hits_of_lttng(scene: &Scene, times: usize) -> Vec<HitCost> {
    let program = scene.path("stepped_lttng");
    compile_for_lttng("stepped_lttng.c", &program);
    let lttng = LttngDaemon::start(scene);
    lttng.tell(&["create", "session", "--output", "trace"]);
    lttng.tell(&["enable-channel", "--userspace", "--subbuf-size=4K", "--num-subbuf=64", "channel"]);
    lttng.tell(&["enable-event", "--userspace", "--channel=channel", "stepped:two_words"]);
    lttng.tell(&["start"]);
    let mut command = lttng.command(&program, &["two_words", &times.to_string()]);
    let mut running = scene.start(command.env("LD_BIND_NOW", "1"));
    running.says("ready");
    let stepper = Stepper::new(&running).unwrap();
    running.signal(Signal::USR2);
    let hits = (0..times).map(|_| stepper.step(HitInterruption::None).unwrap()[0]).collect();
    drop(running);
    lttng.tell(&["destroy"]);
    lttng.stop();
    hits
}

/// A typical hit of LTTng-UST beside sordino's.
#[test]
fn a_hit_of_lttng_takes_as_many_instructions_as_the_table_says() {
    let scene = Scene::new();
    let version = scene.run(Command::new("pkg-config").args(["--modversion", "lttng-ust"]));
    if version.status != 0 {
        return Scene::not_measured("LTTng-UST is not installed (package liblttng-ust-dev)");
    }
    let name = format!("LTTng-UST {}, two words", version.output.trim());
    let hits = hits_of_lttng(&scene, 100);
    // The others take up to 70 more, as the low bits of their clock have wrapped.
    let least = hits.into_iter().min_by_key(|hit| hit.instructions).expect("a hit");
    let (page, comparable) = page();
    match table(&page).get(name.as_str()) {
        Some(documented) if comparable => {
            assert!(fits(least, Some(documented)) && least.system_calls == 0, "{name}: {least:?}");
        }
        _ => Scene::not_measured(&format!("{name}: the table has no such row")),
    }
}
