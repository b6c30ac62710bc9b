//! The reader's output: sub-buffers in place, and copies of them.

use super::Reader;
use crate::layout::{PACKET_HEADER, RECORD_HEADER};
use sordino_event::Ticks;
use sordino_percpu::primitive::plain;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Records that were lost since the ring began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// All records that were lost.
    pub total: u64,
    /// Records that were too large for a sub-buffer.
    pub too_large: u64,
}

impl Lost {
    /// The same count at an earlier moment, when `total` records were lost: too large are at most as many as by now are
    /// known.
    pub(super) fn when(self, total: u64) -> Self {
        Self { total, too_large: self.too_large.min(total) }
    }
}

/// The contents of a packet's header that describe its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// Bytes of header room and records; at least [`PACKET_HEADER`], at most the sub-buffer's size.
    pub end: u32,
    /// The first record's timestamp; `last_timestamp` if there is no record.
    pub first_timestamp: Ticks,
    /// A timestamp not before the last record's, and not after the next packet's first.
    pub last_timestamp: Ticks,
    /// Records lost by the packet's end.
    pub lost: Lost,
}

impl Content {
    /// The description of a packet whose first record has the timestamp `first`.
    pub(super) fn new(end: u32, first: Option<Ticks>, last: Ticks, lost: Lost) -> Self {
        let first_timestamp = first.unwrap_or(last);
        Self { end, first_timestamp, last_timestamp: last.max(first_timestamp), lost }
    }
}

/// One sub-buffer that the reader has got and not put.
#[derive(Debug)]
pub struct SubBuffer<'a> {
    /// The whole sub-buffer; its first [`PACKET_HEADER`] bytes are for the packet's header.
    pub(super) bytes: *mut u8,
    pub(super) size: usize,
    /// The description of its records.
    pub content: Content,
    pub(super) _reader: std::marker::PhantomData<&'a mut Reader>,
}

impl SubBuffer<'_> {
    /// Writes the packet's header into its room.
    ///
    /// # Panics
    /// Panics if `header` is longer than the room.
    pub fn set_header(&mut self, header: &[u8]) {
        assert!(header.len() <= PACKET_HEADER);
        // SAFETY: `header` is at most `PACKET_HEADER` bytes long (asserted above), and the mapped sub-buffer is larger;
        // a program that writes there at the same time spoils its own packet.
        unsafe { plain::copy_in(self.bytes, header.as_ptr(), header.len()) };
    }

    /// The sub-buffer's size in bytes: the most that may be written.
    pub fn size(&self) -> usize {
        self.size
    }

    /// A copy of the header room and the records.
    pub fn copy(&self) -> Vec<u8> {
        let mut copy = vec![0; self.content.end as usize];
        // SAFETY: `end` is at most the sub-buffer's size; bytes that change meanwhile are arbitrary bytes.
        unsafe { plain::copy_out(copy.as_mut_ptr(), self.bytes, copy.len()) };
        copy
    }
}

/// The largest number of sub-buffers for [`write()`].
pub const MOST_IN_A_WRITE: usize = 64;

/// Writes the given number of first bytes of each sub-buffer, one behind the other, to `file` at `offset`, by one
/// system call. Returns the number of bytes that the kernel took. Allocates nothing.
///
/// The bytes go from the shared memory to the kernel without a check on the way: a program that changes them meanwhile
/// spoils its own packet.
///
/// # Errors
/// The system call's error.
///
/// # Panics
/// Panics if a length exceeds its sub-buffer, or if there are more than [`MOST_IN_A_WRITE`] parts.
pub fn write(
    sub_buffers: &[(&SubBuffer<'_>, usize)],
    file: BorrowedFd<'_>,
    offset: u64,
) -> io::Result<usize> {
    let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MOST_IN_A_WRITE];
    for (part, &(sub_buffer, length)) in parts[..sub_buffers.len()].iter_mut().zip(sub_buffers) {
        assert!(length <= sub_buffer.size);
        *part = libc::iovec { iov_base: sub_buffer.bytes.cast(), iov_len: length };
    }
    let offset = i64::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    // SAFETY: `length` bytes of each sub-buffer are mapped (asserted above), and stay mapped while it is borrowed.
    let written =
        unsafe { libc::pwritev(file.as_raw_fd(), parts.as_ptr(), sub_buffers.len() as i32, offset) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// A copy of records, in memory of the reader's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Room for the packet's header, [`PACKET_HEADER`] bytes, and the records, one after the other.
    pub bytes: Vec<u8>,
    /// The description of its records.
    pub content: Content,
}

impl Packet {
    /// Records that were lost before its first one, computed from that one, which has the low bits of the count.
    pub fn lost_before(&self) -> Lost {
        let lost = self.content.lost;
        let before = word(&self.bytes, PACKET_HEADER + 8).unwrap_or(lost.total);
        lost.when(lost.total.saturating_sub(lost.total.wrapping_sub(before) & 0xffff))
    }
}

/// The copy of one sub-buffer's records.
#[derive(Debug)]
pub(super) struct Copied {
    /// Room for a packet's header, and the records, as in a [`Packet`].
    pub(super) bytes: Vec<u8>,
    /// The words of the sub-buffer switch: its record's timestamp, and the number of lost records. `None` for a
    /// sub-buffer that is being filled, or unfinished.
    pub(super) left: Option<(Ticks, u64)>,
    /// Number of places where at least one record was reserved and is not finished.
    pub(super) unfinished: u64,
}

impl Copied {
    /// The first record's timestamp, if there is a record.
    pub(super) fn first_timestamp(&self) -> Option<Ticks> {
        word(&self.bytes, PACKET_HEADER).map(Ticks)
    }
}

/// A word of the first record, if there is one.
fn word(bytes: &[u8], offset: usize) -> Option<u64> {
    let has_record = bytes.len() >= PACKET_HEADER + RECORD_HEADER;
    let word = bytes.get(offset..offset + 8).filter(|_| has_record)?;
    Some(u64::from_ne_bytes(word.try_into().ok()?))
}

/// Makes packets of copies that come newest first; returns the oldest first. Behind the newest, the time is `now`, and
/// `lost` records were lost.
///
/// An incomplete sub-buffer has neither its end's time nor the count of lost records then. But its packet ends when the
/// next one begins, and each record has the low bits of the count of records lost before it.
pub(super) fn packets(newest_first: impl Iterator<Item = Copied>, now: Ticks, lost: Lost) -> Vec<Packet> {
    let (mut next, mut lost) = (now, lost);
    let packet = |copied: Copied| {
        let (last, total) = copied.left.unwrap_or((next, lost.total));
        lost = lost.when(total);
        let content = Content::new(copied.bytes.len() as u32, copied.first_timestamp(), last, lost);
        next = content.first_timestamp;
        let packet = Packet { bytes: copied.bytes, content };
        lost = packet.lost_before();
        packet
    };
    let mut packets: Vec<Packet> = newest_first.map(packet).collect();
    packets.reverse();
    packets
}
