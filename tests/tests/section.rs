//! Every instruction of the restartable sections of the library that is installed: a thread that is stopped there is
//! aborted, and a program that is killed there has published all that it had.

use rustix::process::Signal;
use sordino_event::{Cpu, catalogue};
use sordino_ring::area::control::{self, AttachOptions, EnableMode};
use sordino_ring::layout::Geometry;
use sordino_ring::number::{PointId, Seqno};
use sordino_tests::exchange::area;
use sordino_tests::install::library;
use sordino_tests::install::succeed;
use sordino_tests::storm::{StormMemory, StormProgram, number};
use sordino_tests::verified::StormLanes;
use sordino_tests::{CompletedRecording, Scene, wait_until};
use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// A section's instructions, as addresses in the library, and its abort handler's.
#[derive(Clone, Debug)]
struct Section {
    instructions: Vec<u64>,
    /// The first instruction behind it, where the record is published.
    behind: u64,
    abort: u64,
}

/// The library's name, as it is mapped.
const LIBRARY: &str = "libsordino.so";

/// Returns the address of the library in process `pid`, and its sections, whose descriptions the linker has filled in.
fn sections(pid: i32) -> (u64, Vec<Section>) {
    let library = library();
    let headers = succeed(Command::new("readelf").arg("-SW").arg(&library));
    let line = headers.lines().find(|line| line.contains("__rseq_cs")).expect("a section of descriptions");
    let mut words = line.split_whitespace().skip_while(|word| *word != "PROGBITS").skip(1);
    let mut hexadecimal = || u64::from_str_radix(words.next().expect("a number"), 16).expect("hexadecimal");
    let (address, _, size) = (hexadecimal(), hexadecimal(), hexadecimal());
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let first = maps.lines().find(|line| line.contains(LIBRARY)).expect("the library");
    let base = u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap();
    let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let sections = (0..size / 32).map(|index| {
        let mut bytes = [0; 32];
        memory.read_exact_at(&mut bytes, base + address + 32 * index).unwrap();
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let (start, length, abort) = (word(8) - base, word(16), word(24) - base);
        let mut objdump = Command::new("objdump");
        objdump.args(["-d", "--no-show-raw-insn", &format!("--start-address={start}")]);
        let text = succeed(objdump.arg(format!("--stop-address={}", start + length)).arg(&library));
        let address = |line: &str| u64::from_str_radix(line.trim().split_once(":\t")?.0, 16).ok();
        let instructions = text.lines().filter_map(address).collect();
        Section { instructions, behind: start + length, abort }
    });
    (base, sections.collect())
}

/// A second session, which enables and disables the events in turn: while they are enabled, all records take the slow
/// path.
struct AlternatingThread {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl AlternatingThread {
    fn start(pid: i32) -> Self {
        let program = control::Program::open(&area(pid)).expect("an area");
        let options = AttachOptions::new(
            "in turn",
            Geometry::new(16 << 10, 2).expect("a geometry"),
            &[Cpu(0), Cpu(1)],
            Seqno(1),
        );
        let attached = program.attach(&options).expect("a second session");
        let ends = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ends);
        let (points, _) = catalogue::parse(&program.catalogue(0)).expect("a catalogue");
        let alternate = move || {
            for mode in
                [EnableMode::Always, EnableMode::No].into_iter().cycle().take_while(|_| !until.load(Relaxed))
            {
                points.iter().for_each(|(id, _)| _ = program.enable(attached.slot, PointId(*id), mode));
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        Self { ends, thread: Some(std::thread::spawn(alternate)) }
    }
}

impl Drop for AlternatingThread {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Starts a storm that is recorded, stops it by `stop`, and checks its recording.
fn storm(scene: &Scene, program: &StormProgram, seed: u64, stop: impl FnOnce(&StormMemory)) {
    let (command, shared) = program.storm(scene, seed, 60_000, &["signals", "migration"]);
    let options = ["--subbuf-size", "16K", "--num-subbuf", "8", "--read-timer", "200us"];
    let (mut recorder, output) = scene.recorder(&options);
    let running = scene.start(recorder.arg("--").args(command));
    wait_until("the storm is ready", || shared.pid() != 0);
    let alternating = AlternatingThread::start(shared.pid());
    shared.go();
    stop(&shared);
    drop(alternating);
    let recording = CompletedRecording::of(running.end(), output);
    assert_eq!(recording.ended.status, 128 + Signal::KILL.as_raw(), "{}", recording.ended.errors);
    let (begun, done, mut lanes) = (shared.begun(), shared.done(), StormLanes::new(seed));
    lanes.read(&recording.path.join("user"), false);
    let missing = lanes.missing(&begun, &done);
    let at_work = begun.values().sum::<u64>() - done.values().sum::<u64>();
    assert!(
        (missing..=missing + at_work).contains(&recording.lost()),
        "{missing} missing, {} lost",
        recording.lost()
    );
    fs::remove_dir_all(&recording.path).unwrap();
}

/// Stops the storm's threads at an instruction; how often one came there, and how often it was aborted.
fn stop_at(
    scene: &Scene,
    breaker: &std::path::Path,
    shared: &StormMemory,
    address: u64,
    abort: u64,
    times: u32,
) -> [u32; 2] {
    let numbers = [shared.pid().to_string(), address.to_string(), abort.to_string(), times.to_string()];
    let ended = scene.run(Command::new(breaker).args(numbers));
    assert_eq!(ended.status, 0, "{}", ended.errors);
    let mut numbers = ended.output.split_whitespace().map(|number| number.parse().unwrap());
    [numbers.next().unwrap(), numbers.next().unwrap()]
}

#[test]
#[allow(clippy::print_stderr, reason = "a table")]
fn a_thread_that_is_stopped_in_a_section_starts_over_and_one_that_is_killed_has_published_all() {
    const TIMES: u32 = 20;
    let scene = Scene::new();
    let (program, breaker) = (StormProgram::new(&scene), scene.program("breaker.c"));
    // All of them take two minutes.
    let every = if number("STORM_KILLS").is_some() { 1 } else { 9 };
    let mut known = Vec::new();
    storm(&scene, &program, 1, |shared| {
        let (_, sections) = sections(shared.pid());
        known = sections;
        rustix::process::kill_process(rustix::process::Pid::from_raw(shared.pid()).unwrap(), Signal::KILL)
            .unwrap();
    });
    // Fast and slow path, in a sub-buffer and at its end; fast paths with two words and with others.
    assert!(known.len() >= 6 && known.iter().all(|section| section.instructions.len() >= 9), "{known:?}");
    let points = known.iter().flat_map(|section| {
        let points = section.instructions.iter().map(|&point| (point, true)).chain([(section.behind, false)]);
        points.map(move |(point, inside)| (point, inside, section.abort))
    });
    for (index, (point, inside, abort)) in points.enumerate().filter(|(index, _)| index % every == 0) {
        for times in [0, TIMES] {
            let mut seen = [0; 2];
            storm(&scene, &program, index as u64, |shared| {
                let (base, _) = sections(shared.pid());
                seen = stop_at(&scene, &breaker, shared, base + point, base + abort, times);
            });
            eprintln!(
                "{point:#x} {}: stopped {}, aborted {}",
                if inside { "inside" } else { "behind" },
                seen[0],
                seen[1]
            );
            assert_eq!(seen[0], times.max(1), "nobody came to {point:#x}");
            assert_eq!(seen[1], if inside { times } else { 0 }, "at {point:#x}");
        }
    }
}
