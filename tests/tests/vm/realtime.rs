//! A program and the kernel are recorded on PREEMPT_RT.

use crate::{Storm, results_of, text};
use sordino_tests::RecordedEvent;

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn a_program_and_a_real_time_kernel_are_recorded() {
    let results = results_of("realtime");
    assert_eq!(text(&results.join("realtime")), "1\n", "the kernel is not PREEMPT_RT");
    let storm = Storm::of(&results.join("recording"));
    storm.verify();
    let (recording, kernel) = (&storm.recording, storm.kernel());
    assert_eq!(recording.lost(), 0);
    assert!(recording.user_events() > 0);
    let has = |name: &str| kernel.iter().any(|event| event.name == name);
    assert!(has("sched_switch") && has("irq_handler_entry") && has("irq_softirq_entry"));
    // The timer that interrupts the recorder's loop does so in its interrupt alone, and in no thread.
    let mut all = recording.events_of_kernel();
    all.retain(|event| event.name.ends_with("_interrupted") || event.name.contains("local_timer"));
    all.sort_by_key(|event| event.time);
    let is_measured =
        |pair: &[RecordedEvent]| pair[0].name.ends_with("_exit") && pair[1].name.ends_with("_interrupted");
    let measured = all.windows(2).filter(|pair| is_measured(pair)).count();
    assert!(measured >= 5, "the entry of interrupts was measured {measured} times");
    recording.babeltrace_reads_all();
    assert_eq!(recording.babeltrace().len() as u64, recording.user_events());
    assert_eq!(text(&results.join("instances")), "", "left in tracefs");
}
