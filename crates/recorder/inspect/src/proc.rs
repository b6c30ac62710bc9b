//! Reads files of `/proc`, such as `/proc/PID/stat` and `/proc/PID/status`.

use std::fs::File;
use std::io::{self, Read};

/// Reads a file of `/proc`. [`std::fs::read`] would take a dozen calls, because the file's size is reported as 0.
pub fn bytes(path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(8 << 10);
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads at most the first `limit` bytes of a file: a process determines the length of some of its files.
pub(crate) fn read_at_most(path: &str, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(8 << 10);
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a whole file as text, in which names and paths may contain any bytes. Returns `None` if the thread is gone.
pub fn read(path: &str) -> Option<String> {
    Some(String::from_utf8_lossy(&bytes(path).ok()?).into_owned())
}

/// A thread's `stat`: its name, which may contain any text, and numbers.
#[derive(Debug)]
pub struct Stat<'a> {
    /// The name of the thread.
    pub comm: &'a str,
    /// The fields from number 3, the state, on.
    fields: Vec<&'a str>,
}

impl<'a> Stat<'a> {
    /// Parses a line of `/proc/PID/stat`; `None` if it has no name in parentheses.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (head, tail) = text.rsplit_once(')')?;
        Some(Self { comm: head.split_once('(')?.1, fields: tail.split_whitespace().collect() })
    }

    /// Returns the field with this number in proc(5), from 3 on; empty if it does not exist.
    pub fn field(&self, number: usize) -> &'a str {
        self.fields.get(number - 3).copied().unwrap_or_default()
    }
}

/// Returns the rest of the line that begins with `name` in a `status`; empty if there is none.
pub(crate) fn status_line<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default()
}

/// Returns the size of the code that a process has mapped, in KiB; `None` if it has ended. Another size shows that it has
/// mapped or unmapped code; reading it takes no lock of the process's memory.
pub fn code_size(pid: i32) -> Option<u64> {
    code_size_in(&read(&format!("/proc/{pid}/status"))?)
}

fn code_size_in(status: &str) -> Option<u64> {
    let kib = |name| status_line(status, name).trim().strip_suffix(" kB")?.parse::<u64>().ok();
    kib("VmExe:")?.checked_add(kib("VmLib:")?)
}

/// Returns the id in the innermost pid namespace from a line such as `NSpid:`, or `outer` if the kernel does not
/// provide it.
pub fn innermost(status: &str, name: &str, outer: i32) -> i32 {
    status_line(status, name).split_whitespace().last().and_then(|id| id.parse().ok()).unwrap_or(outer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read_as_it_is_written() {
        let stat =
            Stat::parse("12 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 424242 20").unwrap();
        assert_eq!(
            (stat.comm, stat.field(3), stat.field(22), stat.field(99)),
            ("a) b (c)", "S", "424242", "")
        );
        assert!(Stat::parse("12 a").is_none());
        assert_eq!(innermost("Name:\tx\nNSpid:\t4711\t12\n", "NSpid:", 0), 12);
        assert_eq!(innermost("Name:\tx\n", "NSpid:", 7), 7);
        assert_eq!(code_size_in("VmStk:\t 132 kB\nVmExe:\t    28 kB\nVmLib:\t 1600 kB\n"), Some(1628));
        // A thread of the kernel has no memory.
        assert_eq!(code_size_in("Name:\tx\n"), None);
        assert!(code_size(std::process::id().cast_signed()).unwrap() > 0);
    }

    #[test]
    fn a_file_longer_than_its_first_step_is_read_whole() {
        let symbols = bytes("/proc/kallsyms").unwrap();
        assert!(symbols.len() > 8 << 10 && symbols.ends_with(b"\n"));
        assert!(bytes("/proc/nothing").is_err());
    }
}
