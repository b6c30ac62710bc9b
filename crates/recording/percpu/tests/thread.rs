//! The words of a thread, in threads and in the child of a vfork.
#![allow(clippy::multiple_unsafe_ops_per_block, reason = "plain system calls")]

use sordino_percpu::thread::{borrowed, counters, set_base, set_counters, set_tag, tag_and_base};

#[test]
fn a_thread_starts_without_a_tag_and_keeps_its_own() {
    set_tag(7);
    set_counters(6);
    let other = std::thread::spawn(|| {
        let at_start = (tag_and_base(), borrowed(), counters());
        set_tag(8);
        set_base(9);
        set_counters(10);
        (at_start, tag_and_base(), counters())
    });
    assert_eq!(other.join().unwrap(), (((0, 0), 0, 0), (8, 9), 10));
    assert_eq!((tag_and_base().0, counters()), (7, 6));
}

#[test]
#[allow(deprecated, reason = "vfork is what this tests")]
fn the_child_of_a_vfork_borrows_and_its_parent_gets_its_words_back() {
    static SEEN: [std::sync::atomic::AtomicU64; 4] = [const { std::sync::atomic::AtomicU64::new(1) }; 4];
    use std::sync::atomic::Ordering::Relaxed;
    set_tag(42);
    set_base(44);
    // SAFETY: the child stores to statics, as a signal handler may, and exits.
    let child = unsafe { libc::vfork() };
    if child == 0 {
        SEEN[0].store(tag_and_base().0, Relaxed);
        SEEN[1].store(borrowed(), Relaxed);
        SEEN[3].store(tag_and_base().1 as u64, Relaxed);
        set_tag(43);
        set_base(45);
        // SAFETY: gettid has no preconditions.
        SEEN[2].store(unsafe { libc::syscall(libc::SYS_gettid) } as u64, Relaxed);
        // SAFETY: ends the child, as a child of a vfork must, without running destructors.
        unsafe { libc::_exit(0) };
    }
    assert!(child > 0);
    // SAFETY: reaps our own child; a null status is allowed.
    assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
    let [first_tag, lender, tid, first_base] = SEEN.each_ref().map(|seen| seen.load(Relaxed));
    assert_eq!((first_tag, first_base, lender, tid), (0, 0, tid, child as u64));
    assert_eq!((tag_and_base(), borrowed()), ((42, 44), 0));
}

#[test]
#[allow(deprecated, reason = "vfork is what this tests")]
fn a_vfork_that_fails_says_why() {
    let child = std::thread::spawn(|| {
        let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the child of the fork makes only system calls.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: plain system calls on valid memory; user 65534 is nobody, whose limit of processes counts.
            let code = unsafe {
                libc::setrlimit(libc::RLIMIT_NPROC, &limit);
                libc::setresuid(65534, 65534, 65534);
                let child = libc::vfork();
                i32::from(child != -1 || std::io::Error::last_os_error().raw_os_error() != Some(libc::EAGAIN))
            };
            // SAFETY: `_exit` ends the child, and runs no destructors.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: reaps this process's own child; `status` is valid for writing.
        unsafe { libc::waitpid(child, &mut status, 0) };
        libc::WEXITSTATUS(status)
    });
    assert_eq!(child.join().unwrap(), 0);
}
