//! The search for programs that can be recorded: those with an area that `/proc` shows.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, statx};
use rustix::io::Errno;
use sordino_proc::file::{bytes, of_process, of_thread};
use sordino_proc::list::{descriptors, tids};
use sordino_proc::maps::MappedRange;
use sordino_proc::stat::{START, Stat};
use sordino_proc::status::{innermost, users};
use sordino_ring::area::control::FileId;
use sordino_sched::Right;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The most areas of one process that are opened: each one takes a descriptor of the collector's.
const MOST_AREAS: usize = 64;

/// The target of a link in `/proc` to an area's file.
const LINK: &str = "/memfd:sordino (deleted)";

/// A file that has the name of an area, in a program that has it open or mapped.
#[derive(Debug)]
pub struct Found {
    /// The process id of the program.
    pub pid: i32,
    /// The file, usually open with `O_PATH`: [`Program::open`](sordino_ring::area::control::Program::open) vets it.
    pub file: OwnedFd,
    /// The file's identity, the same for every descriptor of one area.
    pub id: FileId,
}

/// The reason why a program's area can't be reached.
#[derive(Debug)]
pub enum Hidden {
    /// The recorder lacks the right to trace the process.
    NotPermitted,
    /// The program has closed its descriptor; with `CAP_CHECKPOINT_RESTORE` there is another way.
    Closed,
    /// The program registered the inode number of a file that is none of the areas that it has open.
    NotItsOwn,
    /// The process has ended, or is about to end: it has no descriptors and no memory any more.
    Ended,
    /// Reading `/proc` failed in another way.
    Io(io::Error),
}

impl std::fmt::Display for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotPermitted => {
                write!(
                    f,
                    "another user's, or one with more rights than its user: needs the right to trace it ({})",
                    Right::Trace.remedy()
                )
            }
            Self::Closed => write!(f, "it has closed all its descriptors: {}", Right::FindClosed.remedy()),
            Self::NotItsOwn => f.write_str("the area that it registered is not one that it has open"),
            Self::Ended => f.write_str("it ended before it was looked at"),
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl From<io::Error> for Hidden {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted,
            io::ErrorKind::NotFound => Self::Ended,
            _ if Errno::from_io_error(&error) == Some(Errno::SRCH) => Self::Ended,
            _ => Self::Io(error),
        }
    }
}

/// Returns the areas of process `pid`: none of a program that is not linked with sordino, one of most that are, several
/// if plug-ins bring their own copy of it.
///
/// # Errors
/// [`Hidden`], if the process may have areas but can't be examined.
pub fn areas(pid: i32) -> Result<Vec<Found>, Hidden> {
    let mut found = open_areas(pid, pid)?;
    if found.is_empty() {
        add_mapped(&mut found, pid)?;
    }
    Ok(found)
}

/// Returns the areas of a process that has registered one. If the first thread has ended, they are found through a
/// thread that has not.
///
/// # Errors
/// [`Hidden`], with [`Hidden::Ended`] for a process of which no thread is left.
pub fn areas_of_registered(pid: i32) -> Result<Vec<Found>, Hidden> {
    let found = areas(pid)?;
    if !found.is_empty() || !has_ended(pid, pid) {
        return Ok(found);
    }
    let living = tids(pid).find(|&tid| !has_ended(pid, tid)).ok_or(Hidden::Ended)?;
    open_areas(pid, living)
}

/// Returns the areas that thread `tid` of process `pid` has open.
fn open_areas(pid: i32, tid: i32) -> Result<Vec<Found>, Hidden> {
    let mut found: Vec<Found> = Vec::new();
    for link in descriptors(pid, tid)? {
        if found.len() == MOST_AREAS {
            break;
        }
        if is_area(&link) {
            add(&mut found, pid, &link);
        }
    }
    Ok(found)
}

