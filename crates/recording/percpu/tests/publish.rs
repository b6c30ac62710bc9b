//! The restartable section alone: it commits the record, or it leaves the head unchanged.

use sordino_percpu::primitive::{AtomicU64, Relaxed};
use sordino_percpu::{
    Bytes, Commit, NO_CPU, Outcome, SwitchWords, Words, cpu, init, publish, publish_switching,
};

/// A head, and memory for records behind it.
struct PublishTarget {
    head: AtomicU64,
    bytes: Vec<u64>,
}

impl PublishTarget {
    fn new() -> Self {
        Self { head: AtomicU64::new(100), bytes: vec![0; 64] }
    }

    fn commit<P>(&mut self, cpu: u32, expected: u64, payload: P) -> Commit<'_, P> {
        Commit {
            cpu,
            head: &self.head,
            expected,
            new: expected + 16,
            destination: self.bytes.as_mut_ptr().cast(),
            timestamp: 1,
            tag: 2,
            payload,
        }
    }
}

fn bytes(payload: &[u8]) -> Bytes {
    Bytes { from: payload.as_ptr(), length: payload.len() }
}

/// Publishes until a record is committed, at most 100 times: any single try may be preempted.
fn settle(mut attempt: impl FnMut(u32) -> Outcome) -> Outcome {
    (0..100)
        .map(|_| attempt(cpu()))
        .find(|&outcome| outcome == Outcome::Committed)
        .unwrap_or(Outcome::Restart)
}

#[test]
fn a_record_is_copied_whole_before_the_head_moves() {
    assert!(init(false), "this kernel and C library have no rseq");
    for chunks in 0..5 {
        let payload: Vec<u8> = (1..=16 * chunks).collect();
        let mut target = PublishTarget::new();
        // SAFETY: `target` has room for 16 + 64 bytes and belongs to this thread alone.
        let outcome = settle(|cpu| unsafe { publish(&target.commit(cpu, 100, bytes(&payload))) });
        assert_eq!((outcome, target.head.load(Relaxed)), (Outcome::Committed, 116));
        let bytes: Vec<u8> = target.bytes.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(&target.bytes[..2], [1, 2]);
        assert_eq!(&bytes[16..16 + payload.len()], payload);
        assert!(bytes[16 + payload.len()..].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn a_record_of_two_words_is_written_from_registers() {
    assert!(init(false), "this kernel and C library have no rseq");
    let mut target = PublishTarget::new();
    // SAFETY: `target` has room for 16 + 16 bytes and belongs to this thread alone.
    let outcome = settle(|cpu| unsafe { publish(&target.commit(cpu, 100, Words(3, 4))) });
    assert_eq!((outcome, target.head.load(Relaxed)), (Outcome::Committed, 116));
    assert_eq!(target.bytes[..5], [1, 2, 3, 4, 0]);
}

#[test]
fn another_head_or_another_cpu_restarts() {
    assert!(init(false), "this kernel and C library have no rseq");
    let mut target = PublishTarget::new();
    let nines = bytes(&[9; 16]);
    // SAFETY: `target` has room for 16 + 16 bytes and belongs to this thread alone; the section may not write, since
    // the head differs.
    let outcome = settle(|cpu| unsafe { publish(&target.commit(cpu, 99, nines)) });
    assert_eq!(outcome, Outcome::Restart);
    // SAFETY: `target` has room for 16 + 16 bytes and belongs to this thread alone; the section may not write, since
    // the CPU differs.
    let outcome = settle(|cpu| unsafe { publish(&target.commit(cpu + 1, 100, nines)) });
    assert_eq!(outcome, Outcome::Restart);
    assert_eq!(target.head.load(Relaxed), 100);
    assert!(target.bytes.iter().all(|&word| word == 0));
}

#[test]
fn what_is_left_behind_is_written_with_the_record() {
    assert!(init(false), "this kernel and C library have no rseq");
    let mut target = PublishTarget::new();
    let mut left = [0u64; 3];
    let switch = SwitchWords { destination: &mut left, lost: 7 };
    // SAFETY: `target` has room for 16 + 16 bytes; `left` outlives the call; both belong to this thread alone.
    let outcome =
        settle(|cpu| unsafe { publish_switching(&target.commit(cpu, 100, bytes(&[9; 16])), switch) });
    // The timestamp, the head before, the count.
    assert_eq!((outcome, left), (Outcome::Committed, [1, 100, 7]));
    assert_eq!(target.bytes[..5], [1, 2, 0x0909_0909_0909_0909, 0x0909_0909_0909_0909, 0]);
    // SAFETY: `target` has room for 16 + 16 bytes; `left` outlives the call; both belong to this thread alone.
    let outcome = settle(|cpu| unsafe {
        publish_switching(&target.commit(cpu, 116, Words(3, 4)), SwitchWords { lost: 8, ..switch })
    });
    assert_eq!((outcome, left), (Outcome::Committed, [1, 116, 8]));
    assert_eq!(target.bytes[..5], [1, 2, 3, 4, 0]);
}

#[test]
fn without_registration_there_is_no_cpu_and_nothing_commits() {
    // `init` decides for all threads, so the test needs a process of its own.
    // SAFETY: the child of the fork allocates nothing.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut target = PublishTarget { head: AtomicU64::new(100), bytes: Vec::new() };
        let refused = !init(true) && cpu() == NO_CPU;
        // SAFETY: without a registered area the section writes nothing, as this test demands; `head` outlives the call.
        let outcome = unsafe { publish(&target.commit(0, 100, bytes(&[]))) };
        let code = i32::from(!(refused && outcome == Outcome::Restart));
        // SAFETY: `_exit` ends the child, and runs no destructors.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: reaps this process's own child; `status` is valid for writing.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(libc::WEXITSTATUS(status), 0);
}
