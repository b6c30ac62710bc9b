//! Pages for a ring's sub-buffers: given before writers may enter them, taken back from rings that are not used.
//!
//! A ring keeps its size, but not all of its memory. A sub-buffer without pages is closed to writers
//! ([`room`](crate::read)): they lose records, and count them, rather than wait for memory. The pager opens sub-buffers
//! in the order of their sequence numbers, each when its pages are present in the program: no writer faults on one.
//!
//! ```text
//!   low       oldest         head              open         top
//!    | given   | unread      | being | free     | revoked   |
//!    | back    |             | filled|          |           |
//!    +---------+-------------+-------+----------+-----------+   all of these have pages
//! ```
//!
//! Taking pages back has two steps. [`revoke`](Pager::revoke) closes the sub-buffers behind the one that follows the
//! head's. Much later, [`reclaim`](Pager::reclaim) takes their pages, but none of the sub-buffer that follows the
//! head's *then*: a writer that slept since before the revocation may still go on into that one, whenever it wakes. It
//! goes no further, for by then it sees the revocation:
//!
//! - A writer loads the head, then `consumed`, and its section refuses another head than the one it loaded. So an old
//!   value of `consumed` lets it enter one sub-buffer: the one behind the head that it loaded, which is the present
//!   one, or the section refuses it.
//! - Between the two steps, every section that was under way has ended, and what this side has stored is seen
//!   everywhere: sections are some instructions long, and the time is a second. The rings of CPUs rest on the same
//!   assumption when they are closed and opened anew (`publisher.pml`). In the shared ring, writers are counted
//!   instead: `control:K`.
//!
//! Sub-buffers that the reader has put, and that are not open again, may lose their pages at any time.

use super::Program;
use crate::area::map::FilePart;
use crate::layout::{Geometry, PAGE};
use crate::number::{RingOffset, Seqno};
use crate::offset::Head;
use crate::read::{Bounds, Reader, Room};
use sordino_event::Cpu;
use sordino_percpu::primitive::{Acquire, Relaxed, SeqCst, fence};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A number of sub-buffers for each ring, from the first on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    /// Sub-buffers of each CPU's ring.
    pub per_cpu: u32,
    /// Sub-buffers of the shared ring.
    pub shared: u32,
}

impl Portion {
    /// The sub-buffers of the ring of `cpu`, or of the shared ring.
    pub(super) const fn of(self, cpu: Option<Cpu>) -> u32 {
        if cpu.is_some() { self.per_cpu } else { self.shared }
    }
}

/// Gives pages to the sub-buffers of one ring, and takes them back.
#[derive(Debug)]
pub struct Pager {
    room: Arc<Room>,
    geometry: Geometry,
    cpu: Option<Cpu>,
    /// The offset of the sub-buffers in the program's file.
    data: u64,
    /// The offset of the shared ring's commit words in the program's file.
    commits: Option<u64>,
    /// Sequence number of the oldest sub-buffer that has pages, and of the first behind it that has none.
    low: Seqno,
    top: Seqno,
}

/// The use of a ring at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The ring's head word.
    pub head: Head,
    /// Sub-buffers behind that of the head that writers may enter.
    pub ahead: u32,
    /// True if all of the ring's sub-buffers are in use.
    pub is_whole: bool,
}

impl Pager {
    /// Returns the pager of a ring in the region that begins at `region` in the file.
    pub(super) fn of(reader: &Reader, region: u64) -> Self {
        let bounds = reader.room.bounds();
        Self {
            room: Arc::clone(&reader.room),
            geometry: reader.geometry,
            cpu: reader.cpu,
            data: region + reader.data as u64,
            commits: reader.commits.map(|commits| region + commits as u64),
            low: bounds.oldest,
            top: bounds.open,
        }
    }

    /// The ring's CPU; `None` for the shared ring.
    pub const fn cpu(&self) -> Option<Cpu> {
        self.cpu
    }

    /// The size and the number of the ring's sub-buffers.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Bytes of the sub-buffers that have pages.
    pub fn present(&self) -> u64 {
        let (_, top, low) = self.limits();
        u64::from(top.since(low)) << self.geometry.bits
    }

    /// Returns the use of the ring now; `None` if its head is one that it cannot have.
    pub fn usage(&self) -> Option<Use> {
        let bounds = self.room.bounds();
        let head = Head(self.room.header().head.load(Relaxed));
        let is_possible = head.seqno().since(bounds.oldest) < self.geometry.count;
        let ahead = bounds.open.since(head.seqno().after(1)) as i32;
        let is_whole = bounds.length() == self.geometry.count;
        is_possible.then_some(Use { head, ahead: ahead.max(0) as u32, is_whole })
    }

