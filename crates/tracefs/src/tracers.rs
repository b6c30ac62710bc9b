//! The kernel's tracers that measure by themselves, such as `hwlat`.

use crate::dir::Dir;
use crate::{Error, Instance, Tracefs};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

impl Tracefs {
    /// The tracers that this kernel was built with.
    ///
    /// # Errors
    /// If the kernel's list can't be read.
    pub fn tracers(&self) -> Result<Vec<String>, Error> {
        let text = self.root.read("available_tracers")?;
        Ok(text.split_whitespace().map(str::to_owned).collect())
    }

    /// The tracers that run, in the buffer that all share or in an instance.
    ///
    /// # Errors
    /// If the instances can't be listed.
    pub fn running(&self) -> Result<Vec<String>, Error> {
        let tracer = |dir: &Dir| dir.read("current_tracer").map(|text| text.trim().to_owned());
        let mut all = vec![tracer(&self.root)?];
        let instances = self.root.directory("instances")?;
        // One that can't be read has been removed meanwhile.
        all.extend(
            instances.entries()?.iter().filter_map(|name| tracer(&instances.directory(name).ok()?).ok()),
        );
        all.retain(|tracer| tracer != "nop");
        Ok(all)
    }
}

impl Instance {
    /// Runs this tracer from now on; `nop` is none. `hwlat` runs in one instance at a time.
    ///
    /// # Errors
    /// If the kernel has no such tracer, another instance runs it, or somebody reads what the present one records.
    pub fn set_tracer(&self, name: &str) -> Result<(), Error> {
        self.dir.set("current_tracer", name)
    }

    /// What is recorded from now on, as the kernel prints it. Each line is handed out once, to one reader. As long as it lives the
    /// tracer can't be changed.
    ///
    /// # Errors
    /// If it can't be opened.
    pub fn lines(&self) -> Result<Lines, Error> {
        Ok(Lines { pipe: self.dir.source("trace_pipe")?, rest: Vec::new() })
    }
}

/// A reader of an instance's lines.
#[derive(Debug)]
pub struct Lines {
    pipe: OwnedFd,
    /// A line of which the end is not yet there.
    rest: Vec<u8>,
}

impl Lines {
    /// Tells `on_line` the next lines, at most a page of them, and returns whether there may be more; it waits for none. Where more come
    /// than are read, as where reading makes some, there is no last one before recording is stopped.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn read(&mut self, on_line: impl FnMut(&str)) -> Result<bool, Error> {
        let mut buffer = [0; 1 << 13];
        loop {
            match rustix::io::read(&self.pipe, &mut buffer) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(false),
                Ok(length) => {
                    whole_lines(&mut self.rest, &buffer[..length], on_line);
                    return Ok(true);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::io("read", "trace_pipe".as_ref(), errno)),
            }
        }
    }
}

/// Tells the lines that are whole with these bytes, and keeps what is left.
fn whole_lines(rest: &mut Vec<u8>, bytes: &[u8], on_line: impl FnMut(&str)) {
    rest.extend_from_slice(bytes);
    let Some(end) = rest.iter().rposition(|&byte| byte == b'\n') else { return };
    let whole: Vec<u8> = rest.drain(..=end).collect();
    String::from_utf8_lossy(&whole).lines().for_each(on_line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_when_they_are_whole() {
        let (mut rest, mut lines) = (Vec::new(), Vec::new());
        for bytes in ["a", "b\nc\n", "", "d", "\n\ne"] {
            whole_lines(&mut rest, bytes.as_bytes(), |line| lines.push(line.to_owned()));
        }
        assert_eq!((lines.join("|").as_str(), rest.as_slice()), ("ab|c|d|", &b"e"[..]));
    }
}
