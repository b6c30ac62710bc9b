//! Programs that send requests that a recorder has to reject: `attack_intake KIND ARGUMENTS`. Each prints `ready` when
//! its attack is under way, and then stays until it is killed.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use rustix::net::{
    self, AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType,
};
use sordino_ring::area::{Area, AreaRequest};
use sordino_ring::layout::ATTACH_LOCK;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// First word of a program's packet, written out here, because attackers do not follow the protocol's crate.
const FIRST_WORD: u64 = u64::from_le_bytes(*b"sordino2");
/// Address space of each area in bytes: enough for rings of the default size.
const RESERVE: usize = 256 << 20;
/// Time limit for a recorder's answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Creates an area as the library does.
fn area() -> (Area, OwnedFd) {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    let pid = std::process::id();
    let (restartable, allows_blocking) = (true, false);
    let (points, catalogue) = (1024, 64 << 10);
    let request =
        AreaRequest { cpus, points, catalogue, reserve: RESERVE, pid, restartable, allows_blocking };
    Area::create(&request).expect("an area")
}

fn inode(file: &OwnedFd) -> u64 {
    rustix::fs::fstat(file).expect("what the file is").st_ino
}

/// Connects to a recorder's socket: a path, or an abstract name behind `@`.
fn connect(socket: &str) -> io::Result<OwnedFd> {
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
        None => SocketAddrUnix::new(socket)?,
    };
    let connection = net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)?;
    net::connect(&connection, &address)?;
    Ok(connection)
}

/// Sends a packet of words, with a descriptor if there is one, and returns the connection.
fn tell(socket: &str, words: &[u64], file: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: Vec<BorrowedFd<'_>> = file.into_iter().collect();
    assert!(files.is_empty() || control.push(SendAncillaryMessage::ScmRights(&files)));
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let connection = connect(socket)?;
    net::sendmsg(&connection, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(connection)
}

/// Registers an area with a session as the library does.
fn register(socket: &str, file: &OwnedFd) -> io::Result<OwnedFd> {
    tell(socket, &[FIRST_WORD, inode(file), file.as_raw_fd() as u64], None)
}

/// Waits until the recorder has answered or hung up, for at most [`PATIENCE`].
fn wait_for_answer(connection: &OwnedFd) {
    let time = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let _ = poll(&mut [PollFd::new(connection, PollFlags::IN)], Some(&time));
}

/// Returns a watch for processes that close `path` after having had it open for writing.
fn watch_writers(path: &str) -> File {
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).expect("inotify");
    inotify::add_watch(&watch, path, inotify::WatchFlags::CLOSE_WRITE).expect("a watch");
    File::from(watch)
}

/// Prints whether any process has had the file open for writing.
fn say_whether_written(mut watch: File) {
    std::thread::sleep(Duration::from_millis(300));
    let was_opened = matches!(watch.read(&mut [0; 4096]), Ok(1..));
    println!("{}", if was_opened { "opened for writing" } else { "untouched" });
}

/// Sends a read-only descriptor of a file that root could open for writing.
fn send(path: &str, socket: &str) {
    let file: OwnedFd =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).expect(path).into();
    let watch = watch_writers(path);
    let connection = tell(socket, &[FIRST_WORD, inode(&file)], Some(file.as_fd())).expect("a recorder");
    wait_for_answer(&connection);
    say_whether_written(watch);
}

