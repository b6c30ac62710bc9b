//! Rings whose sub-buffers get pages while they are used, and give them back.
mod support;

use sordino_event::Cpu;
use sordino_ring::area::control::{AttachOptions, Attached, Portion};
use sordino_ring::layout::Geometry;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::SeqCst;
use support::*;

const SMALL: Geometry = Geometry { bits: 16, count: 8, overwrite: false };
/// Records in a sub-buffer, each of two words and a payload of one.
const RECORDS: u64 = (SMALL.size() as u64 - 80) / 24;

/// A ring for this thread's CPU alone, of which two sub-buffers have pages.
fn sparse() -> AttachOptions<'static> {
    let portion = Some(Portion { per_cpu: 2, shared: 1 });
    AttachOptions { cpus: &[Cpu(0)], portion, conditions: false, ..options(SMALL, u32::MAX - 2) }
}

fn own_pid() -> i32 {
    std::process::id() as i32
}

struct Sparse {
    harness: Harness,
    attached: Attached,
    written: u64,
    read: u64,
}

impl Sparse {
    fn new() -> Self {
        pin(0);
        let harness = Harness::new();
        let attached = harness.program.attach(&sparse()).unwrap();
        Self { harness, attached, written: 0, read: 0 }
    }

    /// Writes records until one is lost. Returns the number of the others.
    fn fill(&mut self) -> u64 {
        let before = (self.lost(), self.written);
        while self.lost() == before.0 {
            self.write();
        }
        self.written -= 1;
        self.written - before.1
    }

    fn write(&mut self) {
        let number = self.written;
        self.harness.write(self.attached.slot, number << 32, &number.to_ne_bytes());
        self.written += 1;
    }

    fn lost(&self) -> u64 {
        self.attached.readers[0].lost().total
    }

    /// Reads all records of complete sub-buffers: each once, and in order.
    fn read(&mut self) {
        for (_, _, bytes) in drain(&mut self.attached) {
            self.compare(&bytes);
        }
    }

    fn compare(&mut self, bytes: &[u8]) {
        for record in records(bytes, 8) {
            assert_eq!(record.payload, self.read.to_ne_bytes());
            self.read += 1;
        }
    }

    fn extend(&mut self, most: u32) -> u64 {
        self.attached.pagers[0].extend(&self.harness.program, own_pid(), most).unwrap()
    }

    fn end(mut self) {
        for (_, _, bytes) in finish(&mut self.attached) {
            self.compare(&bytes);
        }
        assert_eq!(self.read, self.written);
    }

    /// Bytes of memory that the area's file has.
    fn memory(&self) -> u64 {
        // SAFETY: a stat consists of integers, for which zeros are valid.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: fstat on an owned descriptor writes `stat`, which outlives the call.
        assert_eq!(unsafe { libc::fstat(self.harness.file.as_raw_fd(), &raw mut stat) }, 0);
        stat.st_blocks as u64 * 512
    }
}

#[test]
fn writers_go_no_further_than_there_are_pages_and_lose_nothing_of_what_they_wrote() {
    let mut ring = Sparse::new();
    assert_eq!(ring.fill(), 2 * RECORDS);
    assert_eq!(ring.extend(3), 3 * SMALL.size() as u64);
    assert_eq!(ring.fill(), 3 * RECORDS);
    ring.read();
    assert_eq!(ring.fill(), 0, "what was given back lies behind what has no pages");
    assert_eq!(ring.extend(100), 3 * SMALL.size() as u64);
    assert_eq!(ring.fill(), 7 * RECORDS, "all have pages, and the reader had all but one");
    ring.read();
    assert_eq!(ring.fill(), 7 * RECORDS, "the reader alone makes room now");
    assert_eq!(ring.extend(100), 0);
    ring.end();
}

