//! The registration of a program, and the facts by which its area is found.

use rustix::net::{RecvFlags, SendFlags, recv, send};
use sordino_inspect::discover::{Found, Hidden, area_at, areas_of_registered};
use sordino_registration::{RecorderReply, WENT_ON};
use sordino_ring::area::control::FileId;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The registration of a program that waits for the reply. Dropping it sends the reply, so the program goes on.
#[derive(Debug)]
pub struct Registration {
    /// The program's pid in the recorder's namespace; not positive if the program is not visible there.
    pub pid: i32,
    /// The user of the process, as the kernel reports it.
    pub user: u32,
    /// The area's inode number, as the program sent it.
    pub inode: u64,
    /// The number of the program's own descriptor for the area, as the program sent it.
    pub(crate) descriptor: Option<u32>,
    /// The descriptor that came with the packet.
    pub(crate) file: Option<Arc<OwnedFd>>,
    pub(crate) connection: OwnedFd,
    /// True if the recorder's answer is in the program's area.
    pub is_answered: bool,
    /// The registration's share in the number of those that wait.
    pub(crate) _waits: Arc<()>,
}

/// The facts by which a registered area is found.
#[derive(Clone, Debug)]
pub(crate) struct Whereabouts {
    pid: i32,
    inode: u64,
    descriptor: Option<u32>,
    file: Option<Arc<OwnedFd>>,
}

impl Registration {
    /// Returns the program's area: the descriptor that it sent, or the area that `/proc` shows to a recorder with the
    /// right to trace the program.
    ///
    /// # Errors
    /// [`Hidden`], if the area can't be reached or is not the registered one.
    pub fn area(&self) -> Result<Found, Hidden> {
        self.whereabouts().area()
    }

    pub(crate) fn whereabouts(&self) -> Whereabouts {
        let Self { pid, inode, descriptor, ref file, .. } = *self;
        Whereabouts { pid, inode, descriptor, file: file.clone() }
    }

    /// Returns true if the program went on without an answer. A program that ended while it waited has hit nothing.
    pub fn went_on(&self) -> bool {
        let mut byte = [0];
        let received = recv(&self.connection, &mut byte, RecvFlags::DONTWAIT);
        received.is_ok_and(|(_, length)| length == 1) && byte == WENT_ON
    }
}

impl Whereabouts {
    /// Returns the program's area, as [`Registration::area`] does. The inode number that the program sent only selects
    /// one of the program's own areas; it is trusted for nothing else.
    pub(crate) fn area(&self) -> Result<Found, Hidden> {
        let pid = self.pid;
        let found = match &self.file {
            Some(file) => Some(Found { pid, id: FileId::of(file)?, file: file.try_clone()? }),
            None => self.descriptor.and_then(|descriptor| area_at(pid, descriptor)),
        };
        if let Some(found) = found {
            return if found.id.inode == self.inode { Ok(found) } else { Err(Hidden::NotItsOwn) };
        }
        let all = areas_of_registered(pid)?;
        let missing = if all.is_empty() { Hidden::Closed } else { Hidden::NotItsOwn };
        all.into_iter().find(|found| found.id.inode == self.inode).ok_or(missing)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // A program that has stopped waiting does not matter.
        let reply = if self.is_answered { RecorderReply::Answered } else { RecorderReply::GoOn };
        let _ = send(&self.connection, &reply.encode(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
}
