//! Wakes the session's loop from other threads.

use rustix::event::{EventfdFlags, eventfd};
use sordino_collect::Error;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Time between two checks of everything that causes no wake-up.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// A descriptor that is readable from `ring` until `silence`.
#[derive(Clone, Debug)]
pub(crate) struct Bell(Arc<OwnedFd>);

impl Bell {
    pub(crate) fn new() -> Result<Self, Error> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(Self(Arc::new(fd.map_err(Error::system("can't make an eventfd"))?)))
    }

    pub(crate) fn ring(&self) {
        // A counter at its maximum is readable, too.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    pub(crate) fn silence(&self) {
        let _ = rustix::io::read(&*self.0, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