    /// Sets the mark at which the [reader](crate::read::Reader::calls_pager) calls: `bytes` beyond the start of the
    /// sub-buffer of `head`.
    pub fn call_behind(&self, head: Head, bytes: u64) {
        let seqnos = (bytes >> self.geometry.bits) as u32;
        let seqno = head.seqno().after(seqnos);
        let offset = RingOffset::of_sub_buffer(seqno.entry(self.geometry.count), self.geometry.bits);
        let rest = bytes as u32 & (self.geometry.size() as u32 - 1);
        self.room.call_at(Head((u64::from(seqno.0) << 32) + u64::from(offset.after(rest).0)));
    }

    /// Returns true if the reader has called, would call now, or there is no mark. The reader may be late: it waits for
    /// the disk that it writes to.
    pub fn is_called(&self) -> bool {
        self.room.is_called()
    }

    /// Returns the bounds, and the sequence numbers of the sub-buffers that have pages. While all have pages, the
    /// reader moves both on by itself.
    fn limits(&self) -> (Bounds, Seqno, Seqno) {
        let (bounds, count) = (self.room.bounds(), self.geometry.count);
        if bounds.length() == count {
            return (bounds, bounds.open, bounds.oldest);
        }
        // A hostile program may deceive the reader about its offset: no more sub-buffers than the ring has can have
        // pages.
        let top = if bounds.oldest.since(self.top) as i32 > 0 { bounds.oldest } else { self.top };
        let is_beyond = top.since(self.low) > count;
        (bounds, top, if is_beyond { top.before(count) } else { self.low })
    }

    /// Opens the next sub-buffers that are free, at most `most` of them if not all have pages, after their pages are
    /// present in process `pid`, which is the program. Returns the bytes of pages that are new in the file. May take as
    /// long as the program likes.
    ///
    /// # Errors
    /// `ENOSPC` or `ENOMEM` when there is no memory; other errors if pages cannot be made present there. Nothing is
    /// opened then.
    pub fn extend(&mut self, program: &Program, pid: i32, most: u32) -> io::Result<u64> {
        let (bounds, top, low) = self.limits();
        let (count, present) = (self.geometry.count, top.since(low));
        (self.top, self.low) = (top, low);
        let until = bounds.open.after(most.min(count - bounds.length().min(count)));
        if until == bounds.open {
            return Ok(0);
        }
        // Revoked sub-buffers that still have their pages need none, nor do those that lie where others were put.
        let needed = (until.since(top) as i32).max(0) as u32;
        let new = needed.min(count - present);
        let data = data_parts(self.geometry, self.data, top, new);
        program.supply(pid, &data, &word_parts(self.geometry, self.commits, top, new))?;
        self.top = top.after(needed);
        self.low = low.after(needed - new);
        let is_whole = present + new == count;
        self.room.end_at((!is_whole).then_some(self.top));
        self.room.open_until(until, is_whole);
        Ok(u64::from(new) << self.geometry.bits)
    }

    /// Takes the pages of sub-buffers that the reader has put, unless they are about to be used again. Returns their
    /// bytes.
    ///
    /// # Errors
    /// The system call's error.
    pub fn trim(&mut self, program: &Program) -> io::Result<u64> {
        let (bounds, top, low) = self.limits();
        let behind = bounds.oldest.since(low);
        if behind == 0 || behind > top.since(low) {
            return Ok(0);
        }
        (self.top, self.low) = (top, bounds.oldest);
        self.punch(program, low, behind)
    }

    /// Closes the sub-buffers that lie more than `keep` (at least one) behind the head's. Returns true if
    /// [`reclaim`](Self::reclaim) may follow; false if the reader was putting a sub-buffer, and the caller has to
    /// revoke again.
    pub fn revoke(&mut self, keep: u32) -> bool {
        let Some(Use { head, .. }) = self.usage() else { return false };
        let end = head.seqno().after(1).after(keep.max(1));
        let before = self.room.close_from(end).filter(|before| before.length() == self.geometry.count);
        if let Some(before) = before {
            (self.top, self.low) = (before.open, before.oldest);
            self.room.end_at(Some(self.top));
        }
        self.room.is_settled()
    }

