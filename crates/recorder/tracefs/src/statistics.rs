//! The kernel's counts for each CPU's buffer.

use crate::{Error, Instance};
use sordino_event::Cpu;

/// Counts of one CPU's buffer since the instance was created or last emptied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferCounts {
    /// Number of unread records in the buffer.
    pub entries: u64,
    /// Number of records that were overwritten before they were read.
    pub overrun: u64,
    /// Number of records lost because too many were being written at once, in nested interrupts.
    pub commit_overrun: u64,
    /// Number of unread bytes in the buffer.
    pub bytes: u64,
    /// Number of records without room while overwriting was off.
    pub dropped: u64,
    /// Number of records that were read.
    pub read: u64,
}

impl BufferCounts {
    /// Returns the number of records that never reached a reader.
    pub fn lost(&self) -> u64 {
        self.overrun.saturating_add(self.commit_overrun).saturating_add(self.dropped)
    }

    /// Returns the number of all records of the CPU, lost ones included.
    pub fn recorded(&self) -> u64 {
        self.lost().saturating_add(self.read).saturating_add(self.entries)
    }
}

impl Instance {
    /// Returns the CPUs that have a buffer, including offline ones.
    ///
    /// # Errors
    /// Returns an error if the kernel's directory cannot be read.
    pub fn cpus(&self) -> Result<Vec<Cpu>, Error> {
        let entries = self.dir.directory("per_cpu")?.entries()?;
        let number = |name: &String| name.strip_prefix("cpu")?.parse().ok().map(Cpu);
        let mut cpus: Vec<Cpu> = entries.iter().filter_map(number).collect();
        cpus.sort_unstable();
        Ok(cpus)
    }

    /// Reads the kernel's counts for the buffer of `cpu`.
    ///
    /// # Errors
    /// Returns an error if there is no such CPU, or if a count is missing.
    pub fn statistics(&self, cpu: Cpu) -> Result<BufferCounts, Error> {
        let file = format!("per_cpu/cpu{cpu}/stats");
        let text = self.dir.read(&file)?;
        parse(&text).map_err(|expected| Error::Unexpected {
            path: self.dir.path(&file),
            expected,
            found: text.trim().to_owned(),
        })
    }
}

fn parse(text: &str) -> Result<BufferCounts, &'static str> {
    let count = |name: &'static str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(": "));
        lines.find(|&(key, _)| key == name).and_then(|(_, value)| value.trim().parse().ok()).ok_or(name)
    };
    Ok(BufferCounts {
        entries: count("entries")?,
        overrun: count("overrun")?,
        commit_overrun: count("commit overrun")?,
        bytes: count("bytes")?,
        dropped: count("dropped events")?,
        read: count("read events")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_is_found_under_its_own_name() {
        let text = "entries: 1\noverrun: 2\ncommit overrun: 3\nbytes: 4\n\
                    oldest event ts:  2725.1\nnow ts: 3.5\ndropped events: 5\nread events: 6\n";
        let expected =
            BufferCounts { entries: 1, overrun: 2, commit_overrun: 3, bytes: 4, dropped: 5, read: 6 };
        assert_eq!(parse(text), Ok(expected));
        assert_eq!((expected.lost(), expected.recorded()), (10, 17));
        assert_eq!(parse("entries: 1\n"), Err("overrun"));
        assert_eq!(parse("entries: many\n"), Err("entries"));
    }
}