/// Registers a descriptor again and again while it alternates between a memory file and a file that may only be read.
fn plant(path: &str, socket: &str, seconds: u64) {
    static OVER: AtomicBool = AtomicBool::new(false);
    let file: OwnedFd = File::open(path).expect(path).into();
    // The memory is no area, so the recorder examines it each time.
    let memory = sordino_ring::area::map::create_file(1 << 20).expect("a file");
    let (watch, number) = (watch_writers(path), 200);
    // SAFETY: no other code of this program owns descriptor 200, so `dup2` closes no descriptor in use.
    assert_eq!(unsafe { libc::dup2(memory.as_raw_fd(), number) }, number);
    let words = [FIRST_WORD, inode(&memory), number as u64];
    let swap = std::thread::spawn(move || {
        while !OVER.load(Ordering::Relaxed) {
            // SAFETY: only this thread changes descriptor 200 now, and no object owns it.
            unsafe { libc::dup2(file.as_raw_fd(), number) };
            // SAFETY: only this thread changes descriptor 200 now, and no object owns it.
            unsafe { libc::dup2(memory.as_raw_fd(), number) };
        }
    });
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        let sent: Vec<_> = (0..64).filter_map(|_| tell(socket, &words, None).ok()).collect();
        sent.iter().for_each(wait_for_answer);
    }
    OVER.store(true, Ordering::Relaxed);
    swap.join().expect("the thread");
    say_whether_written(watch);
}

/// Sends a terminal, which becomes the controlling terminal of a process that opens it and has none; then hangs it up.
fn terminal(socket: &str) {
    let flags = libc::O_NOCTTY | libc::O_CLOEXEC;
    let master =
        OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/ptmx").expect("a terminal");
    // SAFETY: `master` owns the descriptor; the call takes no pointer.
    assert_eq!(unsafe { libc::unlockpt(master.as_raw_fd()) }, 0);
    let mut number: libc::c_uint = 0;
    // SAFETY: `TIOCGPTN` writes one unsigned integer, into `number`.
    assert_eq!(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTN, &mut number) }, 0);
    let name = format!("/dev/pts/{number}");
    let slave = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY)
        .open(name)
        .expect("a terminal");
    let slave: OwnedFd = slave.into();
    let connection = tell(socket, &[FIRST_WORD, inode(&slave)], Some(slave.as_fd())).expect("a recorder");
    wait_for_answer(&connection);
    std::thread::sleep(Duration::from_millis(300));
    drop((slave, master));
}

/// Registers leased files that look like areas: opening one waits until the kernel breaks the lease, 45 seconds.
fn leases(socket: &str, count: usize) {
    // SAFETY: SIG_IGN is no handler. Ignored, the signal of a lease to be broken does not end the program and with it
    // the leases.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
    for _ in 0..count {
        let file = sordino_ring::area::map::create_file(1 << 20).expect("a file");
        // `F_WRLCK` requires that the file is open once; the creation does not count.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let file: OwnedFd = File::options().read(true).write(true).open(path).expect("the file again").into();
        // SAFETY: `F_SETLEASE` takes an integer and no pointer; `file` owns the descriptor.
        let leased = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) };
        assert_eq!(leased, 0, "a lease: {}", io::Error::last_os_error());
        std::mem::forget(register(socket, &file));
        std::mem::forget(file);
    }
}

/// Registers `count` areas at once, after `twist` has changed each.
fn areas(socket: &str, count: usize, twist: impl Fn(&Area, &OwnedFd)) {
    for _ in 0..count {
        let (area, file) = area();
        twist(&area, &file);
        std::mem::forget(register(socket, &file));
        std::mem::forget(file);
    }
}

/// Registers areas with catalogues of `size` bytes: one endless tracepoint, whose length changes all the time.
fn catalogues(socket: &str, count: usize, size: usize) {
    let (mut headers, cpus) = (Vec::new(), 1);
    for _ in 0..count {
        let pid = std::process::id();
        let (restartable, allows_blocking) = (true, false);
        let (points, catalogue) = (1024, size);
        let request =
            AreaRequest { cpus, points, catalogue, reserve: RESERVE, pid, restartable, allows_blocking };
        let (area, file) = Area::create(&request).expect("an area");
        let mut text = b"event\t0\t6\ta\tb\t\t0\nfield\tenum:u32\tx\n".to_vec();
        while text.len() < size {
            text.extend_from_slice(b"label\t1\t2\ta\n");
        }
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let offset = sordino_ring::layout::Capacity { cpus, points }.catalogue_offset() as u64;
        let writable = File::options().write(true).open(path).expect("the area's file");
        std::os::unix::fs::FileExt::write_all_at(&writable, &text[..size], offset).expect("room");
        area.header().catalogue_length.store(size as u64 - 4096, Ordering::Release);
        std::mem::forget(register(socket, &file));
        std::mem::forget(file);
        headers.push(area);
    }
    println!("ready");
    let end = Instant::now() + Duration::from_secs(60);
    for step in 0.. {
        let length = size as u64 - step % 4096;
        headers.iter().for_each(|area| area.header().catalogue_length.store(length, Ordering::Release));
        std::thread::sleep(Duration::from_millis(20));
        if Instant::now() > end {
            break;
        }
    }
}

