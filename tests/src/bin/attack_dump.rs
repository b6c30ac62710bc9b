//! Programs that attack a recorder's state dump by their mappings: `attack_dump KIND`, in a directory of the
//! attacker's. Each creates the file `ready` when its attack is prepared; `attack_dump peak COMMAND` runs a command and
//! prints its largest resident set in KiB.

use rustix::fs::{CWD, Mode, OFlags, mkfifoat, open};
use std::ffi::c_void;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, symlink};
use std::process::Command;
use std::ptr;
use std::time::Duration;

const PAGE: usize = 4096;

/// Creates a file of `pages` pages and maps it as executable.
fn mapped(name: &str, head: &[u8], pages: usize) -> (File, *mut c_void) {
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).open(name).expect("a file");
    file.set_len((pages * PAGE) as u64).expect("a size");
    file.write_all_at(head, 0).expect("its beginning");
    let (length, protection) = (pages * PAGE, libc::PROT_READ | libc::PROT_EXEC);
    // SAFETY: the kernel chooses the address of the new mapping, so it replaces none.
    let at =
        unsafe { libc::mmap(ptr::null_mut(), length, protection, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
    assert_ne!(at, libc::MAP_FAILED, "mmap");
    (file, at)
}

/// An ELF file's headers with one segment of notes, `size` bytes from the second page on.
fn elf(size: u64) -> Vec<u8> {
    let mut bytes = [b"\x7fELF\x02\x01\x01".as_slice(), &[0; 9], &[3, 0, 62, 0, 1, 0, 0, 0]].concat();
    // Entry point, and the offsets of the program and section headers.
    bytes.extend([0_u64, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend([0; 4]);
    bytes.extend([64_u16, 56, 1, 64, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    bytes.extend([4, 0, 0, 0, 4, 0, 0, 0]);
    bytes.extend([PAGE as u64, 0, 0, size, size, 4].iter().flat_map(|word| word.to_le_bytes()));
    bytes
}

/// Deletes a mapped file and creates a FIFO of the name that `maps` shows for it.
fn fifo_for_a_deleted_file() {
    mapped("x", b"text", 1);
    fs::remove_file("x").expect("gone");
    mkfifoat(CWD, "x (deleted)", Mode::RWXU).expect("a FIFO");
}

/// Deletes two mapped files and links the names that `maps` shows for them to `$SECRET` and to a FIFO. Creates `opened`
/// once a process has opened the FIFO.
fn links_for_mapped_files() {
    mkfifoat(CWD, "fifo", Mode::RWXU).expect("a FIFO");
    let secret = std::env::var("SECRET").expect("whose file");
    for (name, target) in [("a", secret.as_str()), ("b", "fifo")] {
        mapped(name, &elf(64), 2);
        fs::remove_file(name).expect("gone");
        symlink(target, format!("{name} (deleted)")).expect("a link");
    }
    std::thread::spawn(|| {
        // Opening a FIFO for writing fails while it has no reader.
        while open("fifo", OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        File::create("opened").expect("a file");
    });
}

/// Takes a lease on a mapped file, and keeps it until the kernel breaks it, after 45 seconds.
fn lease() {
    let (file, _) = mapped("leased", &elf(64), 2);
    // SAFETY: SIG_IGN is no handler, so no code of ours runs in a signal's context.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
    // SAFETY: `F_SETLEASE` takes an integer and no pointer; `file` owns the descriptor.
    let leased = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) };
    assert_eq!(leased, 0, "F_SETLEASE: {}", std::io::Error::last_os_error());
    std::mem::forget(file);
}

/// Maps a file that occupies a page or two, and declares 2 GiB of it to be notes.
fn notes() {
    let (file, _) = mapped("notes", &elf(2 << 30), 1);
    file.set_len((2 << 30) + 2 * PAGE as u64).expect("a hole");
}

/// Creates as many executable mappings of one page as the kernel allows.
fn many_mappings() {
    let pages = 60_000;
    let (_, at) = mapped("many", b"text", pages);
    for page in (0..pages).step_by(2) {
        // SAFETY: `page` is less than `pages`, so the result lies within the mapping of `pages` pages.
        let page = unsafe { at.byte_add(page * PAGE) };
        // SAFETY: one page of our own mapping, to which no reference exists.
        assert_eq!(unsafe { libc::mprotect(page, PAGE, libc::PROT_READ) }, 0);
    }
}

/// Starts more threads than a state dump lists of one process.
fn many_threads() {
    for _ in 0..4200 {
        let thread = std::thread::Builder::new().stack_size(16 << 10);
        thread.spawn(|| std::thread::sleep(Duration::from_secs(60))).expect("a thread");
    }
}

/// Runs a command, and prints its largest resident set in KiB.
fn peak(mut command: impl Iterator<Item = String>) {
    let program = command.next().expect("a command");
    let status = Command::new(program).args(command).status().expect("it starts");
    // SAFETY: `rusage` holds integers alone, so all zeros are a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes into `usage`, which is borrowed mutably for the call.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) }, 0);
    println!("peak {}", usage.ru_maxrss);
    assert!(status.success());
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("fifo") => fifo_for_a_deleted_file(),
        Some("links") => links_for_mapped_files(),
        Some("lease") => lease(),
        Some("notes") => notes(),
        Some("mappings") => many_mappings(),
        Some("threads") => many_threads(),
        Some("peak") => return peak(arguments),
        _ => panic!("attack_dump KIND, or: attack_dump peak COMMAND"),
    }
    File::create("ready").expect("a file");
    std::thread::sleep(Duration::from_secs(60));
}