/// Returns true if a thread has ended or is about to end: it has no descriptors and no memory any more.
fn has_ended(pid: i32, tid: i32) -> bool {
    let Ok(text) = of_thread(pid, tid, "stat") else { return true };
    Stat::parse(&text).is_none_or(|stat| stat.is_ending())
}

/// Returns the area that process `pid` has open under this number, if it is one.
pub fn area_at(pid: i32, descriptor: u32) -> Option<Found> {
    let path = PathBuf::from(format!("/proc/{pid}/fd/{descriptor}"));
    let mut found = Vec::new();
    if is_area(&path) {
        add(&mut found, pid, &path);
    }
    found.pop()
}

/// Returns true if a link of `/proc` leads to a file with an area's name. This is a cheap filter and no proof: any file
/// may have the name.
fn is_area(link: &Path) -> bool {
    fs::read_link(link).is_ok_and(|target| target.as_os_str() == LINK)
}

/// Adds the file behind a link of `/proc`; returns true if the file could be reached. The descriptor may be closed by
/// now, or be another file's: `O_PATH` opens none that could act, wait, or notice it.
fn add(found: &mut Vec<Found>, pid: i32, link: &Path) -> bool {
    let opened = rustix::fs::open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let Ok(file) = opened else { return false };
    let Ok(id) = FileId::of(&file) else { return false };
    if !found.iter().any(|other| other.id == id) {
        found.push(Found { pid, file, id });
    }
    true
}

/// Adds the areas that the process has mapped and no longer open.
fn add_mapped(found: &mut Vec<Found>, pid: i32) -> Result<(), Hidden> {
    let maps = of_process(pid, "maps")?;
    let mapped = maps.lines().filter_map(MappedRange::parse).filter(|mapped| mapped.path == LINK);
    for MappedRange { range: (start, end), .. } in mapped.take(MOST_AREAS) {
        let path = format!("/proc/{pid}/map_files/{start:x}-{end:x}");
        if !add(found, pid, Path::new(&path)) {
            return Err(if has_ended(pid, pid) { Hidden::Ended } else { Hidden::Closed });
        }
    }
    Ok(())
}

/// The identity of a process from `/proc`, for its trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The process's name, which is that of its first thread.
    pub name: String,
    /// The path of the program's file.
    pub executable: String,
    /// The process's pid in its own pid namespace.
    pub own_pid: i32,
    /// The time when the process started, in clock ticks since boot.
    pub start: u64,
}

/// One program in one process: the pid, the time when the process started, and the address of its stack, which differs
/// from one executed program to the next (0 if it can't be read).
pub type Incarnation = (i32, u64, u64);

/// Facts about a process that every user may read.
#[derive(Clone, Debug)]
pub struct Glance {
    /// The process and the program that it executes.
    pub incarnation: Incarnation,
    /// The process that started this one or took it over; `None` if this process is gone.
    pub parent: Option<i32>,
    /// The process's name, which is that of its first thread.
    pub name: String,
    /// True if the process has memory. The kernel's threads and processes that have ended have none.
    pub has_memory: bool,
}

/// Reads the `stat` of the process's first thread. It equals the process's own but for times, which the kernel would
/// have to add up over all threads.
pub fn glance(pid: i32) -> Glance {
    let text = of_thread(pid, pid, "stat").unwrap_or_default();
    let stat = Stat::parse(&text);
    let number = |field| stat.as_ref().and_then(|stat| stat.number(field)).unwrap_or(0);
    Glance {
        incarnation: (pid, number(START), number(28)),
        parent: stat.as_ref().and_then(Stat::parent),
        name: stat.as_ref().map_or("", |stat| stat.comm).to_owned(),
        has_memory: number(23) > 0,
    }
}

