//! Reads processes, their threads and their mappings from `/proc`.

use super::open::{InodeId, Mapped};
use rustix::fs::makedev;
use sordino_ctf::write::Argument;
use sordino_proc::file::{bytes_at_most, of_thread};
use sordino_proc::list;
use sordino_proc::maps::MappedRange;
use sordino_proc::stat::Stat;
use sordino_proc::status::{innermost, line};

/// Maximum number of threads of one process in a dump.
pub(super) const THREADS_MAX: usize = 4096;
/// Maximum number of executable mappings of one process in a dump.
pub(super) const MAPPINGS_MAX: usize = 1024;
/// Maximum size read of a process's `maps`, in bytes: some 20,000 lines.
const MAPS_MAX: u64 = 2 << 20;

/// A thread's attributes from `/proc`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcThread {
    pub(super) tid: i32,
    pub(super) pid: i32,
    ppid: i32,
    /// The thread and process ids in the innermost pid namespace.
    own: [i32; 2],
    name: String,
    kernel: bool,
    state: char,
    level: u32,
    cpu: u32,
    /// The priority as LTTng records it: the kernel's minus 100.
    priority: i32,
    policy: u32,
}

/// A part of a file that a process has mapped executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CodeMapping {
    pub(super) mapped: Mapped,
    pub(super) offset: u64,
    pub(super) build_id: String,
}

/// Returns the threads of a process, and true if there are more.
pub(super) fn threads(pid: i32) -> (Vec<ProcThread>, bool) {
    let mut tids: Vec<i32> = list::tids(pid).take(THREADS_MAX + 1).collect();
    let more = tids.len() > THREADS_MAX;
    tids.truncate(THREADS_MAX);
    let seen = tids.into_iter().filter_map(|tid| {
        let read = |file: &str| of_thread(pid, tid, file).ok();
        thread(tid, pid, &read("stat")?, &read("status")?)
    });
    (seen.collect(), more)
}

/// Returns the executable mappings of a process, and true if there are or may be more.
pub(super) fn mappings(pid: i32) -> (Vec<CodeMapping>, bool) {
    let maps = bytes_at_most(format!("/proc/{pid}/maps"), MAPS_MAX).unwrap_or_default();
    let mut more = maps.len() as u64 == MAPS_MAX;
    // A truncated line could name another file.
    let whole = maps.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    let text = String::from_utf8_lossy(&maps[..whole]);
    let lines = text.lines().filter_map(|line| mapping(pid, line));
    let mut mappings: Vec<_> = lines.take(MAPPINGS_MAX + 1).collect();
    more |= mappings.len() > MAPPINGS_MAX;
    mappings.truncate(MAPPINGS_MAX);
    (mappings, more)
}

fn thread(tid: i32, pid: i32, stat: &str, status: &str) -> Option<ProcThread> {
    let stat = Stat::parse(stat)?;
    stat.flags()?;
    Some(ProcThread {
        tid,
        pid,
        ppid: stat.parent()?,
        own: [innermost(status, "NSpid:", tid), innermost(status, "NStgid:", pid)],
        name: stat.comm.to_owned(),
        kernel: stat.is_of_kernel(),
        state: stat.field(3).chars().next()?,
        level: line(status, "NSpid:").split_whitespace().count().saturating_sub(1) as u32,
        cpu: stat.number(39).unwrap_or(0),
        priority: stat.number(18)?,
        policy: stat.number(41).unwrap_or(0),
    })
}

/// Parses a line of `/proc/PID/maps`, if it is executable and maps a file.
pub(super) fn mapping(pid: i32, line: &str) -> Option<CodeMapping> {
    let MappedRange { range, is_executable, offset, device: (major, minor), inode, path } =
        MappedRange::parse(line)?;
    if !is_executable || !path.starts_with('/') {
        return None;
    }
    let file = InodeId { device: makedev(major, minor), inode };
    let mapped = Mapped { pid, range, path: path.to_owned(), file };
    Some(CodeMapping { mapped, offset, build_id: String::new() })
}

impl ProcThread {
    pub(super) fn arguments(&self) -> [Argument<'_>; 15] {
        let [vtid, vpid] = self.own;
        // The parent's id in the process's own namespace is not available.
        let vppid = if self.level == 0 { self.ppid } else { 0 };
        [
            self.tid.into(),
            vtid.into(),
            self.pid.into(),
            vpid.into(),
            self.ppid.into(),
            vppid.into(),
            self.name.as_str().into(),
            i32::from(self.kernel).into(),
            0.into(),
            0.into(),
            status(self.state).into(),
            self.level.into(),
            self.cpu.into(),
            self.priority.into(),
            self.policy.into(),
        ]
    }
}

/// Converts a state to LTTng's numbers (`enum lttng_process_status`): waiting for a CPU or running, zombie, dead,
/// waiting.
fn status(state: char) -> i32 {
    match state {
        'R' => 6,
        'Z' => 4,
        'X' | 'x' => 7,
        _ => 5,
    }
}

impl CodeMapping {
    pub(super) fn arguments(&self) -> [Argument<'_>; 6] {
        [
            self.mapped.pid.into(),
            self.mapped.range.0.into(),
            self.mapped.range.1.into(),
            self.offset.into(),
            self.mapped.path.as_str().into(),
            self.build_id.as_str().into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_read_whatever_its_name() {
        let rest = "S 7 1 1 0 -1 2097216 0 0 0 0 1 2 3 4 -51 0 5 0 99 0 0 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 3 50 1 0";
        let thread =
            thread(12, 11, &format!("12 (odd) name (x)) {rest}"), "NSpid:\t12\t3\nNStgid:\t11\t2\n").unwrap();
        assert_eq!((thread.name.as_str(), thread.ppid, thread.own), ("odd) name (x)", 7, [3, 2]));
        assert_eq!((thread.priority, thread.cpu, thread.policy, thread.level), (-51, 3, 1, 1));
        assert!(thread.kernel && thread.state == 'S');
        assert_eq!(super::thread(1, 1, "1 (x) S", ""), None);
    }

    #[test]
    fn executable_parts_of_files_are_mappings() {
        let line =
            "7f0000001000-7f0000003000 r-xp 00002000 fd:01 1234                       /usr/lib/with space.so";
        let mapping = mapping(3, line).unwrap();
        assert_eq!((mapping.mapped.range, mapping.offset), ((0x7f00_0000_1000, 0x7f00_0000_3000), 0x2000));
        assert_eq!(mapping.mapped.path, "/usr/lib/with space.so");
        assert_eq!(mapping.mapped.file, InodeId { device: makedev(0xfd, 1), inode: 1234 });
        assert_eq!(super::mapping(3, &line.replace("r-xp", "r--p")), None);
        assert_eq!(
            super::mapping(3, "7f00-7f10 r-xp 00000000 00:00 0                          [vdso]"),
            None
        );
        assert_eq!(super::mapping(3, "nonsense"), None);
    }
}
