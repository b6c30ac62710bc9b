//! The probe's requests to the operating system. On the recording path are only [`thread_id`] and, if a thread waits
//! for room, [`AreaFile::get`]. An annotation for which there is no room calls [`is_thread`].

use sordino_percpu::primitive::{AtomicI32, AtomicU32, AtomicU64, Relaxed};
use sordino_registration::environment::{
    ALLOW_BLOCKING, ALLOWED, RESERVE, RING, SHARED_RING, UNRECORDED, Variable,
};
use sordino_ring::layout::{CATALOGUE, PAGE, POINTS};
use std::ffi::{CStr, CString};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};

/// The number of CPUs that may exist on this machine. Threads on others, if there are any, use the shared ring.
pub(crate) fn possible_cpus() -> u32 {
    // SAFETY: `sysconf` has no preconditions.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    u32::try_from(cpus).unwrap_or(1).clamp(1, 4096)
}

/// Returns the process's id, read from the kernel: the C library may still return the parent's in a fork's child.
pub(crate) fn process_id() -> u32 {
    // SAFETY: `getpid` has no preconditions.
    unsafe { libc::syscall(libc::SYS_getpid) as u32 }
}

/// Calls `call` and leaves `errno` as it was: it is 0 when a program starts, and the program may read it.
pub(crate) fn keep_errno(call: impl FnOnce()) {
    // SAFETY: `__errno_location` has no preconditions.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the calling thread's `errno` is valid as long as the thread.
    let before = unsafe { errno.read() };
    call();
    // SAFETY: the calling thread's `errno` is valid as long as the thread, and no other thread accesses it.
    unsafe { errno.write(before) };
}

/// Returns the user whose rights the process has.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: `geteuid` has no preconditions.
    unsafe { libc::geteuid() }
}

