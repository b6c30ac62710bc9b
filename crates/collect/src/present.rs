//! The pages of a program's rings, and those that lead there: present before its threads touch them.

use crate::proc;
use sordino_ring::map::populate;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A region of a process's memory: address and length.
type Region = (u64, u64);

/// A process, and the regions of its memory that are to be present.
type Errand = (i32, Vec<Region>);

/// Where errands go, and how many pages were missing after each.
type Thread = (Sender<Errand>, Receiver<io::Result<u64>>);

/// Makes pages present, those of one program after the other.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    /// The thread that does it, once there was something to do.
    thread: Option<Thread>,
}

impl Presence {
    /// Makes regions of a program's area present in it, its rings first; what is to be told if that failed.
    pub(crate) fn make(&mut self, pid: i32, regions: &[Region]) -> Option<String> {
        // What the kernel had no memory for a moment ago it may have now.
        let missing = match self.populate(pid, regions) {
            Ok(1..) => self.populate(pid, regions),
            result => result,
        };
        match missing {
            Ok(0) => None,
            // It has become another program, or ended: nobody will write there.
            _ if regions.iter().all(|region| !is_mapped(pid, region.0)) => None,
            Ok(missing) => {
                Some(format!("{missing} pages of its rings were not present: it may fault on them"))
            }
            Err(error) => {
                Some(format!("its rings could not be made present ({error}): it faults on each page once"))
            }
        }
    }

    /// How many pages could not be read. The program may have arranged that this takes for ever (userfaultfd, FUSE): then the thread is
    /// left there until one of us ends, and the next program gets another.
    fn populate(&mut self, pid: i32, regions: &[Region]) -> io::Result<u64> {
        let thread = self.thread.take().map_or_else(start, Ok)?;
        // It ends with us only: if that failed, there would be no answer.
        let _ = thread.0.send((pid, regions.to_vec()));
        // 1.4 us for a page are 0.4 s for a GiB.
        let bytes: u64 = regions.iter().map(|region| region.1).sum();
        let patience = Duration::from_secs(1 + (bytes >> 30));
        let Ok(missing) = thread.1.recv_timeout(patience) else { return Err(io::ErrorKind::TimedOut.into()) };
        self.thread = Some(thread);
        missing
    }
}

fn start() -> io::Result<Thread> {
    let (give, places) = channel::<Errand>();
    let (answer, answers) = channel();
    let thread = std::thread::Builder::new().name("sordino-present".to_owned());
    thread.spawn(move || {
        for (pid, regions) in places {
            let missing = regions.iter().map(|&(address, length)| populate(pid, address, length)).sum();
            if answer.send(missing).is_err() {
                return;
            }
        }
    })?;
    Ok((give, answers))
}

/// Whether a process has something at this address.
fn is_mapped(pid: i32, address: u64) -> bool {
    let maps = match proc::bytes(&format!("/proc/{pid}/maps")) {
        Ok(maps) => String::from_utf8_lossy(&maps).into_owned(),
        Err(error) => return error.kind() == io::ErrorKind::PermissionDenied,
    };
    let has = |line: &str| {
        let (start, end) = line.split_whitespace().next()?.split_once('-')?;
        let [start, end] = [start, end].map(|bound| u64::from_str_radix(bound, 16).ok());
        Some((start?..end?).contains(&address))
    };
    maps.lines().any(|line| has(line) == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_is_found_until_the_process_ends() {
        let here = std::process::id() as i32;
        let local = 0u8;
        assert!(is_mapped(here, (&raw const local).addr() as u64));
        assert!(!is_mapped(here, 0) && !is_mapped(i32::MAX, 0x1000));
    }

    #[test]
    fn what_fails_in_one_program_is_no_obstacle_in_the_next() {
        let here = std::process::id() as i32;
        let local = 0u8;
        let region = [((&raw const local).addr() as u64, 1)];
        let mut presence = Presence::default();
        assert!(presence.populate(i32::MAX, &region).is_err());
        assert_eq!(presence.populate(here, &region).unwrap(), 0);
        assert_eq!(presence.populate(here, &[(0, 1), region[0]]).unwrap(), 1);
        assert_eq!(presence.populate(here, &region).unwrap(), 0);
    }
}
