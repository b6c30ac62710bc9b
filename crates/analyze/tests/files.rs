//! The files whose pages a thread waits for, and who reads them.

mod support;

use sordino_analyze::*;
use support::{HOG, IDLE, NPT, Script, Thread as Task, V, WAITING, explain_longest, loops};

/// The kernel's number of device 254:2.
const DEVICE: u64 = 254 << 20 | 2;

/// `thread` asks for a page of file 7, or has one read.
fn page(script: &mut Script, name: &str, thread: Task) {
    let fields = [("i_ino", V::U(7)), ("s_dev", V::U(DEVICE))];
    script.by(thread).kernel(name, &fields);
}

/// Loops of npt on CPU 1, in the last of which it faults at 1040, sleeps from 1060 to 2000, and what `events` adds.
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

/// The files of the page fault: device, inode, reader and time.
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
            page(script, "mm_filemap_fault", NPT);
            page(script, "mm_filemap_add_to_page_cache", NPT);
        },
    );
    assert_eq!(files(&own), [("254:2".to_owned(), 7, Some(NPT.0), 940)]);
    let others = faults(
        |script| {
            script.at(1030).cpu(0);
            page(script, "mm_filemap_add_to_page_cache", HOG);
        },
        |script| page(script, "mm_filemap_fault", NPT),
    );
    assert_eq!(files(&others), [("254:2".to_owned(), 7, Some(HOG.0), 940)]);
    let unseen = faults(|_| {}, |script| page(script, "mm_filemap_fault", NPT));
    assert_eq!(files(&unseen), [("254:2".to_owned(), 7, None, 940)]);
}

#[test]
fn a_file_of_an_earlier_fault_or_of_another_thread_is_not_named() {
    let earlier = faults(
        |script| {
            script.at(1010).cpu(1).by(NPT).fault(true);
            page(script, "mm_filemap_fault", NPT);
        },
        |_| {},
    );
    assert_eq!(files(&earlier), []);
    let others = faults(|_| {}, |script| page(script, "mm_filemap_fault", HOG));
    assert_eq!(files(&others), []);
}

#[test]
fn a_read_from_a_device_names_the_file_and_the_next_call_forgets_it() {
    let mut script = loops("a:b");
    script.at(1010).cpu(1).by(NPT).syscall(0);
    page(&mut script, "mm_filemap_add_to_page_cache", NPT);
    script.at(1020).switch(NPT, WAITING, IDLE);
    script.at(1500).by(IDLE).waking(NPT, 1).switch(IDLE, 0, NPT);
    script.at(1510).by(NPT).syscall_exit(0).syscall(1).switch(NPT, WAITING, IDLE);
    script.at(2000).by(IDLE).waking(NPT, 1).switch(IDLE, 0, NPT);
    script.at(2010).by(NPT).syscall_exit(1);
    script.at(2050).user("a:b", NPT, &[]);
    let explanation = explain_longest(&script, "a:b").0;
    assert_eq!(files(&explanation), [("254:2".to_owned(), 7, Some(NPT.0), 480)]);
}
