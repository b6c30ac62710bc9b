//! Rust twin of `programs/path.c`: cost of recorded events in system calls, page faults and allocations.

use sordino::tracepoint;
use std::alloc::{GlobalAlloc, Layout, System};
use std::mem::zeroed;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: both methods pass their arguments to `System`, which fulfils the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        // SAFETY: the caller guarantees that `layout` has a size other than 0.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        ALLOCATIONS.fetch_add(1, SeqCst);
        // SAFETY: the caller guarantees that `System` allocated `old` with `layout`.
        unsafe { System.dealloc(old, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static GO: AtomicBool = AtomicBool::new(false);
static GONE: AtomicBool = AtomicBool::new(false);
static ENABLED: AtomicBool = AtomicBool::new(false);

fn faults() -> i64 {
    // SAFETY: `rusage` holds integers alone, so all zeros are a valid value.
    let mut usage: libc::rusage = unsafe { zeroed() };
    // SAFETY: the kernel writes into `usage`, which is borrowed for the call.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    usage.ru_minflt + usage.ru_majflt
}

/// From now on, system calls that are not `allowed` kill the process.
fn filter(allowed: &[i64]) {
    let jump = |number: i64, to: usize| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: to as u8,
        jf: 0,
        k: number as u32,
    };
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    // The number of the system call is the first word of `struct seccomp_data`.
    let mut code = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    code.extend(allowed.iter().enumerate().map(|(index, &number)| jump(number, allowed.len() - index)));
    code.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_KILL_PROCESS));
    code.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
    // SAFETY: this option takes integers and no pointer.
    let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(result, 0);
    let (mode, all) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
    // SAFETY: `program` points to `code`, which has `len` instructions and outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, mode, all, &program) };
    assert_eq!(result, 0);
    std::mem::forget(code);
}

fn other() {
    while !GO.load(SeqCst) {
        std::hint::spin_loop();
    }
    for number in 0..1000u64 {
        let text = "a thread's first event is as cheap as any other";
        tracepoint!(path:other_thread, number: u64 = number, text: &str = text);
    }
    GONE.store(true, SeqCst);
    loop {
        std::hint::spin_loop();
    }
}

fn main() {
    let events: u64 = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1000);
    // SAFETY: `sysconf` takes an integer and no pointer.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    std::thread::spawn(other);
    // SAFETY: `mlockall` takes an integer and no pointer.
    assert_eq!(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) }, 0);
    println!("ready");
    while !ENABLED.load(SeqCst) {
        // A tracepoint evaluates its values only while it is recorded.
        tracepoint!(path:look_out, number: u64 = { ENABLED.store(true, SeqCst); 0 });
    }
    // The recorder enables the tracepoints one after the other.
    std::thread::sleep(std::time::Duration::from_millis(100));
    filter(&[libc::SYS_getrusage, libc::SYS_sched_setaffinity, libc::SYS_write, libc::SYS_exit_group]);
    let (allocated, faulted) = (ALLOCATIONS.load(SeqCst), faults());
    for number in 0..events {
        tracepoint!(path:main_thread, number: u64 = number);
    }
    GO.store(true, SeqCst);
    while !GONE.load(SeqCst) {
        std::hint::spin_loop();
    }
    for cpu in 0..cpus as u32 {
        // SAFETY: a set of all zeros is valid, and empty.
        let mut set: libc::cpu_set_t = unsafe { zeroed() };
        // SAFETY: `cpu` is less than the number of CPUs, and no test machine has more than the set's 1024.
        unsafe { libc::CPU_SET(cpu as usize, &mut set) };
        // SAFETY: the kernel reads `set`, whose size is passed with it.
        unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
        tracepoint!(path:each_cpu, cpu: u32 = cpu);
    }
    let (faulted, allocated) = (faults() - faulted, ALLOCATIONS.load(SeqCst) - allocated);
    println!("faults={faulted} allocations={allocated}");
    // SAFETY: takes an integer and ends the process at once, without the work of `exit`.
    unsafe { libc::syscall(libc::SYS_exit_group, 0) };
}
