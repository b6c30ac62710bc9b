//! Programs that write to another user's terminal, or type into it: `attack_terminal KIND ...`.
//!
//! | kind | effect |
//! |---|---|
//! | `disguise DIR SECONDS` | starts a copy of itself under each of [`DISGUISES`], as the name of the file and of its directory |
//! | `act SECONDS` | the work of such a copy: leaves `ready-PID` here and hits tracepoints with such texts, with an
//! invalid area beside its own |
//! | `say` | writes such texts to standard output, as a command whose output goes to a session's log |
//! | `plant DIR` | leaves directories that look like recordings, with such texts in names, metadata and summaries |
//! | `type` | tries to type into the controlling terminal in every ABI |
//! | `cost CALLS` | prints the nanoseconds of a system call, without a filter and with it, in turn |

use sordino_percpu::primitive::Relaxed;
use sordino_ring::area::{Area, AreaRequest};
use std::ffi::{CString, OsStr};
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// Names of at most 15 bytes, the limit of threads' names: the clipboard, the window's title, concealed text, a C1
/// control, a forged line, reversed text, invalid UTF-8, invisible characters.
const DISGUISES: [&[u8]; 8] = [
    b"\x1b]52;c;QUFB\x07",
    b"\x1b]0;title\x07\r",
    b"\x1b[8m\x1b[2J",
    b"c1\xc2\x9b2J\xc2\x9d0;\xc2\x9c",
    b"\nFORGED line",
    b"\xe2\x80\xaetxt\xe2\x81\xa6\x7f",
    b"\xff\x9b2J\x90\xfe",
    b"a\xe2\x80\x8bb\xef\xbb\xbfc\xc2\xad",
];

fn main() {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let word = |index: usize| words.get(index).and_then(|word| word.to_str()).unwrap_or_default();
    match word(0) {
        "disguise" => disguise(Path::new(word(1)), word(2)),
        "act" => act(word(1).parse().unwrap_or(1.0)),
        "say" => say(),
        "plant" => plant(Path::new(word(1))),
        "type" => type_into_terminal(),
        "cost" => cost(word(1).parse().unwrap_or(1_000_000)),
        other => panic!("no kind '{other}'"),
    }
}

fn disguise(directory: &Path, seconds: &str) {
    let own = std::env::current_exe().expect("this program's file");
    let mut children = Vec::new();
    for name in DISGUISES.map(OsStr::from_bytes) {
        let place = directory.join(name);
        fs::create_dir_all(&place).expect("a directory");
        fs::copy(&own, place.join(name)).expect("a copy");
        children
            .push(Command::new(place.join(name)).args(["act", seconds]).spawn().expect("a copy that runs"));
    }
    children.into_iter().for_each(|mut child| _ = child.wait());
}

fn act(seconds: f64) {
    let _lying = lying_area();
    fs::write(format!("ready-{}", std::process::id()), "").expect("a file that says that this runs");
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let threads = DISGUISES.map(|name| std::thread::spawn(move || hit(name, end)));
    threads.into_iter().for_each(|thread| thread.join().expect("a thread that ends"));
}