#[test]
fn a_ring_that_does_not_get_all_pages_runs_through_its_size_with_few() {
    let mut ring = Sparse::new();
    let mut most = 0;
    for _ in 0..5 * SMALL.count {
        (0..RECORDS).for_each(|_| ring.write());
        ring.read();
        ring.attached.pagers[0].trim(&ring.harness.program).unwrap();
        ring.extend(1);
        most = most.max(ring.attached.pagers[0].present());
    }
    assert_eq!(ring.lost(), 0);
    assert!(most <= 3 * SMALL.size() as u64, "{most}");
    ring.end();
}

#[test]
fn an_idle_ring_gives_its_memory_back_and_the_file_shows_it() {
    let mut ring = Sparse::new();
    let least = ring.memory();
    ring.extend(100);
    ring.fill();
    ring.read();
    let most = ring.memory();
    assert!(most >= least + 6 * SMALL.size() as u64, "{least}, {most}");
    let (pager, program) = (&mut ring.attached.pagers[0], &ring.harness.program);
    pager.revoke(1);
    assert_eq!(pager.present(), 8 * SMALL.size() as u64);
    assert_eq!(pager.reclaim(program).unwrap(), 6 * SMALL.size() as u64);
    assert_eq!(pager.reclaim(program).unwrap() + pager.trim(program).unwrap(), 0);
    assert_eq!(pager.present(), 2 * SMALL.size() as u64);
    assert_eq!(ring.memory(), most - 6 * SMALL.size() as u64);
    assert_eq!(ring.fill(), RECORDS);
    assert_eq!(ring.extend(100), 6 * SMALL.size() as u64);
    assert_eq!(ring.fill(), 6 * RECORDS);
    ring.end();
}

#[test]
fn what_was_revoked_is_opened_again_without_new_pages() {
    let mut ring = Sparse::new();
    ring.extend(100);
    ring.attached.pagers[0].revoke(2);
    assert_eq!(ring.fill(), 3 * RECORDS);
    assert_eq!(ring.extend(100), 0);
    assert_eq!(ring.fill(), 5 * RECORDS);
    ring.end();
}

/// A writer that loaded `consumed` before the revocation may still enter the next sub-buffer, at any time.
#[test]
fn the_sub_buffer_behind_the_head_keeps_its_pages() {
    let mut ring = Sparse::new();
    ring.extend(100);
    ring.attached.pagers[0].revoke(1);
    // Stands for a writer that has loaded the old `consumed`.
    (0..=RECORDS).for_each(|_| ring.write());
    let (pager, program) = (&mut ring.attached.pagers[0], &ring.harness.program);
    assert_eq!(pager.reclaim(program).unwrap(), 5 * SMALL.size() as u64);
    ring.end();
}

/// The collector's intake makes the first two sub-buffers present when it takes up a program, so they are not tested
/// here.
#[test]
fn a_writer_takes_no_fault_on_pages_that_come_while_it_writes() {
    for is_distrusted in [false, true] {
        let mut ring = Sparse::new();
        if is_distrusted {
            ring.harness.program.distrust();
        }
        ring.fill();
        ring.read();
        for _ in 0..3 {
            for most in [1, 3, 2] {
                ring.extend(most);
                let faults = minor_faults();
                let records = ring.fill();
                // Only the writer is measured: the closure also reads the count of lost records, whose page is present.
                assert_eq!(minor_faults() - faults, 0, "{records} records");
                assert!(records >= u64::from(most) * RECORDS);
                ring.read();
            }
            let (pager, program) = (&mut ring.attached.pagers[0], &ring.harness.program);
            pager.trim(program).unwrap();
            pager.revoke(1);
            pager.reclaim(program).unwrap();
        }
        ring.end();
    }
}

