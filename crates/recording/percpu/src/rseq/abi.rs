//! The kernel's `struct rseq`, and the symbols by which the C library publishes its offset.
//!
//! Source: `include/uapi/linux/rseq.h` of Linux and the "Restartable Sequences" chapter of glibc's manual.

/// Offset of `cpu_id` in `struct rseq`: the CPU, or a negative number in a thread that is not registered.
pub(crate) const CPU_ID: usize = 4;
/// Offset of `rseq_cs`: the address of the description of the section that the thread is in, or 0.
pub(super) const RSEQ_CS: usize = 8;
/// Signature that the kernel expects in front of an abort handler; glibc registers its areas with the same one.
pub(super) const SIGNATURE: u32 = 0x5305_3053;

/// Offset of glibc's area from the thread pointer, if glibc registers one.
pub(super) fn registered_area() -> Option<isize> {
    let (offset, size) = crate::arch::libc_symbols()?;
    // 0 if glibc could not register, or was configured not to (GLIBC_TUNABLES=glibc.pthread.rseq=0).
    (size != 0).then_some(offset)
}