/// Returns an environment variable's value; always `None` in a program that runs with more rights than its caller.
pub(crate) fn environment(variable: Variable) -> Option<CString> {
    // SAFETY: `getauxval` has no preconditions.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    // SAFETY: the variable's name is a string that ends with a zero byte.
    let value = unsafe { libc::getenv(variable.c_name().as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: the C library returned a string, and the environment does not change while constructors run.
    Some(unsafe { CStr::from_ptr(value) }.to_owned())
}

/// Returns true if the environment forbids rings of CPUs.
pub(crate) fn forbids_cpu_rings() -> bool {
    environment(RING).is_some_and(|value| value.as_bytes() == SHARED_RING.as_bytes())
}

/// Returns true if the environment lets sessions make threads wait for room.
pub(crate) fn allows_blocking() -> bool {
    environment(ALLOW_BLOCKING).is_some_and(|value| value.as_bytes() == ALLOWED.as_bytes())
}

/// Returns true if the environment forbids recording this program.
pub(crate) fn forbids_recording() -> bool {
    environment(RESERVE).is_some_and(|value| value.as_bytes() == UNRECORDED.as_bytes())
}

/// Returns the address space to reserve for the area, in bytes.
///
/// It counts against the limit on locked memory: a program with that limit, without the privilege to exceed it, must
/// still be able to lock all its memory. So it is a quarter of the limit then, else enough for eight sessions.
pub(crate) fn reserve() -> usize {
    let asked = environment(RESERVE).and_then(|value| value.to_str().ok()?.parse().ok());
    let reserve = asked.unwrap_or_else(|| {
        let plenty = (1 << 30).max((possible_cpus() as usize + 1) << 27);
        match limit(libc::RLIMIT_MEMLOCK) {
            Some(limit) if !may_lock_memory() => plenty.min(limit / 4),
            _ => plenty,
        }
    });
    let reserve = limit(libc::RLIMIT_AS).map_or(reserve, |limit| reserve.min(limit / 16));
    reserve.min(1 << 46) & !(PAGE - 1)
}

/// Returns the number of tracepoints, and the bytes of their text, for which the area has room, given its address
/// space. A limit on address space or file size reduces them, so that there is room for rings.
pub(crate) fn capacity(reserve: usize) -> (u32, usize) {
    const PLENTY: usize = 64 << 20;
    let file = limit(libc::RLIMIT_FSIZE).unwrap_or(usize::MAX);
    if reserve.min(file) >= PLENTY { (POINTS as u32, CATALOGUE) } else { (8192, 192 << 10) }
}

fn limit(resource: libc::__rlimit_resource_t) -> Option<usize> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes to `limit` only, which outlives it.
    let result = unsafe { libc::getrlimit(resource, &mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur as usize)
}

/// Returns true if the process has `CAP_IPC_LOCK`, so that limits on locked memory don't hold for it.
fn may_lock_memory() -> bool {
    #[repr(C)]
    struct CapabilityHeader {
        version: u32,
        pid: i32,
    }
    // `struct __user_cap_data_struct` of <linux/capability.h>: effective, permitted, inheritable; twice in version 3.
    const VERSION_3: u32 = 0x2008_0522;
    const CAP_IPC_LOCK: u32 = 14;
    let head = CapabilityHeader { version: VERSION_3, pid: 0 };
    let mut data = [[0u32; 3]; 2];
    // SAFETY: `head` and `data` have the layout that capget(2) documents for version 3.
    let result = unsafe { libc::syscall(libc::SYS_capget, &head, &mut data) };
    result == 0 && data[0][0] & (1 << CAP_IPC_LOCK) != 0
}

/// Makes the kernel replace these pages by zeros in children; returns true if it will.
pub(crate) fn wipe_on_fork(start: *const u8, length: usize) -> bool {
    // SAFETY: the caller passes whole pages of the probe's own data, which have to be zero in a child. The call fails
    // if they are not anonymous memory, and before Linux 4.14.
    unsafe { libc::madvise(start.cast_mut().cast(), length, libc::MADV_WIPEONFORK) == 0 }
}

/// Registers `child` to be called in the child of every `fork`; returns true if it will be.
pub(crate) fn at_fork(child: extern "C" fn()) -> bool {
    // SAFETY: `child` may be called at any time, and the C library forgets it when this module is unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(child)) == 0 }
}

/// 1 if [`owner_of_a_new_lock`] returns a thread's id with this C library.
static OWNER_IS_THREAD: AtomicU32 = AtomicU32::new(0);

/// Finds out if [`thread_id`] can read the id from a lock's owner.
pub(crate) fn check_thread_id() {
    let right = owner_of_a_new_lock() == Some(kernel_thread_id());
    OWNER_IS_THREAD.store(u32::from(right), Relaxed);
}

/// Returns the calling thread's id, without a system call if the C library stores it in a lock's owner (glibc does).
pub(crate) fn thread_id() -> u32 {
    if OWNER_IS_THREAD.load(Relaxed) == 0 {
        return kernel_thread_id();
    }
    owner_of_a_new_lock().unwrap_or_else(kernel_thread_id)
}

/// Returns true if this process has a thread `tid`. Leaves `errno` as it was.
pub(crate) fn is_thread(tid: u32) -> bool {
    let mut found = true;
    keep_errno(|| {
        // SAFETY: signal 0 only checks that the thread exists; nothing is sent.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, process_id(), tid, 0) };
        found = sent == 0;
    });
    found
}

fn kernel_thread_id() -> u32 {
    // SAFETY: `gettid` has no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Takes a recursive lock on the stack, and returns the owner that the C library stored in it.
fn owner_of_a_new_lock() -> Option<u32> {
    let mut lock = libc::PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    // SAFETY: `lock` is an initialised lock on this function's stack, which does not move.
    if unsafe { libc::pthread_mutex_lock(&mut lock) } != 0 {
        return None;
    }
    // `struct __pthread_mutex_s` begins with `int __lock; unsigned __count; int __owner`.
    let owner = (&raw const lock).cast::<u32>().wrapping_add(2);
    // SAFETY: the owner lies inside the lock, aligned. The read is volatile, because the C library wrote it.
    let owner = unsafe { owner.read_volatile() };
    // SAFETY: this thread holds the lock.
    unsafe { libc::pthread_mutex_unlock(&mut lock) };
    Some(owner)
}

/// The descriptor of the area's file. The program may close it, or use its number for something else, at any time.
pub(crate) struct AreaFile {
    /// The number of the descriptor; -1 before there is one.
    fd: AtomicI32,
    /// The file's identity from `fstat`: its device and its inode number, zeros if that failed.
    device: AtomicU64,
    inode: AtomicU64,
}

impl AreaFile {
    /// Returns the state before there is a file.
    pub(crate) const fn new() -> Self {
        Self { fd: AtomicI32::new(-1), device: AtomicU64::new(0), inode: AtomicU64::new(0) }
    }

    /// Takes the descriptor, which stays open unless the program closes it. Called before tracepoints may write, or in
    /// the only thread of a fork's child.
    pub(crate) fn keep(&self, file: OwnedFd) {
        let fd = file.into_raw_fd();
        let (device, inode) = identity(fd).unwrap_or_default();
        self.fd.store(fd, Relaxed);
        self.device.store(device, Relaxed);
        self.inode.store(inode, Relaxed);
    }

    /// Returns the descriptor, if it is still the area's.
    pub(crate) fn get(&self) -> Option<RawFd> {
        let (fd, inode) = (self.fd.load(Relaxed), self.inode());
        (inode != 0 && identity(fd) == Some((self.device.load(Relaxed), inode))).then_some(fd)
    }

    /// Returns the file's inode number, by which a recorder identifies an area that it has already.
    pub(crate) fn inode(&self) -> u64 {
        self.inode.load(Relaxed)
    }

    /// Closes the old descriptor and takes `file` instead.
    pub(crate) fn replace(&self, file: OwnedFd) {
        if let Some(fd) = self.get() {
            // SAFETY: the descriptor is the area's (`get` checked it), and nothing else owns it.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        self.keep(file);
    }
}

fn identity(fd: RawFd) -> Option<(u64, u64)> {
    // SAFETY: a `stat` of zeros is a valid one.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes to `stat` only, which outlives it, for any value of `fd`.
    (unsafe { libc::fstat(fd, &mut stat) } == 0).then_some((stat.st_dev, stat.st_ino))
}
