//! Enabling and disabling tracepoints in a running program: stores to shared memory, without an interrupt on the
//! program's CPU.

use rustix::process::Signal;
use sordino_event::{Cpu, catalogue};
use sordino_ring::area::control::{AttachOptions, EnableMode, Program};
use sordino_ring::layout::Geometry;
use sordino_ring::number::{PointId, Seqno};
use sordino_tests::Scene;
use sordino_tests::exchange::area;
use std::fs;
use std::process::Command;
use std::time::Instant;

const POINTS: usize = 1000;
const ROUNDS: usize = 100;

/// Returns the number of interrupts that CPU `cpu` got from other CPUs: the function calls (`membarrier` is one) and
/// TLB shootdowns of `/proc/interrupts`.
fn interrupts_from_others(cpu: usize) -> u64 {
    let text = fs::read_to_string("/proc/interrupts").unwrap();
    let lines =
        text.lines().filter(|line| ["CAL:", "TLB:"].iter().any(|name| line.trim_start().starts_with(name)));
    lines.map(|line| line.split_whitespace().nth(1 + cpu).unwrap().parse::<u64>().unwrap()).sum()
}

/// "Enabling and disabling 1,000 tracepoints in a running program: no interrupt is sent to the traced CPU."
#[test]
#[allow(clippy::print_stderr, reason = "a measurement")]
fn switching_a_thousand_tracepoints_interrupts_nobody() {
    const TRACED: usize = 1;
    let scene = Scene::new();
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Scene::not_measured("one CPU: nobody to interrupt it");
    }
    let mut running = scene.start(Command::new(scene.program("points.c")).arg(TRACED.to_string()));
    running.says("ready");
    let program = Program::open(&area(running.pid())).unwrap();
    let geometry = Geometry::new(16 << 10, 4).unwrap().overwriting();
    let cpus = [0, TRACED as u32].map(Cpu);
    let options = AttachOptions::new("switching", geometry, &cpus, Seqno(5));
    let attached = program.attach(&options).unwrap();
    let (points, _) = catalogue::parse(&program.catalogue(0)).unwrap();
    let ids: Vec<PointId> = points
        .iter()
        .filter(|(_, schema)| schema.full_name().starts_with("points:"))
        .map(|(id, _)| PointId(*id))
        .collect();
    assert_eq!(ids.len(), POINTS);

    let before = interrupts_from_others(TRACED);
    let (mut longest, begin) = (0, Instant::now());
    for _ in 0..ROUNDS {
        for mode in [EnableMode::Always, EnableMode::No] {
            let begin = Instant::now();
            ids.iter().for_each(|&id| _ = program.enable(attached.slot, id, mode));
            longest = begin.elapsed().as_nanos().max(longest);
        }
    }
    let (all, interrupts) = (begin.elapsed(), interrupts_from_others(TRACED) - before);
    eprintln!(
        "{POINTS} tracepoints switched {} times in {all:?}, the longest in {} us; {interrupts} interrupts by other CPUs",
        2 * ROUNDS,
        longest / 1000
    );
    // Others on this machine send some, too.
    assert!(interrupts < (2 * ROUNDS * POINTS / 100) as u64, "{interrupts} interrupts");
    program.detach(&attached).unwrap();
    running.signal(Signal::TERM);
    assert_eq!(running.end().status, 0);
}