/// A recorder may lack the right to read the program's pages, or the program's first thread may have ended: the ring is
/// used all the same.
#[test]
fn a_head_in_a_sub_buffer_that_was_not_given_is_an_error_and_allocates_nothing() {
    let mut ring = Sparse::new();
    let first = ring.harness.area.rings(ring.attached.slot).first;
    let store = |seqno: u32| {
        let offset = u64::from(seqno % SMALL.count) << SMALL.bits;
        // SAFETY: the ring's header is mapped as long as the area; all fields are atomics.
        unsafe { &*first }.head.store((u64::from(seqno) << 32) + offset + 80, SeqCst);
    };
    let seqnos = |ring: &mut Sparse| {
        let begin = u32::MAX - 2;
        let seqnos = (0..SMALL.count).map(|ahead| begin.wrapping_add(ahead));
        seqnos
            .filter(|&seqno| {
                store(seqno);
                ring.attached.readers[0].get_run(8).is_ok()
            })
            .count()
    };
    let before = ring.memory();
    assert_eq!(seqnos(&mut ring), 2);
    assert_eq!(ring.memory(), before);
    store(u32::MAX - 2);
    ring.extend(1);
    assert_eq!(seqnos(&mut ring), 3);
    store(u32::MAX - 2);
    ring.extend(8);
    assert_eq!(seqnos(&mut ring), 8);
    store(u32::MAX - 2);
    assert!(ring.attached.pagers[0].revoke(1));
    ring.attached.pagers[0].reclaim(&ring.harness.program).unwrap();
    let before = ring.memory();
    assert_eq!(seqnos(&mut ring), 2);
    assert_eq!(ring.memory(), before);
}

#[test]
fn a_sub_buffer_whose_pages_cannot_be_made_present_is_opened_with_its_memory() {
    let mut ring = Sparse::new();
    let before = ring.memory();
    let (pager, program) = (&mut ring.attached.pagers[0], &ring.harness.program);
    assert_eq!(pager.extend(program, i32::MAX, 2).unwrap(), 2 * SMALL.size() as u64);
    assert_eq!(ring.memory(), before + 2 * SMALL.size() as u64);
    assert_eq!(ring.fill(), 4 * RECORDS);
    ring.read();
    assert_eq!(ring.extend(2), 2 * SMALL.size() as u64);
    assert_eq!(ring.fill(), 2 * RECORDS);
    ring.end();
}

/// The commit words of two sub-buffers lie on one page, and count all bytes that were committed in them.
#[test]
fn the_shared_ring_keeps_its_commit_words_when_sub_buffers_get_memory() {
    let harness = Harness::new();
    let portion = Some(Portion { per_cpu: 1, shared: 1 });
    let options = AttachOptions { cpus: &[], portion, conditions: false, ..options(SMALL, u32::MAX - 2) };
    let mut attached = harness.program.attach(&options).unwrap();
    let (mut written, mut read) = (0u64, 0);
    for _ in 0..5 * SMALL.count {
        let lost = attached.readers[0].lost().total;
        while attached.readers[0].lost().total == lost {
            harness.write(attached.slot, 1 << 32, &written.to_ne_bytes());
            written += 1;
        }
        written -= 1;
        let pager = &mut attached.pagers[0];
        pager.trim(&harness.program).unwrap();
        pager.extend(&harness.program, own_pid(), 1).unwrap();
    }
    read += finish(&mut attached).iter().map(|(_, _, bytes)| shared_records(bytes).len() as u64).sum::<u64>();
    assert_eq!(read, written);
}

/// The minor page faults of this thread.
fn minor_faults() -> usize {
    // SAFETY: a rusage consists of integers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes `usage`, which outlives the call.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) }, 0);
    usage.ru_minflt as usize
}

#[test]
fn the_pager_is_called_once_when_writers_come_to_its_mark() {
    let mut ring = Sparse::new();
    let calls = |ring: &Sparse| ring.attached.readers[0].calls_pager();
    assert!(!calls(&ring) && ring.attached.pagers[0].is_called());
    let head = ring.attached.pagers[0].usage().unwrap().head;
    ring.attached.pagers[0].call_behind(head, SMALL.size() as u64 + 1000);
    (0..RECORDS).for_each(|_| ring.write());
    assert!(!calls(&ring) && !ring.attached.pagers[0].is_called());
    (0..100).for_each(|_| ring.write());
    assert!(ring.attached.pagers[0].is_called(), "the pager does not depend on the reader");
    assert!(calls(&ring) && !calls(&ring) && ring.attached.pagers[0].is_called());
    ring.end();
}
