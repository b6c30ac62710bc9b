//! Processes, their threads and their mappings, from `/proc`.

use super::build_id::BuildIds;
use crate::discover::{processes, tids};
use crate::proc::{Stat, innermost, read, status_line};
use sordino_ctf::write::Argument;

/// One thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) tid: i32,
    pub(super) pid: i32,
    ppid: i32,
    /// The ids in the innermost pid namespace.
    own: [i32; 2],
    name: String,
    kernel: bool,
    state: char,
    level: u32,
    cpu: u32,
    /// As LTTng counts: the kernel's minus 100.
    priority: i32,
    policy: u32,
}

/// A part of a file that a process has mapped to execute it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) pid: i32,
    start: u64,
    end: u64,
    offset: u64,
    path: String,
    build_id: String,
}

/// Everything that `/proc` shows.
pub(super) fn all(build_ids: &mut BuildIds) -> (Vec<Thread>, Vec<Mapping>) {
    let (mut threads, mut mappings) = (Vec::new(), Vec::new());
    for pid in processes() {
        for tid in tids(pid) {
            let read = |file: &str| read(&format!("/proc/{pid}/task/{tid}/{file}"));
            if let (Some(stat), Some(status)) = (read("stat"), read("status")) {
                threads.extend(thread(tid, pid, &stat, &status));
            }
        }
        let maps = read(&format!("/proc/{pid}/maps")).unwrap_or_default();
        mappings.extend(maps.lines().filter_map(|line| mapping(pid, line)).map(|mut mapping| {
            mapping.build_id = build_ids.of(&mapping.path);
            mapping
        }));
    }
    (threads, mappings)
}

fn thread(tid: i32, pid: i32, stat: &str, status: &str) -> Option<Thread> {
    let stat = Stat::parse(stat)?;
    const KERNEL_THREAD: u32 = 0x0020_0000;
    Some(Thread {
        tid,
        pid,
        ppid: stat.field(4).parse().ok()?,
        own: [innermost(status, "NSpid:", tid), innermost(status, "NStgid:", pid)],
        name: stat.comm.to_owned(),
        kernel: stat.field(9).parse::<u32>().ok()? & KERNEL_THREAD != 0,
        state: stat.field(3).chars().next()?,
        level: status_line(status, "NSpid:").split_whitespace().count().saturating_sub(1) as u32,
        cpu: stat.field(39).parse().unwrap_or(0),
        priority: stat.field(18).parse().ok()?,
        policy: stat.field(41).parse().unwrap_or(0),
    })
}

/// A line of `/proc/PID/maps`, if it is executable and of a file.
fn mapping(pid: i32, line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let executable = words.next()?.as_bytes().get(2) == Some(&b'x');
    let offset = words.next()?;
    let path = words.nth(2)?.trim_start();
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    (executable && path.starts_with('/')).then_some(Mapping {
        pid,
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        offset: hexadecimal(offset)?,
        path: path.to_owned(),
        build_id: String::new(),
    })
}

impl Thread {
    pub(super) fn arguments(&self) -> [Argument<'_>; 15] {
        let [vtid, vpid] = self.own;
        // The parent's id in the process's own namespace is not to be had.
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

/// A state as LTTng numbers it (`enum lttng_process_status`): waiting for a CPU or running, zombie, dead, waiting.
fn status(state: char) -> i32 {
    match state {
        'R' => 6,
        'Z' => 4,
        'X' | 'x' => 7,
        _ => 5,
    }
}

impl Mapping {
    pub(super) fn arguments(&self) -> [Argument<'_>; 6] {
        [
            self.pid.into(),
            self.start.into(),
            self.end.into(),
            self.offset.into(),
            self.path.as_str().into(),
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
        assert_eq!(
            (mapping.start, mapping.end, mapping.offset),
            (0x7f00_0000_1000, 0x7f00_0000_3000, 0x2000)
        );
        assert_eq!(mapping.path, "/usr/lib/with space.so");
        assert_eq!(super::mapping(3, &line.replace("r-xp", "r--p")), None);
        assert_eq!(
            super::mapping(3, "7f00-7f10 r-xp 00000000 00:00 0                          [vdso]"),
            None
        );
        assert_eq!(super::mapping(3, "nonsense"), None);
    }
}
