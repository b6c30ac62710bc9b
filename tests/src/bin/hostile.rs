//! Programs that a recorder had better not trust: `hostile KIND [SECONDS]`.

use sordino_percpu::primitive::{Relaxed, Release};
use sordino_ring::area::{Area, Request};
use sordino_ring::layout::{Header, RingHeader};
use sordino_ring::position::Head;
use std::ffi::CString;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::mem::offset_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// An area as the library makes it, but for what `twist` does to the request.
fn area(twist: impl FnOnce(&mut Request)) -> (Area, OwnedFd) {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    let pid = std::process::id();
    let mut request = Request { cpus, catalogue: 64 << 10, reserve: 1 << 30, pid, restartable: true };
    twist(&mut request);
    Area::create(&request).expect("an area")
}

/// A file that looks like an area's in `/proc/PID/fd`.
fn file(flags: u32, size: u64, seal: bool) -> File {
    let name = CString::new("sordino").expect("a name");
    // SAFETY: a name that ends with a zero byte.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), flags | libc::MFD_ALLOW_SEALING) };
    assert!(fd >= 0, "memfd_create: {}", std::io::Error::last_os_error());
    // SAFETY: the call has just returned it.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(size).expect("a size");
    if seal {
        // SAFETY: an owned descriptor.
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) }, 0);
    }
    file
}

/// Appends `text` to the catalogue.
fn say(area: &Area, text: &str) {
    // SAFETY: this program has one thread.
    let fits = unsafe {
        area.append(|room| {
            room.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
            Some(text.len())
        })
    };
    assert!(fits, "the catalogue has no room");
}

/// A catalogue of `points` tracepoints.
fn catalogue(points: usize) -> String {
    (0..points).map(|id| format!("event\t{id}\t6\th\te{id}\t\t0\nend\n")).collect()
}

/// Has heads move for ever, as fast as the recorder takes what lies before them.
fn run_ahead(area: &Area, end: Instant) {
    let header: &Header = area.header();
    while Instant::now() < end {
        for index in 0..=header.cpus.load(Relaxed) {
            // SAFETY: the rings of slot 0; the shared one is the last.
            let ring: &RingHeader = unsafe { &*area.rings(0).at(index) };
            let count = ring.count.load(Relaxed);
            if count > 0 {
                let turn = ring.consumed.load(Relaxed).wrapping_add(count - 1);
                let place = (turn & (count - 1)) << ring.bits.load(Relaxed);
                ring.head.store(Head::entering(turn, place).0, Release);
            }
        }
    }
}

/// Connects to the session's socket.
fn connect() -> std::os::fd::RawFd {
    let name = std::env::var("SORDINO_SESSION").expect("a session");
    // SAFETY: all zeros is an unnamed address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, byte) in address.sun_path.iter_mut().zip(name.bytes()) {
        *to = byte as libc::c_char;
    }
    address.sun_path[0] = 0;
    // SAFETY: no preconditions.
    let socket = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0) };
    let length = (offset_of!(libc::sockaddr_un, sun_path) + name.len()) as libc::socklen_t;
    // SAFETY: an address of that length.
    unsafe { libc::connect(socket, (&raw const address).cast(), length) };
    socket
}

fn send(socket: i32, bytes: &[u8]) {
    // SAFETY: bytes of their length.
    unsafe { libc::send(socket, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
}

/// Holds the lock that orders recorders that attach, as long as the program lives.
fn hold_attach_lock(file: &OwnedFd) {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mine = File::options().read(true).write(true).open(path).expect("the area's file");
    let mut lock = libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: sordino_ring::layout::ATTACH_LOCK as i64,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: an initialised lock.
    assert_eq!(unsafe { libc::fcntl(mine.as_raw_fd(), libc::F_OFD_SETLK, &mut lock) }, 0);
    std::mem::forget(mine);
}

fn main() {
    let mut words = std::env::args().skip(1);
    let kind = words.next().unwrap_or_default();
    let seconds: f64 = words.next().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let (mut files, mut areas) = (Vec::new(), Vec::new());
    let mut keep = |(area, file): (Area, OwnedFd)| {
        areas.push(file);
        area
    };
    match kind.as_str() {
        "magic" => keep(area(|_| {})).header().magic.store(42, Relaxed),
        "version" => keep(area(|_| {})).header().version.store(99, Relaxed),
        "sizes" => keep(area(|_| {})).header().control_size.store(u64::MAX, Relaxed),
        "cpus" => keep(area(|_| {})).header().cpus.store(u32::MAX, Relaxed),
        "pid" => drop(keep(area(|request| request.pid = 1))),
        "truncated" => files.push(file(0, 100, true)),
        "empty" => files.push(file(0, 0, true)),
        "unsealed" => files.push(file(0, 1 << 20, false)),
        // Memory of huge pages, of which the machine need not have any.
        "huge" => files.push(file(libc::MFD_HUGETLB, 2 << 20, true)),
        "nonsense" => say(&keep(area(|_| {})), "event\tnonsense\n"),
        "points" => say(&keep(area(|request| request.catalogue = 1 << 20)), &catalogue(9000)),
        "catalogue" => {
            // A gigabyte of text, of which only the end is there.
            let size = 1 << 30;
            let area = keep(area(|request| request.catalogue = size));
            area.header().catalogue_length.store(size as u64, Release);
        }
        "locked" => {
            let (_, file) = area(|_| {});
            hold_attach_lock(&file);
            areas.push(file);
        }
        "ahead" => {
            let area = keep(area(|_| {}));
            say(&area, &catalogue(1));
            run_ahead(&area, end);
        }
        "silent" => (0..30).for_each(|_| _ = connect()),
        "babble" => {
            for length in [0, 1, 8, 15, 16, 17, 4096] {
                send(connect(), &vec![0xa5; length]);
            }
            let mut words = b"sordino1".to_vec();
            words.extend([0xff; 8]);
            (0..10).for_each(|_| send(connect(), &words));
        }
        "flood" => {
            let mut words = b"sordino1".to_vec();
            words.extend([0xff; 8]);
            while Instant::now() < end {
                let socket = connect();
                send(socket, &words);
                // SAFETY: our own.
                unsafe { libc::close(socket) };
            }
        }
        other => panic!("no kind '{other}'"),
    }
    for mut file in files {
        // Only where something may be written at all.
        if kind == "truncated" || kind == "unsealed" {
            file.seek(SeekFrom::Start(0)).and_then(|_| file.write(b"sordino\0")).expect("bytes");
        }
        std::mem::forget(file);
    }
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
}
