//! Signals, as descriptors that become readable.

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::pipe::{PipeFlags, pipe_with};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe::register;
use std::io;
use std::os::fd::OwnedFd;

/// Becomes readable with the first SIGINT, SIGTERM or SIGHUP, which ask to stop; from now on they do nothing else.
pub(crate) fn stop() -> io::Result<OwnedFd> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        register(signal, write.try_clone()?)?;
    }
    Ok(read)
}

/// What signalfd(2) tells of SIGUSR1 and SIGUSR2, which ask for what was recorded; they do nothing else in this thread and in those
/// that it starts from now on.
pub(crate) fn write_now() -> io::Result<OwnedFd> {
    let signals: SigSet = [Signal::SIGUSR1, Signal::SIGUSR2].into_iter().collect();
    signals.thread_block()?;
    Ok(SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?.into())
}
