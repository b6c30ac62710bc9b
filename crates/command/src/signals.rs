//! Signals as descriptors that become readable.

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::low_level::pipe::register;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Returns a descriptor that becomes readable at the first SIGINT, SIGTERM or SIGHUP, and removes all other effects of
/// these signals.
pub fn stop() -> io::Result<OwnedFd> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        register(signal, write.try_clone()?)?;
    }
    Ok(read)
}

/// A request to stop, which [`stop`] receives.
pub struct Stop(OwnedFd);

impl Stop {
    /// Receives requests from now on.
    pub fn new() -> io::Result<Self> {
        stop().map(Self)
    }

    /// Returns true after the first request.
    pub fn is_requested(&self) -> bool {
        is_readable(self.0.as_fd(), Duration::ZERO)
    }
}

/// Returns true when the descriptor is readable, or false after this time.
pub fn is_readable(descriptor: BorrowedFd<'_>, longest: Duration) -> bool {
    let longest = Timespec::try_from(longest).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&longest)).is_ok_and(|ready| ready > 0)
}

/// Lets a write beyond the limit of a file's size (`ulimit -f`) fail as on a full disk; by default, SIGXFSZ ends the
/// process. Programs that this one executes have the default again.
pub fn survive_file_size_limit() {
    // If it fails, the limit ends this process, which is no reason not to begin.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Returns a signalfd(2) for SIGUSR1 and SIGUSR2, which request a snapshot or the next chunk. They are blocked in this
/// thread, and in threads that it starts from now on.
pub fn write_now() -> io::Result<OwnedFd> {
    let signals: SigSet = [Signal::SIGUSR1, Signal::SIGUSR2].into_iter().collect();
    signals.thread_block()?;
    Ok(SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?.into())
}
