//! `/proc/PID/stat` and `/proc/PID/status`.

use std::fs;

/// A file of `/proc` as text: names of threads and paths may hold any bytes. `None` if the thread is gone.
pub(crate) fn read(path: &str) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned())
}

/// A thread's `stat`: its name, which may hold anything, and numbers.
#[derive(Debug)]
pub(crate) struct Stat<'a> {
    pub(crate) comm: &'a str,
    /// Field 3, the state, and on.
    fields: Vec<&'a str>,
}

impl<'a> Stat<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (head, tail) = text.rsplit_once(')')?;
        Some(Self { comm: head.split_once('(')?.1, fields: tail.split_whitespace().collect() })
    }

    /// The field that proc(5) gives this number, from 3 on; empty if it is not there.
    pub(crate) fn field(&self, number: usize) -> &'a str {
        self.fields.get(number - 3).copied().unwrap_or_default()
    }
}

/// What follows `name` in its line of a `status`; empty if there is none.
pub(crate) fn status_line<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default()
}

/// The id in the innermost pid namespace, of a line such as `NSpid:`; `outer` where the kernel does not tell.
pub(crate) fn innermost(status: &str, name: &str, outer: i32) -> i32 {
    status_line(status, name).split_whitespace().last().and_then(|id| id.parse().ok()).unwrap_or(outer)
}