/// Hits tracepoints in a thread that has this name.
fn hit(name: &[u8], end: Instant) {
    let thread = CString::new(name).expect("a name without zeros");
    // SAFETY: the text ends with a zero byte; the kernel copies at most 16 bytes of it.
    unsafe { libc::prctl(libc::PR_SET_NAME, thread.as_ptr()) };
    let text = String::from_utf8_lossy(name);
    while Instant::now() < end {
        sordino::context!("request", "{text}");
        sordino::tracepoint!(attack:text, text: &str = &text);
        sordino::mark!("{text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Creates an area with impossible sizes, so that the recorder reports its owner's name.
fn lying_area() -> (Area, OwnedFd) {
    let (area, file) = Area::create(&AreaRequest {
        cpus: 1,
        points: 1024,
        catalogue: 64 << 10,
        reserve: 1 << 30,
        pid: std::process::id(),
        restartable: true,
        allows_blocking: false,
    })
    .expect("an area");
    area.header().control_size.store(u64::MAX, Relaxed);
    (area, file)
}

fn say() {
    let mut out = io::stdout().lock();
    for name in DISGUISES {
        out.write_all(&[name, b"\n"].concat()).expect("output");
    }
}

/// Writes recordings with such texts in the names of directories and events and in the summary.
fn plant(directory: &Path) {
    let name = "\\033]52;c;QUFB\\007\\nFORGED \\302\\233";
    let whole = format!(
        "/* CTF 1.8 */\ntrace {{ major = 1; minor = 8; byte_order = le; }};\n\
         stream {{ event.header := struct {{ integer {{ size = 32; align = 8; }} id; \
         integer {{ size = 64; align = 8; }} timestamp; }}; }};\n\
         event {{ id = 0; name = \"{name}\"; fields := struct {{ integer {{ size = 8; align = 8; }} x; }}; }};\n"
    );
    let texts = [
        ("whole", whole.as_bytes()),
        ("broken", b"/* CTF 1.8 */\ntrace { \x1b]52;c;QUFB\x07 = \"\xc2\x9b\" };\n\r\nFORGED = 1;"),
    ];
    for (kind, metadata) in texts {
        for disguise in DISGUISES.map(OsStr::from_bytes) {
            let place = directory.join(kind).join(disguise);
            fs::create_dir_all(&place).expect("a directory");
            fs::write(place.join("metadata"), metadata).expect("a file");
        }
    }
    let summary = br#"{"schema":1,"state":"\u001b]52;c;QUFB\u0007\nFORGED \u009b"}"#;
    fs::write(directory.join("broken/recording.json"), summary).expect("a file");
}

/// Prints the kernel's answer to each way of typing an `x`.
fn type_into_terminal() {
    let terminal = fs::File::open("/dev/tty").expect("a controlling terminal");
    let (fd, byte) = (terminal.as_raw_fd(), b'x');
    let answer = |result: libc::c_long| match io::Error::last_os_error().raw_os_error() {
        Some(errno) if result < 0 => format!("errno {errno}"),
        _ => "done".to_owned(),
    };
    let sti = libc::TIOCSTI as libc::c_long;
    // SAFETY: the request reads one byte, which outlives the call.
    println!("native: {}", answer(unsafe { libc::syscall(libc::SYS_ioctl, fd, sti, &raw const byte) }));
    let more = sti | 0x5555_0000_0000;
    // SAFETY: the kernel uses the request's lower 32 bits, and reads one byte, which outlives the call.
    println!("more bits: {}", answer(unsafe { libc::syscall(libc::SYS_ioctl, fd, more, &raw const byte) }));
    // This request pastes the selection of a virtual console.
    let paste = 3u8;
    // SAFETY: the request reads one byte, which outlives the call.
    println!("paste: {}", answer(unsafe { libc::ioctl(fd, libc::TIOCLINUX as _, &raw const paste) }.into()));
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: the request reads one byte, which outlives the call.
        println!("x32: {}", answer(unsafe { libc::syscall(1 << 30 | 514, fd, sti, &raw const byte) }));
        println!("i386: {}", in_child(|| type_as_i386(fd)));
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("{}", status.lines().find(|line| line.starts_with("Seccomp:")).unwrap_or("no seccomp"));
    // SAFETY: FIONREAD writes one integer, into `waiting`.
    let waiting = unsafe {
        let mut waiting = 0i32;
        libc::ioctl(fd, libc::FIONREAD, &raw mut waiting);
        waiting
    };
    println!("in the terminal's input: {waiting}");
}

/// Returns the result of `attempt` in a child process, which a kernel without i386's ABI kills.
#[cfg(target_arch = "x86_64")]
fn in_child(attempt: impl FnOnce() -> i32) -> String {
    // SAFETY: this program has one thread, so the child may call any function.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let result = attempt();
        // SAFETY: ends the child at once; nothing in it needs cleaning up.
        unsafe { libc::_exit(if result < 0 { -result } else { 0 }) };
    }
    let mut status = 0;
    // SAFETY: `child` is our own child, and the kernel writes into `status`.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
        (true, 0) => "done".to_owned(),
        (true, errno) => format!("errno {errno}"),
        (false, _) => ExitStatus::from_raw(status).to_string(),
    }
}

/// Calls `ioctl` through the 32-bit system call gate, which takes addresses of 32 bits.
#[cfg(target_arch = "x86_64")]
fn type_as_i386(fd: i32) -> i32 {
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT);
    // SAFETY: the kernel chooses the address of the new mapping, so it replaces none.
    let low = unsafe { libc::mmap(std::ptr::null_mut(), 4096, access, kind, -1, 0) };
    assert_ne!(low, libc::MAP_FAILED);
    // SAFETY: the page was just mapped for writing, and nothing else refers to it.
    unsafe { low.cast::<u8>().write(b'x') };
    let result: i32;
    // SAFETY: the request reads one byte of the mapped page. The gate clobbers r8 to r11, which are declared; rbx is
    // restored.
    unsafe {
        std::arch::asm!(
            "push rbx", "mov ebx, {fd:e}", "int 0x80", "pop rbx",
            fd = in(reg) fd,
            inlateout("eax") 54 => result,
            in("ecx") libc::TIOCSTI as u32,
            in("edx") low as usize as u32,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    result
}

fn cost(calls: u32) {
    let nanoseconds = move || {
        let begin = Instant::now();
        // SAFETY: `getppid` takes no argument and always succeeds.
        (0..calls).for_each(|_| _ = unsafe { libc::syscall(libc::SYS_getppid) });
        begin.elapsed().as_nanos() as f64 / f64::from(calls)
    };
    for _ in 0..5 {
        let without = nanoseconds();
        // A filter stays with its thread.
        let with = std::thread::spawn(move || sordino_sched::forbid_typing().map(|()| nanoseconds()));
        match with.join().expect("a thread") {
            Ok(with) => println!("getppid: {without:.1} ns without the filter, {with:.1} ns with it"),
            Err(error) => {
                println!("getppid: {without:.1} ns without the filter, which can't be installed: {error}")
            }
        }
    }
}
