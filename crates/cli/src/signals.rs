//! Signals that ask to stop, as a descriptor that becomes readable.

use rustix::pipe::{PipeFlags, pipe_with};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe::register;
use std::io;
use std::os::fd::OwnedFd;

/// Becomes readable with the first SIGINT, SIGTERM or SIGHUP; from now on they do nothing else.
pub(crate) fn stop() -> io::Result<OwnedFd> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        register(signal, write.try_clone()?)?;
    }
    Ok(read)
}