/// Returns true if the kernel does not permit reading the descriptors of process `pid`.
pub fn is_forbidden(pid: i32) -> bool {
    descriptors(pid, pid).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Returns the identity of process `pid`; fields that can't be read are empty or 0.
pub fn identity(pid: i32) -> Identity {
    let read = |file: &str| of_process(pid, file).unwrap_or_default();
    let executable = fs::read_link(format!("/proc/{pid}/exe"));
    let stat = read("stat");
    let stat = Stat::parse(&stat);
    Identity {
        name: stat.as_ref().map_or("", |stat| stat.comm).to_owned(),
        executable: executable.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default(),
        own_pid: innermost(&read("status"), "NSpid:", pid),
        start: stat.and_then(|stat| stat.number(START)).unwrap_or(0),
    }
}

/// Returns true if a process is a command of this very program that has nothing to record: all commands have
/// tracepoints, and `npt` alone hits them.
///
/// Reading the arguments touches the process's memory, whose pages may never come: not for a thread that others depend
/// on.
pub fn is_command_of_ours(pid: i32) -> bool {
    let arguments = || bytes(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    executes_our_program(pid) && arguments().split(|&byte| byte == 0).nth(1) != Some(b"npt")
}

/// Returns true if a process executes this very program. Waits for nothing of that process.
pub fn executes_our_program(pid: i32) -> bool {
    static OURS: OnceLock<Option<FileId>> = OnceLock::new();
    let ours = *OURS.get_or_init(|| program_of("self"));
    ours.is_some_and(|ours| program_of(&pid.to_string()) == Some(ours))
}

/// Returns the file that a process executes, without a request to its file system, which may be any user's.
fn program_of(pid: &str) -> Option<FileId> {
    let (path, flags) = (format!("/proc/{pid}/exe"), AtFlags::STATX_DONT_SYNC);
    let found = statx(CWD, path, flags, StatxFlags::INO).ok()?;
    let device = u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor);
    Some(FileId { device, inode: found.stx_ino })
}

/// Returns the user who started process `pid`, also if `/proc` gives the process to root because it is not dumpable or
/// has the rights of another program. `None` if it is gone.
pub fn user_of(pid: i32) -> Option<u32> {
    let owner = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    if owner != 0 {
        return Some(owner);
    }
    users(&of_process(pid, "status").ok()?).map(|users| users.real)
}

/// Returns the process that started `pid`, or took it over.
pub fn parent(pid: i32) -> Option<i32> {
    Stat::parse(&of_process(pid, "stat").ok()?)?.parent()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executed_program_is_another_one() {
        use std::io::{Read, Write};
        use std::process::{Command, Stdio};
        let mut command = Command::new("sh");
        command.args(["-c", "echo; read line; exec sh -c 'read line'"]);
        let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let pid = shell.id() as i32;
        // Waits for the shell's first output: exec is not over yet when it closes the descriptors.
        shell.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let incarnation = |pid| glance(pid).incarnation;
        let before = incarnation(pid);
        assert_eq!(incarnation(pid), before);
        let mut input = shell.stdin.take().unwrap();
        input.write_all(b"\n").unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while incarnation(pid) == before && std::time::Instant::now() < end {
            std::thread::yield_now();
        }
        let after = incarnation(pid);
        assert_eq!((after.0, after.1), (before.0, before.1));
        assert_ne!(after, before);
        drop(input);
        shell.wait().unwrap();
    }

    #[test]
    fn a_process_that_was_killed_has_ended() {
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = sleeper.id() as i32;
        assert!(areas_of_registered(pid).unwrap().is_empty());
        sleeper.kill().unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !has_ended(pid, pid) && std::time::Instant::now() < end {
            std::thread::yield_now();
        }
        assert!(matches!(areas_of_registered(pid), Err(Hidden::Ended)));
        sleeper.wait().unwrap();
        assert!(matches!(areas_of_registered(pid), Err(Hidden::Ended)));
    }

    #[test]
    fn this_test_is_a_process_without_an_area() {
        let pid = std::process::id() as i32;
        assert!(areas(pid).unwrap().is_empty());
        assert!(!identity(pid).name.is_empty());
        assert!(matches!(areas(i32::MAX), Err(Hidden::Ended)));
    }
}
