//! Programs that a recorder must not trust: `hostile KIND [SECONDS]`.

use rustix::net::{
    self, AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType,
};
use sordino_percpu::primitive::{Relaxed, Release};
use sordino_ring::area::{Area, AreaRequest};
use sordino_ring::layout::{Header, POINTS, RingHeader};
use sordino_ring::number::{RingOffset, Seqno, SlotIndex};
use sordino_ring::offset::Head;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Creates an area as the library does, after `twist` has changed the request.
fn area(twist: impl FnOnce(&mut AreaRequest)) -> (Area, OwnedFd) {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    let pid = std::process::id();
    let mut request = AreaRequest {
        cpus,
        points: POINTS as u32,
        catalogue: 64 << 10,
        reserve: 1 << 30,
        pid,
        restartable: true,
        allows_blocking: false,
    };
    twist(&mut request);
    Area::create(&request).expect("an area")
}

/// Creates a file whose name in `/proc/PID/fd` is that of an area.
fn file(flags: u32, size: u64, seal: bool) -> File {
    let name = CString::new("sordino").expect("a name");
    // SAFETY: the name ends with a zero byte, and the kernel copies it.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), flags | libc::MFD_ALLOW_SEALING) };
    assert!(fd >= 0, "memfd_create: {}", io::Error::last_os_error());
    // SAFETY: the call has just returned the descriptor, and nothing else owns it.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(size).expect("a size");
    if seal {
        // SAFETY: `F_ADD_SEALS` takes an integer and no pointer; the descriptor is owned.
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL) }, 0);
    }
    file
}

/// Writes these bytes to the start of the file.
fn with(mut file: File, bytes: &[u8]) -> File {
    file.write_all(bytes).expect("bytes");
    file
}

/// Returns the header of a valid area.
fn whole_header() -> Vec<u8> {
    let (_, file) = area(|_| {});
    let mut bytes = vec![0; size_of::<Header>()];
    File::from(file).read_exact_at(&mut bytes, 0).expect("a header");
    bytes
}

/// Appends `text` to the catalogue.
fn say(area: &Area, text: &str) {
    // SAFETY: this program has one thread, so no other one appends to the catalogue.
    assert!(unsafe { area.append(text.as_bytes(), POINTS as u32) }, "the catalogue has no room");
}

/// Returns a catalogue of `points` tracepoints.
fn catalogue(points: usize) -> String {
    (0..points).map(|id| format!("event\t{id}\t6\th\te{id}\t\t0\nend\n")).collect()
}

/// Moves the heads of the rings on for ever, as fast as the recorder reads.
fn run_ahead(area: &Area, end: Instant) {
    let header: &Header = area.header();
    while Instant::now() < end {
        for index in 0..=header.cpus.load(Relaxed) {
            // SAFETY: the rings of slot 0; the shared one is the last.
            let ring: &RingHeader = unsafe { &*area.rings(SlotIndex::FIRST).at(index) };
            let count = ring.count.load(Relaxed);
            if count > 0 {
                let seqno = ring.consumed.load(Relaxed).wrapping_add(count - 1);
                let offset = (seqno & (count - 1)) << ring.bits.load(Relaxed);
                ring.head.store(Head::entering(Seqno(seqno), RingOffset(offset)).0, Release);
            }
        }
    }
}

/// Returns the recorder's abstract name and its token's digits.
fn session() -> (String, String) {
    let session = std::env::var("SORDINO_SESSION").expect("a session");
    let (name, token) = session.rsplit_once('/').expect("a token");
    (name.trim_start_matches('@').to_owned(), token.to_owned())
}

/// Connects to the session's socket.
fn connect() -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new_abstract_name(session().0.as_bytes())?;
    let socket = net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)?;
    net::connect(&socket, &address)?;
    Ok(socket)
}

