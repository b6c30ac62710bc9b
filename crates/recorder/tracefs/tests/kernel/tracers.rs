//! Tests that lines can be read while a tracer runs.

use super::*;
use sordino_tracefs::Lines;

/// Returns the remaining lines after recording has stopped.
fn rest(lines: &mut Lines) -> Vec<String> {
    let mut all = Vec::new();
    while lines.read(|line| all.push(line.to_owned())).unwrap() {}
    all
}

#[test]
fn a_line_is_returned_once_and_lost_ones_are_counted() {
    let Some(tracefs) = tracefs() else { return };
    let mut instance = instance(&tracefs);
    instance.set_buffer_kib(8).unwrap();
    instance.set_threads(&[Tid(rustix::thread::gettid().as_raw_nonzero().get())], false).unwrap();
    instance.select(&["raw_syscalls:sys_enter".parse().unwrap()]).unwrap();
    let mut lines = instance.lines().unwrap();
    let mut record = |times: u32| {
        instance.set_tracing(true).unwrap();
        (0..times).for_each(|_| std::thread::yield_now());
        instance.set_tracing(false).unwrap();
        rest(&mut lines)
    };
    let calls = |lines: &[String]| lines.iter().filter(|line| line.contains("sys_enter: NR ")).count();
    assert!((10..100).contains(&calls(&record(10))));
    let all = record(10_000);
    let lost =
        |line: &&String| line.starts_with("CPU:") && line.contains(" [LOST ") && line.ends_with(" EVENTS]");
    assert!(calls(&all) > 10 && all.iter().filter(lost).count() > 0, "{all:?}");
    assert!(rest(&mut lines).is_empty());
}
