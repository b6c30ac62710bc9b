//! A seccomp filter that a thread installs before it executes another user's command: it denies inserting input into a
//! terminal that both share.

use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
use libc::{SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, sock_filter, sock_fprog};
use std::io;

/// An architecture in the numbering of `linux/audit.h`, and the numbers of its `ioctl` system call.
type Abi = (u32, &'static [u32]);

/// ABIs of an x86-64 kernel: x86-64, in which x32 has a number of its own, and i386.
#[cfg(target_arch = "x86_64")]
const ABIS: &[Abi] = &[(0xc000_003e, &[16, 514]), (0x4000_0003, &[54])];
/// ABIs of an AArch64 kernel: AArch64 and ARM.
#[cfg(target_arch = "aarch64")]
const ABIS: &[Abi] = &[(0xc000_00b7, &[29]), (0x4000_0028, &[54])];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ABIS: &[Abi] = &[];

/// Mask of a system call's number: all bits but the one of x32.
const NUMBER: u32 = !0x4000_0000;
/// Offsets in `struct seccomp_data` on a little-endian machine: the system call's number, the architecture, and the
/// lower half of the second argument, which is all that the kernel uses of a request.
const NR: u32 = 0;
const ARCH: u32 = 4;
const REQUEST: u32 = 24;

/// Denies with `EPERM`, from now on, that this thread, its children or the programs that they execute insert characters
/// into a terminal's input (`ioctl` with `TIOCSTI`, or with `TIOCLINUX`, which pastes on a virtual console), in every
/// ABI of this machine.
///
/// All other system calls are allowed. The filter cannot be removed.
///
/// # Errors
/// Fails without `CAP_SYS_ADMIN` (if `no_new_privs` is unset), on kernels without seccomp filters, and on architectures
/// other than x86-64 and AArch64.
///
/// Real-time: for a process that is about to execute a command. Afterwards, each system call costs a lookup in the
/// kernel's bitmap of those that are always allowed (since Linux 5.11; before, the filter runs).
pub fn forbid_typing() -> io::Result<()> {
    if ABIS.is_empty() {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    // Before Linux 5.16, a filter without this flag also disables speculative store bypass, which slows down loads;
    // before 4.17, the flag does not exist.
    match install(libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => install(0),
        result => result,
    }
}

fn install(flags: libc::c_ulong) -> io::Result<()> {
    let mut filter = program(ABIS);
    let program = sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: `program` has the filter's address and length, and `filter` outlives the call; the kernel copies it and
    // keeps neither pointer.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, std::ptr::from_ref(&program))
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Builds the filter: a block for each ABI, then the check of the request. It reads an argument of `ioctl` only: the
/// kernel evaluates calls that their number alone decides once, when the filter is installed.
fn program(abis: &[Abi]) -> Vec<sock_filter> {
    let deny = SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let length = |numbers: &[u32]| numbers.len() + 4;
    // The filter's first instruction, and the return for other architectures.
    let request = 2 + abis.iter().map(|(_, numbers)| length(numbers)).sum::<usize>();
    let mut program = vec![instruction(BPF_LD | BPF_W | BPF_ABS, ARCH)];
    for (arch, numbers) in abis {
        program.push(unless_equal(*arch, length(numbers) - 1));
        program.push(instruction(BPF_LD | BPF_W | BPF_ABS, NR));
        program.push(instruction(BPF_ALU | BPF_AND | BPF_K, NUMBER));
        for number in *numbers {
            program.push(if_equal(*number, request - program.len() - 1));
        }
        program.push(instruction(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    }
    program.push(instruction(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    program.push(instruction(BPF_LD | BPF_W | BPF_ABS, REQUEST));
    program.push(if_equal(libc::TIOCSTI as u32, 2));
    program.push(if_equal(libc::TIOCLINUX as u32, 1));
    program.push(instruction(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    program.push(instruction(BPF_RET | BPF_K, deny));
    program
}

fn instruction(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Skips this number of instructions if the loaded value is `k`.
fn if_equal(k: u32, skipped: usize) -> sock_filter {
    sock_filter { jt: skipped as u8, ..instruction(BPF_JMP | BPF_JEQ | BPF_K, k) }
}

/// Skips this number of instructions if the loaded value is not `k`.
fn unless_equal(k: u32, skipped: usize) -> sock_filter {
    sock_filter { jf: skipped as u8, ..instruction(BPF_JMP | BPF_JEQ | BPF_K, k) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86_64: u32 = 0xc000_003e;
    const I386: u32 = 0x4000_0003;
    const ON_X86: &[Abi] = &[(X86_64, &[16, 514]), (I386, &[54])];
    const TIOCSTI: u64 = 0x5412;
    const TIOCLINUX: u64 = 0x541c;

    /// Runs the filter as the kernel does. Returns its result, and true if it read an argument.
    fn verdict(program: &[sock_filter], arch: u32, number: u32, second: u64) -> (u32, bool) {
        let (mut at, mut loaded, mut has_read) = (0, 0u32, false);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            match u32::from(code) {
                code if code == BPF_LD | BPF_W | BPF_ABS => {
                    has_read |= k >= 16;
                    loaded = match k {
                        NR => number,
                        ARCH => arch,
                        REQUEST => second as u32,
                        other => panic!("a load from {other}"),
                    }
                }
                code if code == BPF_ALU | BPF_AND | BPF_K => loaded &= k,
                code if code == BPF_JMP | BPF_JEQ | BPF_K => {
                    at += usize::from(if loaded == k { jt } else { jf });
                }
                code if code == BPF_RET | BPF_K => return (k, has_read),
                code => panic!("the code {code:#x}"),
            }
        }
    }

    #[test]
    fn both_requests_are_denied_in_all_abis_and_nothing_else_is() {
        let program = program(ON_X86);
        let denied = SECCOMP_RET_ERRNO | 1;
        for (arch, number) in [(X86_64, 16), (X86_64, 16 | 1 << 30), (X86_64, 514 | 1 << 30), (I386, 54)] {
            for request in [TIOCSTI, TIOCLINUX, TIOCSTI | 0xffff_ffff << 32] {
                assert_eq!(verdict(&program, arch, number, request).0, denied, "{arch:#x} {number:#x}");
            }
            for request in [0, 0x5401, 0x5411, 0x5413, TIOCSTI << 32] {
                assert_eq!(verdict(&program, arch, number, request).0, SECCOMP_RET_ALLOW, "{request:#x}");
            }
        }
        for (arch, number) in [(X86_64, 54), (I386, 16), (I386, 514), (0xc000_00b7, 29)] {
            assert_eq!(
                verdict(&program, arch, number, TIOCSTI),
                (SECCOMP_RET_ALLOW, false),
                "{arch:#x} {number}"
            );
        }
    }

    #[test]
    fn the_number_alone_decides_of_every_other_call() {
        let program = program(ON_X86);
        for number in (0..600).filter(|number| ![16, 514].contains(number)) {
            assert_eq!(verdict(&program, X86_64, number, TIOCSTI), (SECCOMP_RET_ALLOW, false), "{number}");
        }
    }

    /// Runs in a new thread, because the filter cannot be removed.
    #[test]
    fn the_kernel_takes_the_filter_and_denies() {
        let errno = || io::Error::last_os_error().raw_os_error();
        let results = std::thread::spawn(move || {
            // SAFETY: the prctl changes this thread alone and takes no pointers. It permits the filter to a user
            // without `CAP_SYS_ADMIN`.
            unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
            forbid_typing().map_err(|error| error.raw_os_error())?;
            let (null, byte) = (std::fs::File::open("/dev/null").unwrap(), 0u8);
            let ask = |request| {
                use std::os::fd::AsRawFd;
                // SAFETY: none of the requests reads more than the one byte at `byte`.
                unsafe { libc::ioctl(null.as_raw_fd(), request, &raw const byte) };
                errno()
            };
            Ok((ask(libc::TIOCSTI), ask(libc::TIOCLINUX), ask(libc::TCFLSH)))
        });
        match results.join().unwrap() {
            Ok(errors) => assert_eq!(errors, (Some(libc::EPERM), Some(libc::EPERM), Some(libc::ENOTTY))),
            // The kernel or the container has no seccomp filters.
            Err(error) => assert!(matches!(error, Some(libc::ENOSYS | libc::EINVAL | libc::EPERM))),
        }
    }
}
