//! The files whose pages threads wait for, and who reads these from their devices.

use crate::cause::Thread;
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::fmt;

/// Files whose readers are remembered; then all of them are forgotten.
const READ_MAX: usize = 4096;

/// A file, as the kernel's events about its pages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct File {
    /// The device of its file system.
    #[serde(serialize_with = "shown")]
    pub device: Device,
    /// Its number there.
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

/// A file whose pages a thread waits for, and the thread that reads them, if one was seen to.
pub(crate) type Awaited = (File, Option<Thread>);

/// Who has read which file's pages last.
#[derive(Debug, Default)]
pub(crate) struct Readers(HashMap<File, Thread>);

impl Readers {
    /// A thread has a page of this file read.
    pub(crate) fn reads(&mut self, file: File, thread: Thread) {
        if self.0.len() == READ_MAX && !self.0.contains_key(&file) {
            self.0.clear();
        }
        self.0.insert(file, thread);
    }

    /// Returns who has read pages of this file last.
    pub(crate) fn of(&self, file: File) -> Option<Thread> {
        self.0.get(&file).cloned()
    }

    /// Records are missing.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
