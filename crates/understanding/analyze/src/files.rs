//! The files whose pages threads wait for, and the threads that read them from their devices.

use crate::cause::Thread;
use foldhash::HashMap;
use serde::{Serialize, Serializer};
use std::fmt;

/// The maximum number of pages whose readers are remembered; at the limit, all of them are forgotten.
const READ_MAX: usize = 4096;

/// A file, as the kernel's events about its pages identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct File {
    /// The device of its file system.
    #[serde(serialize_with = "shown")]
    pub device: Device,
    /// The file's inode number in that file system.
    pub inode: u64,
}

/// A device, by its major and minor number: `254:0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device(pub u32, pub u32);

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0, self.1)
    }
}

fn shown<S: Serializer>(device: &Device, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(device)
}

/// A file whose pages a thread waits for, and the thread that brings them into memory, if it is known.
pub(crate) type Awaited = (File, Option<Thread>);

/// The threads that brought pages of files into memory, by the first of 2^order pages.
#[derive(Debug, Default)]
pub(crate) struct Readers(HashMap<(File, u64), (u32, Thread)>);

/// The largest order of a folio that is searched for: 2 MiB with pages of 4 KiB.
const ORDER_MAX: u32 = 9;

impl Readers {
    /// Notes that a thread brings 2^order pages into memory, beginning with this one.
    pub(crate) fn read(&mut self, page: (File, u64), order: u32, thread: Thread) {
        if self.0.len() == READ_MAX && !self.0.contains_key(&page) {
            self.0.clear();
        }
        self.0.insert(page, (order, thread));
    }

    /// Returns the thread that brought this page into memory, if it is remembered.
    pub(crate) fn of(&self, (file, page): (File, u64)) -> Option<Thread> {
        let folio = |order| self.0.get(&(file, page >> order << order)).filter(|(its, _)| *its == order);
        (0..=ORDER_MAX).find_map(folio).map(|(_, thread)| thread.clone())
    }

    /// Forgets all readers, as records are missing.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
