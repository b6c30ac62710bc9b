//! A program and the kernel are recorded on PREEMPT_RT.

use crate::{Storm, results_of, text};

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
    recording.babeltrace_reads_all();
    assert_eq!(recording.babeltrace().len() as u64, recording.user_events());
    assert_eq!(text(&results.join("instances")), "", "left in tracefs");
}
