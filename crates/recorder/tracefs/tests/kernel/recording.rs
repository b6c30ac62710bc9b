//! Tests that every record of the kernel's buffers is read or counted as lost.

use super::*;
use sordino_tracefs::{CLOCK_MONOTONIC, CLOCK_TSC};

fn formats(tracefs: &Tracefs, events: &[EventName]) -> Vec<Format> {
    events.iter().map(|event| tracefs.format(event).unwrap()).collect()
}

/// Traces the calls of a process in an instance that `set` has set up, and checks that each is in the records or in the
/// kernel's counts of lost ones. Returns the pages' count of missing records.
fn every_call_is_accounted_for(calls: u32, drain: bool, set: impl FnOnce(&mut Instance)) -> Option<u64> {
    let tracefs = tracefs()?;
    let mut instance = instance(&tracefs);
    set(&mut instance);
    // Records of sys_exit leave room at the end of a page for the count, those of sys_enter do not.
    let selection = format!("raw_syscalls:sys_exit if id == {GETPID}");
    let caller = Caller::start(calls);
    instance.set_threads(&[caller.tid], false).unwrap();
    let events = instance.select(&[selection.parse().unwrap()]).unwrap();
    let page_size = instance.page_layout().unwrap().page_size();
    let mut recording = UnnamedFiles::start(instance);
    caller.run(|| {
        if drain {
            recording.drain.drain_next(1).unwrap();
        }
    });
    let recorded = recording.finish();
    let content = content(&recorded, &formats(&tracefs, &events), page_size);
    let lost: u64 = recorded.iter().map(|cpu| cpu.drained.statistics.lost()).sum();
    assert_eq!(content.records.len() as u64 + lost, u64::from(calls));
    let overrun: u64 = recorded.iter().map(|cpu| cpu.drained.statistics.overrun).sum();
    assert!(content.missed.is_none_or(|missed| missed == overrun), "{:?} of {overrun}", content.missed);
    content.missed
}

#[test]
fn every_system_call_of_a_thread_is_recorded() {
    const CALLS: u32 = 10_000;
    let Some(tracefs) = tracefs() else { return };
    let mut instance = instance(&tracefs);
    instance.set_buffer_kib(8192).unwrap();
    let caller = Caller::start(CALLS);
    let tid = caller.tid;
    instance.set_threads(&[tid], false).unwrap();
    let selections = ["raw_syscalls", "sched_switch"].map(|text| text.parse().unwrap());
    let events = instance.select(&selections).unwrap();
    let place = |name| events.iter().position(|event| event.name == name).unwrap();
    let page_size = instance.page_layout().unwrap().page_size();
    let mut recording = UnnamedFiles::start(instance);
    caller.run(|| {
        recording.drain.drain().unwrap();
    });
    let recorded = recording.finish();
    let content = content(&recorded, &formats(&tracefs, &events), page_size);
    assert_eq!(content.missed, Some(0));
    let called = |event| {
        let integer = |payload: &[u8]| i64::from_ne_bytes(*payload.first_chunk().unwrap());
        let ours = content.records.iter().filter(|(_, header, _)| header.event == event && header.tid == tid);
        ours.filter(|(_, _, payload)| integer(payload) == GETPID).count()
    };
    assert_eq!(called(place("sys_enter")), CALLS as usize);
    assert_eq!(called(place("sys_exit")), CALLS as usize);
    // The process has at least waited for its start, and exited.
    assert!(content.records.iter().any(|(_, header, _)| header.event == place("sched_switch")));
}

#[test]
fn children_of_a_traced_thread_are_traced_on_request() {
    const CALLS: u32 = 1_000;
    let Some(tracefs) = tracefs() else { return };
    for follow in [true, false] {
        let mut instance = instance(&tracefs);
        instance.set_buffer_kib(4096).unwrap();
        let own = Tid(rustix::thread::gettid().as_raw_nonzero().get());
        instance.set_threads(&[own], follow).unwrap();
        let selection = format!("raw_syscalls:sys_enter if id == {GETPID}");
        let events = instance.select(&[selection.parse().unwrap()]).unwrap();
        let page_size = instance.page_layout().unwrap().page_size();
        let recording = UnnamedFiles::start(instance);
        let caller = Caller::start(CALLS);
        let tid = caller.tid;
        caller.run(|| {});
        let content = content(&recording.finish(), &formats(&tracefs, &events), page_size);
        let calls = content.records.iter().filter(|(_, header, _)| header.tid == tid).count();
        assert_eq!(calls, if follow { CALLS as usize } else { 0 });
    }
}

#[test]
fn overwritten_records_are_counted_exactly() {
    let missed = every_call_is_accounted_for(100_000, false, |instance| {
        assert!(instance.set_buffer_kib(16).unwrap() >= 16);
        instance.set_overwrite(true).unwrap();
    });
    assert_ne!(missed, Some(0));
}

#[test]
fn overwritten_records_are_counted_exactly_while_draining() {
    every_call_is_accounted_for(300_000, true, |instance| {
        instance.set_buffer_kib(16).unwrap();
    });
}

#[test]
fn discarded_records_are_counted_exactly() {
    let missed = every_call_is_accounted_for(100_000, false, |instance| {
        instance.set_buffer_kib(16).unwrap();
        instance.set_overwrite(false).unwrap();
    });
    // The oldest are kept; the kernel's pages do not contain that later ones are missing.
    assert!(missed.is_none_or(|missed| missed == 0));
}

