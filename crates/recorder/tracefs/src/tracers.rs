//! The kernel's tracers that measure by themselves, such as `hwlat`.

use crate::dir::TracefsDir;
use crate::{Error, Instance, Tracefs};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

impl Tracefs {
    /// Returns the tracers that this kernel was built with.
    ///
    /// # Errors
    /// Returns an error if the kernel's list cannot be read.
    pub fn tracers(&self) -> Result<Vec<String>, Error> {
        let text = self.root.read("available_tracers")?;
        Ok(text.split_whitespace().map(str::to_owned).collect())
    }

    /// Returns the active tracers of the shared buffer and of all instances.
    ///
    /// # Errors
    /// Returns an error if the instances cannot be listed.
    pub fn running(&self) -> Result<Vec<String>, Error> {
        let tracer = |dir: &TracefsDir| dir.read("current_tracer").map(|text| text.trim().to_owned());
        let mut all = vec![tracer(&self.root)?];
        let instances = self.root.directory("instances")?;
        // An instance that cannot be read was removed meanwhile.
        all.extend(
            instances.entries()?.iter().filter_map(|name| tracer(&instances.directory(name).ok()?).ok()),
        );
        all.retain(|tracer| tracer != "nop");
        Ok(all)
    }
}

impl Instance {
    /// Starts this tracer; `nop` stops the present one. `hwlat` runs in only one instance at a time.
    ///
    /// # Errors
    /// Returns an error if the kernel has no such tracer, if another instance runs it, or if a process reads the
    /// present one's output.
    pub fn set_tracer(&self, name: &str) -> Result<(), Error> {
        self.dir.set("current_tracer", name)
    }

    /// Returns a reader of the tracer's printed output from now on. Each line is returned once, to one reader. While
    /// the reader lives, the tracer cannot be changed.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened.
    pub fn lines(&self) -> Result<Lines, Error> {
        Ok(Lines { pipe: self.dir.source("trace_pipe")?, rest: Vec::new() })
    }
}

/// A reader of an instance's lines.
#[derive(Debug)]
pub struct Lines {
    pipe: OwnedFd,
    /// Bytes of an incomplete line.
    rest: Vec<u8>,
}

impl Lines {
    /// Calls `on_line` for the next lines, at most a page of them, and returns true if there may be more. Never blocks.
    /// If lines are added as fast as they are read, for example because reading causes some, there is no last one until
    /// recording is stopped.
    ///
    /// # Errors
    /// Returns an error if the lines cannot be read.
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

/// Calls `on_line` for the lines that these bytes complete, and keeps the rest.
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
    fn lines_are_returned_when_they_are_whole() {
        let (mut rest, mut lines) = (Vec::new(), Vec::new());
        for bytes in ["a", "b\nc\n", "", "d", "\n\ne"] {
            whole_lines(&mut rest, bytes.as_bytes(), |line| lines.push(line.to_owned()));
        }
        assert_eq!((lines.join("|").as_str(), rest.as_slice()), ("ab|c|d|", &b"e"[..]));
    }
}
