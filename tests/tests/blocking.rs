//! Threads that wait for room in a ring, which their program allows and a session requests.

use rustix::process::Signal;
use sordino_event::{Cpu, Ticks, catalogue};
use sordino_ring::area::control::{AttachOptions, Attached, EnableMode, Program, Refusal};
use sordino_ring::layout::{Geometry, PACKET_HEADER};
use sordino_ring::number::{PointId, Seqno};
use sordino_tests::exchange::area;
use sordino_tests::{RunningProcess, Scene};
use std::process::Command;
use std::time::Duration;

/// Hits of each program: some ten times as many as there is room for.
const HITS: u64 = 10_000;
/// Bytes of a record with two words, in a CPU's ring and in the shared one.
const RECORD: [usize; 2] = [32, 40];

/// A program, and a session that enables its events `hits:pair`.
struct BlockedProgram {
    running: RunningProcess,
    program: Program,
    attached: Attached,
}

impl BlockedProgram {
    fn start(scene: &Scene, arguments: &[&str], environment: &[(&str, &str)], block: Duration) -> Self {
        let mut command = Command::new(scene.program("hits.c"));
        command.arg(HITS.to_string()).args(arguments).env("SORDINO_ALLOW_BLOCKING", "1");
        let mut running = scene.start(command.envs(environment.iter().copied()));
        running.says("ready");
        let program = Program::open(&area(running.pid())).unwrap();
        assert!(program.allows_blocking());
        let cpus: Vec<Cpu> = (0..program.cpus()).map(Cpu).collect();
        let geometry = Geometry::new(16 << 10, 2).unwrap();
        let options =
            AttachOptions { block: Some(block), ..AttachOptions::new("blocking", geometry, &cpus, Seqno(7)) };
        let attached = program.attach(&options).unwrap();
        let (points, _) = catalogue::parse(&program.catalogue(0)).unwrap();
        for (id, _) in points.iter().filter(|(_, schema)| schema.full_name() == "hits:pair") {
            program.enable(attached.slot, PointId(*id), EnableMode::Always);
        }
        running.signal(Signal::USR2);
        Self { running, program, attached }
    }

    /// Reads the full sub-buffers, or all of them, and returns the numbers of the records.
    fn read(&mut self, all: bool) -> Vec<u64> {
        let mut numbers = Vec::new();
        for reader in &mut self.attached.readers {
            let shared = usize::from(reader.cpu().is_none());
            let mut gather = |bytes: &[u8]| {
                numbers.extend(bytes[PACKET_HEADER..].chunks_exact(RECORD[shared]).map(|record| {
                    let at = RECORD[shared] - 16;
                    u64::from_ne_bytes(record[at..at + 8].try_into().unwrap())
                }));
            };
            while let Some(sub_buffer) = reader.get().unwrap() {
                gather(&sub_buffer.copy());
                reader.put();
            }
            if all {
                reader.salvage(Ticks(u64::MAX), |part| gather(&part.bytes)).unwrap();
            }
        }
        numbers
    }

    fn lost(&self) -> u64 {
        self.attached.readers.iter().map(|reader| reader.lost().total).sum()
    }
}

#[test]
fn a_program_that_waits_loses_nothing_however_slow_its_reader_is() {
    let scene = Scene::new();
    for environment in [&[][..], &[("SORDINO_RING", "shared")]] {
        let mut recorded = BlockedProgram::start(&scene, &[], environment, Duration::MAX);
        let mut numbers = Vec::new();
        while recorded.running.is_running() {
            std::thread::sleep(Duration::from_millis(5));
            numbers.extend(recorded.read(false));
        }
        numbers.extend(recorded.read(true));
        // The thread may have run on several CPUs.
        numbers.sort_unstable();
        assert_eq!(numbers, (0..HITS).collect::<Vec<_>>());
        assert_eq!((recorded.lost(), recorded.running.end().status), (0, 0));
    }
}

#[test]
fn who_waited_as_long_as_the_session_said_loses_the_record_and_counts_it() {
    let scene = Scene::new();
    let mut recorded = BlockedProgram::start(&scene, &[], &[], Duration::from_micros(100));
    while recorded.running.is_running() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (read, lost) = (recorded.read(true).len() as u64, recorded.lost());
    assert!(lost > 0 && read + lost == HITS, "{read} read, {lost} lost");
}

#[test]
fn nobody_waits_for_a_recorder_that_was_killed() {
    let scene = Scene::new();
    for environment in [&[][..], &[("SORDINO_RING", "shared")]] {
        let BlockedProgram { running, program, attached } =
            BlockedProgram::start(&scene, &[], environment, Duration::MAX);
        // The kernel releases a killed process's lock at the same point: the lock lasts as long as a mapping of the
        // file.
        drop((program, attached));
        assert_eq!(running.end().status, 0);
    }
}

#[test]
fn nobody_waits_for_a_session_that_has_ended() {
    let scene = Scene::new();
    let BlockedProgram { running, program, attached } =
        BlockedProgram::start(&scene, &[], &[], Duration::MAX);
    while attached.readers.iter().all(|reader| reader.waiting().unwrap() == 0) {
        std::thread::sleep(Duration::from_millis(1));
    }
    program.detach(&attached).unwrap();
    assert_eq!(running.end().status, 0);
}

#[test]
fn neither_does_who_cannot_see_whether_the_recorder_lives() {
    let scene = Scene::new();
    let recorded = BlockedProgram::start(&scene, &["close"], &[], Duration::MAX);
    assert_eq!(recorded.running.end().status, 0);
}

#[test]
fn a_child_of_a_vfork_does_not_wait() {
    let scene = Scene::new();
    let mut recorded = BlockedProgram::start(&scene, &["vfork"], &[], Duration::MAX);
    while recorded.running.is_running() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (read, lost) = (recorded.read(true).len() as u64, recorded.lost());
    assert!(lost > 0 && read + lost == HITS, "{read} read, {lost} lost");
}

#[test]
fn a_program_that_was_started_without_leave_makes_nobody_wait() {
    let scene = Scene::new();
    let mut running = scene.start(Command::new(scene.program("hits.c")).arg("1"));
    running.says("ready");
    let program = Program::open(&area(running.pid())).unwrap();
    let geometry = Geometry::new(16 << 10, 2).unwrap();
    let options = AttachOptions {
        block: Some(Duration::ZERO),
        ..AttachOptions::new("blocking", geometry, &[Cpu(0)], Seqno(7))
    };
    let refused = program.attach(&options);
    assert!(matches!(refused, Err(Refusal::NoBlocking)), "{refused:?}");
    running.signal(Signal::USR2);
    assert_eq!(running.end().status, 0);
}
