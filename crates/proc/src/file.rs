//! Reads files of `/proc`. [`std::fs::read`] would take a dozen calls, because their size is reported as 0.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a whole file.
///
/// # Errors
/// The kernel's error: `NotFound` or `ESRCH` if the process has ended.
pub fn bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    bytes_at_most(path, u64::MAX)
}

/// Reads at most the first `limit` bytes of a file: a process determines the length of some of its files.
///
/// # Errors
/// The kernel's error, as from [`bytes`].
pub fn bytes_at_most(path: impl AsRef<Path>, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(8 << 10);
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a whole file as text. Bytes that are no UTF-8 become replacement characters.
///
/// # Errors
/// The kernel's error, as from [`bytes`].
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&bytes(path)?).into_owned())
}

/// Reads a file of a process, such as `stat`, as text.
///
/// # Errors
/// The kernel's error, as from [`bytes`].
pub fn of_process(pid: i32, name: &str) -> io::Result<String> {
    text(format!("/proc/{pid}/{name}"))
}

/// Reads a file of a thread of a process, such as `stat`, as text.
///
/// # Errors
/// The kernel's error, as from [`bytes`].
pub fn of_thread(pid: i32, tid: i32, name: &str) -> io::Result<String> {
    text(format!("/proc/{pid}/task/{tid}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_longer_than_its_first_step_is_read_whole() {
        let symbols = bytes("/proc/kallsyms").unwrap();
        assert!(symbols.len() > 8 << 10 && symbols.ends_with(b"\n"));
        assert!(bytes("/proc/nothing").is_err());
    }

    #[test]
    fn no_more_is_read_than_the_limit() {
        assert_eq!(bytes_at_most("/proc/self/status", 5).unwrap(), b"Name:");
    }
}
