//! What the probe asks the operating system. Nothing here is on the recording path but [`thread_id`] and, where a thread waits for
//! room, [`AreaFile::get`]. [`is_thread`] is on that of values for which there is no room.

use sordino_percpu::primitive::{AtomicI32, AtomicU32, AtomicU64, Relaxed};
use sordino_registration::environment::{
    ALLOW_BLOCKING, ALLOWED, RESERVE, RING, SHARED_RING, UNRECORDED, Variable,
};
use sordino_ring::layout::{CATALOGUE, PAGE, POINTS};
use std::ffi::{CStr, CString};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};

/// CPUs that may exist on this machine. Threads on others, if there are any, use the shared ring.
pub(crate) fn possible_cpus() -> u32 {
    // SAFETY: no preconditions.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    u32::try_from(cpus).unwrap_or(1).clamp(1, 4096)
}

/// The process's id, asked of the kernel: the C library may still answer with the parent's in a fork's child.
pub(crate) fn process_id() -> u32 {
    // SAFETY: no preconditions.
    unsafe { libc::syscall(libc::SYS_getpid) as u32 }
}

/// Calls `call` and leaves `errno` as it was: at a program's start it is 0, and may be looked at.
pub(crate) fn keep_errno(call: impl FnOnce()) {
    // SAFETY: the thread's own, as long as the thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { errno.read() };
    call();
    // SAFETY: as above.
    unsafe { errno.write(before) };
}

/// The user whose rights the process has.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: no preconditions.
    unsafe { libc::geteuid() }
}