#[test]
fn larger_sub_buffers_are_drained_and_read_too() {
    every_call_is_accounted_for(50_000, true, |instance| match instance.set_subbuffer_kib(64) {
        Ok(size) => {
            assert_eq!(size, 64);
            assert_eq!(instance.page_layout().unwrap().page_size(), 65536);
            instance.set_buffer_kib(512).unwrap();
        }
        Err(error) => assert!(matches!(error, Error::Missing { .. }), "{error}"),
    });
}

#[test]
fn all_events_at_once_are_understood() {
    let Some(tracefs) = tracefs() else { return };
    let mut instance = instance(&tracefs);
    let clocks = instance.clocks().unwrap();
    if clocks.has(CLOCK_TSC) {
        instance.set_clock(CLOCK_TSC).unwrap();
    }
    let events = instance.select(&["*".parse().unwrap()]).unwrap();
    assert_eq!(events, tracefs.events().unwrap());
    let page_size = instance.page_layout().unwrap().page_size();
    let mut recording = UnnamedFiles::start(instance);
    for _ in 0..100 {
        recording.drain.drain().unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    let recorded = recording.finish();
    let content = content(&recorded, &formats(&tracefs, &events), page_size);
    let mut kinds: Vec<usize> = content.records.iter().map(|(_, header, _)| header.event).collect();
    kinds.sort_unstable();
    kinds.dedup();
    // Reading the counts causes events, which are not recorded any more.
    assert!(recorded.iter().all(|cpu| cpu.drained.statistics.entries == 0));
    assert!(kinds.len() > 10, "{} kinds of events in {} records", kinds.len(), content.records.len());
}

#[test]
fn records_carry_the_time_they_were_written_at() {
    let Some(tracefs) = tracefs() else { return };
    let now = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    };
    let mut instance = instance(&tracefs);
    instance.set_clock(CLOCK_MONOTONIC).unwrap();
    let before = now();
    let events = instance.select(&["sched".parse().unwrap()]).unwrap();
    let page_size = instance.page_layout().unwrap().page_size();
    let recording = UnnamedFiles::start(instance);
    std::thread::sleep(Duration::from_millis(20));
    let recorded = recording.finish();
    let after = now();
    let content = content(&recorded, &formats(&tracefs, &events), page_size);
    assert!(!content.records.is_empty());
    for (ticks, ..) in content.records {
        assert!((before..=after).contains(&ticks), "{ticks} is not between {before} and {after}");
    }
}

#[test]
fn a_file_that_takes_nothing_is_an_error() {
    let Some(tracefs) = tracefs() else { return };
    let mut instance = instance(&tracefs);
    instance.select(&["sched".parse().unwrap()]).unwrap();
    let drain = Drain::new(instance, |_| Ok(File::open("/dev/null")?.into())).unwrap();
    switch_on_each_cpu();
    for drained in drain.finish().unwrap() {
        let Some(Error::Io { action, source, .. }) = drained.failure else { panic!("written to nowhere") };
        assert_eq!((drained.bytes, action), (0, "write to the file for"));
        assert_eq!(rustix::io::Errno::from_io_error(&source), Some(rustix::io::Errno::BADF));
    }
    let Err(Error::Io { action, .. }) =
        Drain::new(super::instance(&tracefs), |_| Err(std::io::ErrorKind::NotFound.into()))
    else {
        panic!("no file to write to")
    };
    assert_eq!(action, "open the file for");
}

#[test]
fn what_a_full_file_did_not_take_follows_later() {
    const CALLS: u32 = 20_000;
    let Some(tracefs) = tracefs() else { return };
    let mut instance = instance(&tracefs);
    instance.set_buffer_kib(4096).unwrap();
    let caller = Caller::start(CALLS);
    instance.set_threads(&[caller.tid], false).unwrap();
    let selection = format!("raw_syscalls:sys_exit if id == {GETPID}");
    let events = instance.select(&[selection.parse().unwrap()]).unwrap();
    // The file of CPU 0 is a pipe, which accepts only some pages.
    let (mut reader, writer) = std::io::pipe().unwrap();
    let control = writer.try_clone().unwrap();
    rustix::io::ioctl_fionbio(&control, true).unwrap();
    let mut writer = Some(writer);
    let file = |Cpu(cpu)| {
        if cpu == 0 { Ok(writer.take().unwrap().into()) } else { tempfile::tempfile().map(Into::into) }
    };
    let mut drain = Drain::new(instance, file).unwrap();
    caller.run(|| {});
    let (mut pages, mut full) = (Vec::new(), 0);
    let page_size = drain.page_layout().page_size();
    loop {
        match drain.drain() {
            Ok(0) => break,
            Ok(_) => {}
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::WouldBlock => {
                full += 1;
                let mut page = vec![0; page_size];
                reader.read_exact(&mut page).unwrap();
                pages.extend(page);
            }
            Err(error) => panic!("{error}"),
        }
    }
    let rest = std::thread::spawn(move || {
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        rest
    });
    // The last page is not written again, so there must be room for it.
    rustix::pipe::fcntl_setpipe_size(&control, 1 << 20).unwrap();
    drop(control);
    let mut drained = drain.finish().unwrap();
    pages.extend(rest.join().unwrap());
    assert!(full > 0);
    assert_eq!(drained[0].bytes, pages.len() as u64);
    let recorded = [RecordedPages { drained: drained.swap_remove(0), pages }];
    let content = content(&recorded, &formats(&tracefs, &events), page_size);
    assert_eq!(content.records.len(), CALLS as usize);
}