/// Sends bytes, with `count` descriptors of `file` if there is one, and keeps the connection open.
fn tell(bytes: &[u8], file: Option<(BorrowedFd<'_>, usize)>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: Vec<BorrowedFd<'_>> = file.into_iter().flat_map(|(file, count)| vec![file; count]).collect();
    assert!(files.is_empty() || control.push(SendAncillaryMessage::ScmRights(&files)));
    let socket = connect().expect("a recorder that listens");
    // The recorder may have closed the connection.
    let _ = net::sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
    std::mem::forget(socket);
}

/// Returns a program's packet, written out here: its area's inode, no descriptor, and the recorder's token.
fn packet(inode: u64) -> [u8; 40] {
    let (_, token) = session();
    let [first, second] = [0, 16].map(|at| u64::from_str_radix(&token[at..at + 16], 16).expect("digits"));
    let words = [u64::from_le_bytes(*b"sordino2"), inode, u64::MAX, first, second];
    let mut bytes = [0; 40];
    bytes.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_ne_bytes()));
    bytes
}

/// Sends packets of all lengths and values except valid ones.
fn babble() {
    for length in [0, 1, 8, 15, 16, 17, 4096] {
        tell(&vec![0xa5; length], None);
    }
    for number in 0..100u64 {
        tell(&packet(0)[..number as usize % 9], None);
        tell(&[number.to_ne_bytes(), (!number).to_ne_bytes()].concat(), None);
    }
    (0..10).for_each(|_| tell(&packet(u64::MAX), None));
}

/// Registers with descriptors of memory that is no area, of both ends of a pipe, and of standard input.
fn tell_with_files() {
    let (memory, (reader, writer)) = (file(0, 0, false), rustix::pipe::pipe().expect("a pipe"));
    for count in 0..8 {
        let end = if count % 2 == 0 { reader.as_fd() } else { writer.as_fd() };
        for file in [memory.as_fd(), end, io::stdin().as_fd()] {
            tell(&packet(count as u64), Some((file, count)));
        }
    }
    std::mem::forget((memory, reader, writer));
}

/// Sends packets of other protocol versions, valid otherwise.
fn other_versions() {
    for version in (0..=u8::MAX).filter(|version| *version != b'1') {
        let mut bytes = packet(7);
        bytes[7] = version;
        tell(&bytes, None);
    }
}

/// Holds the lock that serialises attaching recorders until the program ends.
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
    // SAFETY: `lock` is initialised and outlives the call, which reads it alone.
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
        "all-sizes" => {
            let area = keep(area(|_| {}));
            let header = area.header();
            header.cpus.store(u32::MAX, Relaxed);
            for size in [&header.rings_offset, &header.catalogue_capacity, &header.control_size] {
                size.store(u64::MAX - 7, Relaxed);
            }
        }
        "pid" => drop(keep(area(|request| request.pid = 1))),
        "truncated" => files.push(with(file(0, 100, true), b"sordino\0")),
        "short" => files.push(with(file(0, 0, true), &whole_header()[..96])),
        "empty" => files.push(file(0, 0, true)),
        "unsealed" => files.push(with(file(0, 1 << 20, false), &whole_header())),
        // The machine need not have any free huge pages.
        "huge" => files.push(file(libc::MFD_HUGETLB, 2 << 20, true)),
        "nonsense" => say(&keep(area(|_| {})), "event\tnonsense\n"),
        "points" => say(&keep(area(|request| request.catalogue = 2 << 20)), &catalogue(POINTS + 1000)),
        "catalogue" => {
            // The length declares a gigabyte of text, none of which was written.
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
        "silent" => (0..100).for_each(|_| std::mem::forget(connect().expect("a recorder that listens"))),
        "babble" => babble(),
        "files" => tell_with_files(),
        "versions" => other_versions(),
        "flood" => {
            while Instant::now() < end {
                // The recorder may have ended.
                let _ = connect().map(|socket| net::send(socket, &packet(u64::MAX), SendFlags::NOSIGNAL));
            }
        }
        other => panic!("no kind '{other}'"),
    }
    println!("ready");
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
}