/// An environment variable, but not in a program that runs with more rights than its caller.
pub(crate) fn environment(variable: Variable) -> Option<CString> {
    // SAFETY: no preconditions.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    // SAFETY: a string constant.
    let value = unsafe { libc::getenv(variable.c_name().as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: the C library returned a string; nobody changes the environment while constructors run.
    Some(unsafe { CStr::from_ptr(value) }.to_owned())
}

/// Returns true if the environment forbids rings of CPUs.
pub(crate) fn wants_shared_ring() -> bool {
    environment(RING).is_some_and(|value| value.as_bytes() == SHARED_RING.as_bytes())
}

/// Returns true if the environment lets sessions make threads wait for room.
pub(crate) fn allows_blocking() -> bool {
    environment(ALLOW_BLOCKING).is_some_and(|value| value.as_bytes() == ALLOWED.as_bytes())
}

/// Returns true if the environment forbids recording this program.
pub(crate) fn wants_no_area() -> bool {
    environment(RESERVE).is_some_and(|value| value.as_bytes() == UNRECORDED.as_bytes())
}

/// How much address space to reserve for the area.
///
/// It counts against the limit of what may be locked: a program under that limit, without the privilege to exceed it,
/// must still be able to lock all its memory. So a quarter of the limit then; else as much as eight sessions want.
pub(crate) fn reserve() -> usize {
    let wanted = environment(RESERVE).and_then(|value| value.to_str().ok()?.parse().ok());
    let reserve = wanted.unwrap_or_else(|| {
        let plenty = (1 << 30).max((possible_cpus() as usize + 1) << 27);
        match limit(libc::RLIMIT_MEMLOCK) {
            Some(limit) if !may_lock_memory() => plenty.min(limit / 4),
            _ => plenty,
        }
    });
    let reserve = limit(libc::RLIMIT_AS).map_or(reserve, |limit| reserve.min(limit / 16));
    reserve.min(1 << 46) & !(PAGE - 1)
}

/// The number of tracepoints, and the bytes of their text, for which the area has room, given its address space. A limit on address
/// space or file size reduces them, so that there is room for rings.
pub(crate) fn capacity(reserve: usize) -> (u32, usize) {
    const PLENTY: usize = 64 << 20;
    let file = limit(libc::RLIMIT_FSIZE).unwrap_or(usize::MAX);
    if reserve.min(file) >= PLENTY { (POINTS as u32, CATALOGUE) } else { (8192, 192 << 10) }
}

fn limit(resource: libc::__rlimit_resource_t) -> Option<usize> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: fills in `limit`.
    let result = unsafe { libc::getrlimit(resource, &mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur as usize)
}

/// Whether the process has `CAP_IPC_LOCK`, so that limits on locked memory don't hold for it.
fn may_lock_memory() -> bool {
    #[repr(C)]
    struct Head {
        version: u32,
        pid: i32,
    }
    // `struct __user_cap_data_struct` of <linux/capability.h>: effective, permitted, inheritable; twice in version 3.
    const VERSION_3: u32 = 0x2008_0522;
    const CAP_IPC_LOCK: u32 = 14;
    let head = Head { version: VERSION_3, pid: 0 };
    let mut data = [[0u32; 3]; 2];
    // SAFETY: both have the layout that capget(2) documents for version 3.
    let result = unsafe { libc::syscall(libc::SYS_capget, &head, &mut data) };
    result == 0 && data[0][0] & (1 << CAP_IPC_LOCK) != 0
}

/// Makes the kernel hand out zeros for these pages in children; whether it does.
pub(crate) fn wipe_on_fork(start: *const u8, length: usize) -> bool {
    // SAFETY: whole pages of our own data, which are meant to be zero in a child. Fails (and says so) where they are not
    // anonymous memory, and before Linux 4.14.
    unsafe { libc::madvise(start.cast_mut().cast(), length, libc::MADV_WIPEONFORK) == 0 }
}

/// Has `child` called in the child of every `fork`; whether it will be.
pub(crate) fn at_fork(child: extern "C" fn()) -> bool {
    // SAFETY: `child` may be called at any time, and the C library forgets it when this module is unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(child)) == 0 }
}

/// 1 if [`owner_of_a_new_lock`] is a thread's id in this C library.
static OWNER_IS_THREAD: AtomicU32 = AtomicU32::new(0);

/// Finds out how [`thread_id`] can know it.
pub(crate) fn check_thread_id() {
    let right = owner_of_a_new_lock() == Some(kernel_thread_id());
    OWNER_IS_THREAD.store(u32::from(right), Relaxed);
}

/// The calling thread's id, without a system call where the C library keeps it in a lock's owner (glibc does).
pub(crate) fn thread_id() -> u32 {
    if OWNER_IS_THREAD.load(Relaxed) == 0 {
        return kernel_thread_id();
    }
    owner_of_a_new_lock().unwrap_or_else(kernel_thread_id)
}

/// Whether this process has such a thread. Leaves `errno` as it was.
pub(crate) fn is_thread(tid: u32) -> bool {
    let mut found = true;
    keep_errno(|| {
        // SAFETY: signal 0 is sent to nobody.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, process_id(), tid, 0) };
        found = sent == 0;
    });
    found
}

fn kernel_thread_id() -> u32 {
    // SAFETY: no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Takes a recursive lock that nobody else knows of, and reads whom the C library noted as its owner.
fn owner_of_a_new_lock() -> Option<u32> {
    let mut lock = libc::PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    // SAFETY: an initialised lock on our own stack.
    if unsafe { libc::pthread_mutex_lock(&mut lock) } != 0 {
        return None;
    }
    // `struct __pthread_mutex_s` begins with `int __lock; unsigned __count; int __owner`.
    let owner = (&raw const lock).cast::<u32>().wrapping_add(2);
    // SAFETY: inside the lock, aligned; volatile, because the C library wrote it.
    let owner = unsafe { owner.read_volatile() };
    // SAFETY: we hold it.
    unsafe { libc::pthread_mutex_unlock(&mut lock) };
    Some(owner)
}

/// The descriptor of the area's file. The program may close it, or use its number for something else, at any time.
pub(crate) struct AreaFile {
    /// -1 before there is one.
    fd: AtomicI32,
    /// What fstat says of it; zeros if it failed.
    device: AtomicU64,
    inode: AtomicU64,
}

impl AreaFile {
    /// Not made yet.
    pub(crate) const fn new() -> Self {
        Self { fd: AtomicI32::new(-1), device: AtomicU64::new(0), inode: AtomicU64::new(0) }
    }

    /// Keeps it open as long as the program does. Before tracepoints may write, or in the only thread of a fork's child.
    pub(crate) fn keep(&self, file: OwnedFd) {
        let fd = file.into_raw_fd();
        let (device, inode) = identity(fd).unwrap_or_default();
        self.fd.store(fd, Relaxed);
        self.device.store(device, Relaxed);
        self.inode.store(inode, Relaxed);
    }

    /// The descriptor, if it is still the area's.
    pub(crate) fn get(&self) -> Option<RawFd> {
        let (fd, inode) = (self.fd.load(Relaxed), self.inode());
        (inode != 0 && identity(fd) == Some((self.device.load(Relaxed), inode))).then_some(fd)
    }

    /// The file's inode number, by which a recorder that has it already knows it.
    pub(crate) fn inode(&self) -> u64 {
        self.inode.load(Relaxed)
    }

    /// Keeps `file` in its place and closes the old one.
    pub(crate) fn replace(&self, file: OwnedFd) {
        if let Some(fd) = self.get() {
            // SAFETY: it is the area's, and nobody else owns it.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        self.keep(file);
    }
}

fn identity(fd: RawFd) -> Option<(u64, u64)> {
    // SAFETY: a zeroed stat is a valid one.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: fills in `stat`, whatever `fd` is.
    (unsafe { libc::fstat(fd, &mut stat) } == 0).then_some((stat.st_dev, stat.st_ino))
}
