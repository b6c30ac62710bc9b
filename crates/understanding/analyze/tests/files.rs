//! Tests of the files whose pages a thread waits for, and of their readers.

mod support;

use sordino_analyze::*;
use support::{HOG, IDLE, NPT, Script, ScriptThread as Task, V, WAITING, explain_longest, loops};

/// The kernel's number of device 254:2.
const DEVICE: u64 = 254 << 20 | 2;

/// Adds a request of `thread` for a page of file 7.
fn ask(script: &mut Script, thread: Task, index: u64) {
    let fields = [("i_ino", V::U(7)), ("s_dev", V::U(DEVICE)), ("index", V::U(index))];
    script.by(thread).kernel("mm_filemap_fault", &fields);
}

/// Adds four pages of file 7 that `thread` brings into memory.
fn bring(script: &mut Script, thread: Task, index: u64) {
    let fields = [("i_ino", V::U(7)), ("s_dev", V::U(DEVICE)), ("index", V::U(index)), ("order", V::U(2))];
    script.by(thread).kernel("mm_filemap_add_to_page_cache", &fields);
}

/// Creates loops of npt on CPU 1, in the last of which it faults at 1040 and sleeps from 1060 to 2000, with additional
/// events before and in the fault.
fn faults(before: impl FnOnce(&mut Script), in_fault: impl FnOnce(&mut Script)) -> Explanation {
    let mut script = loops("a:b");
    before(&mut script);
    script.at(1040).cpu(1).by(NPT).fault(true);
    script.at(1050);
    in_fault(&mut script);
    script.at(1060).cpu(1).by(NPT).switch(NPT, WAITING, IDLE);
    script.at(2000).by(IDLE).waking(NPT, 1).switch(IDLE, 0, NPT);
    script.at(2050).user("a:b", NPT, &[]);
    explain_longest(&script, "a:b").0
}

/// Returns the files of the page fault: device, inode, reader and time.
fn files(explanation: &Explanation) -> Vec<(String, u64, Option<i32>, i64)> {
    let blocked = explanation.parts.iter().filter(|part| matches!(part.cause, Cause::Blocked { .. }));
    let files = blocked.flat_map(|part| &part.files);
    let of = |read: &ReadFile| {
        let by = read.by.as_ref().map(|thread| thread.tid.0);
        (read.file.device.to_string(), read.file.inode, by, read.time.0)
    };
    files.map(of).collect()
}

#[test]
fn a_fault_that_reads_names_the_file_and_its_reader() {
    let own = faults(
        |_| {},
        |script| {
            ask(script, NPT, 6);
            bring(script, NPT, 4);
        },
    );
    assert_eq!(files(&own), [("254:2".to_owned(), 7, Some(NPT.0), 940)]);
    let others = faults(
        |script| {
            script.at(1030).cpu(0);
            bring(script, HOG, 4);
        },
        |script| ask(script, NPT, 6),
    );
    assert_eq!(files(&others), [("254:2".to_owned(), 7, Some(HOG.0), 940)]);
    let unseen = faults(|_| {}, |script| ask(script, NPT, 6));
    assert_eq!(files(&unseen), [("254:2".to_owned(), 7, None, 940)]);
}

#[test]
fn a_file_of_an_earlier_fault_or_of_another_thread_is_not_named() {
    let earlier = faults(
        |script| {
            script.at(1010).cpu(1).by(NPT).fault(true);
            ask(script, NPT, 6);
        },
        |_| {},
    );
    assert_eq!(files(&earlier), []);
    let others = faults(|_| {}, |script| ask(script, HOG, 6));
    assert_eq!(files(&others), []);
}

#[test]
fn a_read_from_a_device_names_the_file_and_the_next_call_forgets_it() {
    let mut script = loops("a:b");
    script.at(1010).cpu(1).by(NPT).syscall(0);
    bring(&mut script, NPT, 4);
    script.at(1020).switch(NPT, WAITING, IDLE);
    script.at(1500).by(IDLE).waking(NPT, 1).switch(IDLE, 0, NPT);
    script.at(1510).by(NPT).syscall_exit(0).syscall(1).switch(NPT, WAITING, IDLE);
    script.at(2000).by(IDLE).waking(NPT, 1).switch(IDLE, 0, NPT);
    script.at(2010).by(NPT).syscall_exit(1);
    script.at(2050).user("a:b", NPT, &[]);
    let explanation = explain_longest(&script, "a:b").0;
    assert_eq!(files(&explanation), [("254:2".to_owned(), 7, Some(NPT.0), 480)]);
}

#[test]
fn who_brought_another_page_is_not_its_reader() {
    let other_page = faults(
        |script| {
            script.at(1030).cpu(0);
            bring(script, HOG, 8);
        },
        |script| ask(script, NPT, 6),
    );
    assert_eq!(files(&other_page), [("254:2".to_owned(), 7, None, 940)]);
}

/// Returns the files of a call on CPU 1 that npt enters at 1010, where it does what `events` adds and sleeps from 1020
/// to 2000.
fn in_call(call: i64, events: impl FnOnce(&mut Script)) -> Vec<(String, u64, Option<i32>, i64)> {
    let mut script = loops("a:b");
    script.at(1010).cpu(1).by(NPT).syscall(call);
    events(&mut script);
    script.at(1020).by(NPT).switch(NPT, WAITING, IDLE);
    script.at(2000).by(IDLE).waking(NPT, 1).switch(IDLE, 0, NPT);
    script.at(2010).by(NPT).syscall_exit(call);
    script.at(2050).user("a:b", NPT, &[]);
    files(&explain_longest(&script, "a:b").0)
}

#[test]
fn a_write_waits_for_no_page_that_it_makes_or_has() {
    assert_eq!(in_call(0, |script| bring(script, NPT, 4)).len(), 1, "a read");
    assert_eq!(in_call(1, |script| bring(script, NPT, 4)), []);
    assert_eq!(in_call(1, |script| ask(script, NPT, 6)), [], "of what it writes from");
    let brought = in_call(1, |script| {
        ask(script, NPT, 6);
        bring(script, NPT, 4);
    });
    assert_eq!(brought.len(), 1, "what it writes from has to be read");
}

#[test]
fn a_second_sleep_and_a_signal_forget_the_file() {
    let twice = in_call(0, |script| {
        bring(script, NPT, 4);
        script.at(1015).switch(NPT, WAITING, IDLE).at(1018).by(IDLE).waking(NPT, 1).switch(IDLE, 0, NPT);
    });
    assert_eq!(twice, [("254:2".to_owned(), 7, Some(NPT.0), 3)]);
    let mut script = loops("a:b");
    script.at(1040).cpu(1).by(NPT).fault(true);
    ask(&mut script, NPT, 6);
    script.by(NPT).delivered(10, 2).at(1060).switch(NPT, WAITING, IDLE);
    script.at(2000).by(IDLE).waking(NPT, 1).switch(IDLE, 0, NPT);
    script.at(2050).user("a:b", NPT, &[]);
    assert_eq!(files(&explain_longest(&script, "a:b").0), []);
}
