//! CPU 1 goes and comes while storms are recorded.

use crate::{Storm, results_of, text};
use sordino_tests::RecordedEvent;
use std::collections::HashMap;

/// Number of times that CPU 1 goes and comes in each storm.
const GOES: usize = 3;

/// Lanes of children that write to the shared ring.
const CHILDREN_OF_VFORK: [i64; 2] = [80, 82];

/// A storm, verified, during which CPU 1 went and came.
fn storm(name: &str) -> Storm {
    let directory = results_of("hotplug").join(name);
    assert_eq!(text(&directory.join("online")), "0\n0-1\n".repeat(GOES), "CPU 1 did not go and come");
    let storm = Storm::of(&directory);
    storm.verify();
    storm
}

/// Intervals of each CPU by the kernel's events: their start, and the running thread.
type CpuIntervals = HashMap<u32, Vec<(i64, i64)>>;

/// Follows each CPU from thread to thread. A missing record would break the chain; only from the thread that takes CPU
/// 1 away to the idle one the kernel tells nothing, so often as the CPU goes.
fn schedule(kernel: &[RecordedEvent], goes: usize) -> CpuIntervals {
    let (mut schedule, mut gone, mut names) = (CpuIntervals::new(), 0, HashMap::new());
    for event in kernel.iter().filter(|event| event.name == "sched_switch") {
        let [previous, next] = [1, 5].map(|field| event.numbers[field]);
        let of_cpu = schedule.entry(event.cpu.expect("a CPU")).or_default();
        let running = of_cpu.last().map_or(previous, |&(_, thread)| thread);
        if (event.cpu, previous) == (Some(1), 0) && names.get(&running) == Some(&"migration/1") {
            gone += 1;
        } else {
            assert_eq!(running, previous, "{event:?}");
        }
        names.insert(next, &event.texts[1]);
        of_cpu.push((event.time, next));
    }
    assert_eq!(gone, goes);
    schedule
}

fn assert_rings(storm: &Storm) {
    for cpu in [0, 1] {
        assert!(storm.events(Some(cpu)) > Some(0), "nothing of CPU {cpu}");
    }
}

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn the_rings_of_cpus_that_go_and_come_are_whole() {
    assert_rings(&storm("discard"));
}

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn so_are_those_that_overwrite() {
    assert_rings(&storm("overwrite"));
}

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn so_is_the_shared_one() {
    for name in ["shared-discard", "shared-overwrite"] {
        let storm = storm(name);
        assert_eq!([Some(0), Some(1)].map(|cpu| storm.events(cpu)), [None, None]);
    }
}

/// Returns, of the records that name `cpu`, how many were written by threads that ran there by the kernel's events, and
/// how many elsewhere.
fn places(schedule: &CpuIntervals, cpu: u32, events: &[RecordedEvent]) -> (usize, usize) {
    let switches = &schedule[&cpu];
    let ran_there = |event: &RecordedEvent| {
        // The running thread is unknown before the first switch.
        let last = switches.partition_point(|&(time, _)| time <= event.time).checked_sub(1)?;
        Some(switches[last].1 == i64::from(event.tid))
    };
    let ran: Vec<bool> = events.iter().filter(|event| event.cpu == Some(cpu)).filter_map(ran_there).collect();
    let there = ran.iter().filter(|&&there| there).count();
    (there, ran.len() - there)
}

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn programs_and_the_kernel_agree_where_threads_ran() {
    let storm = storm("kernel");
    assert_rings(&storm);
    let schedule = schedule(&storm.kernel(), GOES);
    let mut events = storm.recording.events();
    events.retain(|event| !CHILDREN_OF_VFORK.contains(&(event.numbers[0] >> 40)));
    for cpu in [0, 1] {
        let (there, elsewhere) = places(&schedule, cpu, &events);
        assert!(there > 0 && elsewhere == 0, "CPU {cpu}: {there} there, {elsewhere} elsewhere");
    }
}

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn a_cpu_that_comes_late_writes_to_the_shared_ring() {
    let storm = Storm::of(&results_of("hotplug/late"));
    storm.verify();
    assert_eq!(storm.events(Some(1)), None, "a ring for a CPU that was not online");
    let (schedule, events) = (schedule(&storm.kernel(), 0), storm.recording.events());
    for cpu in [0, 1] {
        // Writers of the shared ring read the CPU's number a moment after the clock.
        let (there, elsewhere) = places(&schedule, cpu, &events);
        assert!(there > 10 * elsewhere, "CPU {cpu}: {there} there, {elsewhere} elsewhere");
    }
}