/// Holds the lock that serialises attaching recorders until the process ends.
fn keep_locked(_: &Area, file: &OwnedFd) {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mine = File::options().read(true).write(true).open(path).expect("the area's file");
    let mut lock = libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: ATTACH_LOCK as i64,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: `lock` is initialised and outlives the call, which reads it alone.
    assert_eq!(unsafe { libc::fcntl(mine.as_raw_fd(), libc::F_OFD_SETLK, &mut lock) }, 0);
    std::mem::forget(mine);
}

/// Layout of `struct uffdio_api` in <linux/userfaultfd.h>.
#[repr(C)]
struct FaultApi {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// Layout of `struct uffdio_register` in the same header.
#[repr(C)]
struct FaultRange {
    start: u64,
    length: u64,
    mode: u64,
    ioctls: u64,
}

/// Makes every access to these pages of shared memory wait for ever, by a userfaultfd of the device at `path` whose
/// faults are not answered.
fn never_come(path: &str, start: u64, length: u64) {
    /// Numbers of `USERFAULTFD_IOC_NEW`, `UFFDIO_API`, `UFFDIO_REGISTER`.
    const NEW: libc::c_ulong = 0xaa00;
    const API: libc::c_ulong = 0xc018_aa3f;
    const REGISTER: libc::c_ulong = 0xc020_aa00;
    /// Features: faults on missing pages of shared memory, and on present pages that are not mapped.
    const FEATURES: u64 = 1 << 5 | 1 << 10;
    let device = File::options().read(true).write(true).open(path).expect(path);
    // SAFETY: `device` owns the descriptor, and the argument is an integer of flags.
    let faults = unsafe { libc::ioctl(device.as_raw_fd(), NEW, libc::O_CLOEXEC) };
    assert!(faults >= 0, "userfaultfd: {}", io::Error::last_os_error());
    let mut api = FaultApi { api: 0xaa, features: FEATURES, ioctls: 0 };
    // SAFETY: `api` is initialised and has the size that the request's number encodes.
    assert_eq!(unsafe { libc::ioctl(faults, API, &mut api) }, 0, "{}", io::Error::last_os_error());
    let mut range = FaultRange { start, length, mode: 1 | 4, ioctls: 0 };
    // SAFETY: `range` is initialised and has the size that the request's number encodes. The callers own the mapped
    // pages.
    assert_eq!(unsafe { libc::ioctl(faults, REGISTER, &mut range) }, 0, "{}", io::Error::last_os_error());
}

/// Makes the pages of an area's rings wait for ever.
fn rings_never_come(device: &str, area: &Area) {
    never_come(device, area.header() as *const _ as u64 + (2 << 20), RESERVE as u64 - (2 << 20));
}

/// Writes to a file from pages whose faults are never answered. The kernel keeps the file's inode locked meanwhile, and
/// every change of the file's size or memory waits uninterruptibly.
fn hold_inode(device: &str, path: &str) {
    let memory = sordino_ring::area::map::create_file(1 << 20).expect("a file");
    let pages = sordino_ring::area::map::Mapping::new(memory.as_fd(), 0, 1 << 20).expect("a mapping").leak();
    never_come(device, pages.addr().get() as u64, 1 << 20);
    let file = File::options().write(true).open(path).expect(path);
    println!("ready");
    // SAFETY: `pages` is mapped for 1 MiB, of which the kernel would read 4096 bytes; it waits for them for ever.
    unsafe { libc::pwrite(file.as_raw_fd(), pages.as_ptr().cast(), 4096, 0) };
}

/// Registers an area whose inode a child holds, from before the registration or from after it. This process then ends.
fn held(socket: &str, device: &str, when: &str) {
    let (_area, file) = area();
    let hold = || {
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let program = std::env::current_exe().expect("this program");
        std::mem::forget(Command::new(program).args(["hold", device, &path]).spawn().expect("a child"));
        std::thread::sleep(Duration::from_millis(300));
    };
    if when == "before" {
        hold();
    }
    wait_for_answer(&register(socket, &file).expect("a recorder"));
    if when == "after" {
        hold();
    }
}

/// Registers an area under another area's inode number, which it reads from the file `number`.
fn claim(socket: &str, number: &str) {
    let _first = area();
    println!("ready");
    let end = Instant::now() + Duration::from_secs(20);
    while !Path::new(number).exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    let claimed = fs::read_to_string(number).expect(number).trim().parse().expect("a number");
    let (_area, file) = area();
    let words = [FIRST_WORD, claimed, file.as_raw_fd() as u64];
    for sent in [Some(file.as_fd()), None] {
        wait_for_answer(&tell(socket, &words, sent).expect("a recorder"));
    }
    println!("claimed");
    stay();
}

/// Tries to join the recording of another user's command by its socket's public name.
fn strange() {
    let sockets = fs::read_to_string("/proc/net/unix").expect("the sockets");
    let name = sockets
        .lines()
        .filter_map(|line| line.split_whitespace().nth(7))
        .find(|name| name.starts_with("@sordino-"));
    let name = name.expect("a recorder's socket");
    let (_area, file) = area();
    let number = file.as_raw_fd() as u64;
    let packets: [&[u64]; 3] = [
        &[FIRST_WORD, inode(&file), number],
        &[FIRST_WORD, inode(&file), number, 0, 0],
        &[FIRST_WORD, inode(&file)],
    ];
    for words in packets {
        wait_for_answer(&tell(name, words, Some(file.as_fd())).expect("a recorder"));
    }
    stay();
}

/// Opens connections that stay silent or send an invalid packet, as fast as it can.
fn flood(socket: &str) {
    let (mut silent, end) = (Vec::new(), Instant::now() + Duration::from_secs(30));
    println!("ready");
    while Instant::now() < end {
        silent.extend(connect(socket));
        let _ = tell(socket, &[FIRST_WORD, u64::MAX], None);
        if silent.len() > 500 {
            silent.clear();
        }
    }
}

fn stay() {
    println!("ready");
    std::thread::sleep(Duration::from_secs(60));
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<usize>().expect("a number");
    match words[..] {
        ["send", path, socket] => send(path, socket),
        ["plant", path, socket, seconds] => plant(path, socket, number(seconds) as u64),
        ["terminal", socket] => terminal(socket),
        ["leases", socket, count] => leases(socket, number(count)),
        ["areas", socket, count] => areas(socket, number(count), |_, _| {}),
        ["locked", socket, count] => areas(socket, number(count), keep_locked),
        ["pages", socket, device] => areas(socket, 1, |area, _| rings_never_come(device, area)),
        ["catalogues", socket, count, size] => catalogues(socket, number(count), number(size)),
        ["held", socket, device, when] => held(socket, device, when),
        ["hold", device, path] => hold_inode(device, path),
        ["many", times, ref rest @ ..] => {
            let program = std::env::current_exe().expect("this program");
            let children: Vec<_> = (0..number(times))
                .map(|_| Command::new(&program).args(rest).spawn().expect("a child"))
                .collect();
            std::mem::forget(children);
        }
        ["claim", socket, number] => claim(socket, number),
        ["strange"] => strange(),
        ["flood", socket] => flood(socket),
        _ => panic!("no such attack: {words:?}"),
    }
    if !["send", "plant", "claim", "strange", "flood", "held", "hold", "catalogues"].contains(&words[0]) {
        stay();
    }
}