    /// Takes the pages of revoked sub-buffers. Returns their bytes. To be called when all sections that were under way
    /// at the revocation have ended.
    ///
    /// # Errors
    /// The system call's error.
    pub fn reclaim(&mut self, program: &Program) -> io::Result<u64> {
        // Before the head is loaded: writers of the shared ring that have ended since the revocation have stored it.
        if self.has_writers() {
            return Ok(0);
        }
        let (bounds, top, low) = self.limits();
        let Some(Use { head, is_whole: false, .. }) = self.usage() else { return Ok(0) };
        let next = head.seqno().after(2);
        let first = if (next.since(bounds.open) as i32) > 0 { next } else { bounds.open };
        let revoked = top.since(first) as i32;
        if revoked <= 0 {
            return Ok(0);
        }
        self.top = first;
        self.room.end_at(Some(first));
        // This includes all sub-buffers that should have no pages: a program that locks its memory (mlockall(2)) makes
        // them present everywhere.
        self.punch(program, first, self.geometry.count - first.since(low))?;
        Ok(u64::from(revoked as u32) << self.geometry.bits)
    }

    /// Returns true if a writer of the shared ring is at work. If there is none, writers that come later see the
    /// revocation.
    fn has_writers(&self) -> bool {
        // ORDER(control:K) pairs with commit:E and commit:F: `revoke` wrote, this fences and reads: if it misses a
        // writer, then that writer sees the revocation, or is gone.
        fence(SeqCst);
        self.room.header().writers.load(Acquire) != 0
    }

    fn punch(&self, program: &Program, seqno: Seqno, seqnos: u32) -> io::Result<u64> {
        program.punch(&data_parts(self.geometry, self.data, seqno, seqnos))?;
        Ok(u64::from(seqnos) << self.geometry.bits)
    }
}

/// The parts of a file with the sub-buffers of these sequence numbers.
pub(super) fn data_parts(geometry: Geometry, data: u64, seqno: Seqno, seqnos: u32) -> Vec<FilePart> {
    let bytes = |sub_buffers: u32| u64::from(sub_buffers) << geometry.bits;
    let runs = runs(geometry.count, seqno, seqnos);
    let part =
        |run: Range<u32>| FilePart { offset: data + bytes(run.start), length: bytes(run.end - run.start) };
    runs.map(part).collect()
}

/// The parts of a file with the commit words of these sub-buffers, in whole pages, which hold words of other
/// sub-buffers, too.
pub(super) fn word_parts(
    geometry: Geometry,
    commits: Option<u64>,
    seqno: Seqno,
    seqnos: u32,
) -> Vec<FilePart> {
    let Some(commits) = commits else { return Vec::new() };
    let (page, stride) = (PAGE as u64, geometry.commit_stride() as u64);
    let pages = |run: Range<u32>| {
        let offset = (commits + u64::from(run.start) * stride) / page * page;
        let length = (commits + u64::from(run.end) * stride).next_multiple_of(page) - offset;
        FilePart { offset, length }
    };
    runs(geometry.count, seqno, seqnos).map(pages).collect()
}

/// The indices of the sub-buffers with these sequence numbers, at most `count` of them, in one range or, where they
/// wrap, two.
fn runs(count: u32, seqno: Seqno, seqnos: u32) -> impl Iterator<Item = Range<u32>> {
    let start = seqno.entry(count);
    let first = seqnos.min(count - start);
    [start..start + first, 0..seqnos - first].into_iter().filter(|run| !run.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(offset: u64, length: u64) -> FilePart {
        FilePart { offset, length }
    }

    #[test]
    fn sequence_numbers_that_go_round_lie_in_two_parts() {
        let geometry = Geometry::new(16 << 10, 4).unwrap();
        assert_eq!(
            data_parts(geometry, 4096, Seqno(6), 3),
            [part(4096 + (32 << 10), 32 << 10), part(4096, 16 << 10)]
        );
        assert_eq!(data_parts(geometry, 4096, Seqno(4), 4), [part(4096, 64 << 10)]);
        assert!(data_parts(geometry, 4096, Seqno(5), 0).is_empty());
        let all = word_parts(geometry, Some(8192), Seqno(u32::MAX), 2);
        let words = geometry.commit_stride() as u64;
        assert_eq!(all[0].offset, (8192 + 3 * words) / 4096 * 4096);
        assert!(all[0].offset + all[0].length >= 8192 + 4 * words && all[1].offset == 8192);
        assert!(word_parts(geometry, None, Seqno(u32::MAX), 2).is_empty());
    }
}
