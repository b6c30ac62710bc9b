//! Parser for the pages of the kernel's trace buffers.
//!
//! A page consists of a timestamp, the size of its entries with two flags about loss, and the entries. An entry starts
//! with 32 bits: a type or length of 5 bits, and 27 bits of time since the entry before, in ticks of the trace clock.
//! The bytes are untrusted: no content causes a panic.

use crate::PageLayout;
use sordino_event::Ticks;

/// One page of a trace buffer.
///
/// ```
/// use sordino_event::Ticks;
/// use sordino_tracefs::{Missed, Page, PageLayout};
/// let mut bytes = vec![0; 4096];
/// bytes[..8].copy_from_slice(&1_000u64.to_ne_bytes()); // time
/// bytes[8..16].copy_from_slice(&8u64.to_ne_bytes()); // size of the entries
/// bytes[16..20].copy_from_slice(&(5u32 << 5 | 1).to_ne_bytes()); // five ticks later, one word
/// bytes[20..24].copy_from_slice(b"word");
/// let page = Page::parse(&bytes, &PageLayout::of_size(4096)?)?;
/// assert_eq!(page.missed, Missed::None);
/// let record = page.records().next().unwrap()?;
/// assert_eq!((record.ticks, record.bytes), (Ticks(1_005), &b"word"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Timestamp of the first entry by the trace clock.
    pub ticks: Ticks,
    /// Records lost before this page.
    pub missed: Missed,
    /// Bytes of the entries.
    data: &'a [u8],
    /// Offset of the entries in the page, for messages.
    start: usize,
}

/// Number of records missing before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// No record is missing.
    None,
    /// This number of records is missing.
    Count(u64),
    /// Some records are missing; the page had no room for their number.
    Unknown,
}

/// A record with its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelRecord<'a> {
    /// Timestamp by the trace clock.
    pub ticks: Ticks,
    /// The event's fields, the common ones first; up to three bytes of padding may follow.
    pub bytes: &'a [u8],
}

/// Bytes that no kernel writes. The rest of the page cannot be parsed then and is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The page is truncated or has another size.
    #[error("page of {found} bytes, expected {expected}")]
    Size {
        /// Size according to the layout, in bytes.
        expected: usize,
        /// Number of bytes that were given.
        found: usize,
    },
    /// The page claims more records than it has room for.
    #[error("page claims {commit} bytes of records in {room}")]
    Commit {
        /// Claimed size of the records in bytes.
        commit: u32,
        /// Room for records in bytes.
        room: usize,
    },
    /// An entry extends beyond the end of the records.
    #[error("entry of {length} bytes at byte {offset} of a page whose records end at {end}")]
    Entry {
        /// Offset of the entry in the page.
        offset: usize,
        /// Claimed length in bytes, header included.
        length: u64,
        /// Offset of the end of the records.
        end: usize,
    },
    /// A record has no room for the fields of its event.
    #[error("record of {length} bytes, too short for a field that ends at {end}")]
    Short {
        /// Length of the record in bytes.
        length: usize,
        /// Offset of the field's end.
        end: usize,
    },
    /// A field of a record has more values than a sequence can hold.
    #[error("field of {0} values, more than 65535")]
    Long(usize),
    /// A record starts with a number that no event has.
    #[error("record of the unknown event number {0}")]
    UnknownEvent(u16),
}

/// The kernel's flags in the page's size: records are missing before the page, and their number follows its records.
const MISSED: u32 = 1 << 31;
const MISSED_STORED: u32 = 1 << 30;

/// Types of entries that are not records; smaller numbers are a record's length in words.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

impl<'a> Page<'a> {
    /// Parses the header of a page.
    ///
    /// # Errors
    /// [`Damage`] if the page has another size or claims more records than fit.
    pub fn parse(bytes: &'a [u8], layout: &PageLayout) -> Result<Self, Damage> {
        let size = Damage::Size { expected: layout.page_size(), found: bytes.len() };
        if bytes.len() != layout.page_size() {
            return Err(size);
        }
        let ticks = word64(bytes, layout.timestamp).map(Ticks).ok_or(size)?;
        // Only the lower half counts: the kernel adds its flags as a negative integer.
        let commit = match layout.commit_is_64_bit {
            true => word64(bytes, layout.commit).map(|commit| commit as u32),
            false => word32(bytes, layout.commit),
        };
        let commit = commit.ok_or(size)?;
        let used = commit & !(MISSED | MISSED_STORED);
        let too_much = Damage::Commit { commit: used, room: layout.room };
        let room = &bytes[layout.data..];
        let (data, behind) = room.split_at_checked(used as usize).ok_or(too_much)?;
        let missed = match (commit & MISSED != 0, commit & MISSED_STORED != 0) {
            (false, _) => Missed::None,
            (true, false) => Missed::Unknown,
            (true, true) => {
                let count = match layout.commit_is_64_bit {
                    true => word64(behind, 0),
                    false => word32(behind, 0).map(u64::from),
                };
                count.map_or(Missed::Unknown, Missed::Count)
            }
        };
        Ok(Self { ticks, missed, data, start: layout.data })
    }

    /// Returns the page's records in order. Iteration ends after the first damage.
    pub fn records(&self) -> Records<'a> {
        Records { data: self.data, start: self.start, position: 0, ticks: self.ticks }
    }
}

/// Iterator over the records of a [`Page`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    data: &'a [u8],
    start: usize,
    position: usize,
    ticks: Ticks,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<KernelRecord<'a>, Damage>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self.data.get(self.position..).filter(|rest| !rest.is_empty())?;
            let Some(header) = word32(rest, 0) else { return self.damage(4) };
            let (kind, delta) = split(header);
            // All entries but short records have a second word.
            let word = if (1..PADDING).contains(&kind) { Some(0) } else { word32(rest, 4) };
            let (from, to) = match (kind, word) {
                (PADDING, _) if delta == 0 => {
                    self.position = self.data.len();
                    return None;
                }
                (_, None) => return self.damage(8),
                (TIME_EXTEND, Some(high)) => {
                    self.ticks = self.ticks.after(u64::from(high) << 27 | u64::from(delta));
                    self.position += 8;
                    continue;
                }
                (TIME_STAMP, Some(high)) => {
                    self.ticks = absolute(u64::from(high) << 27 | u64::from(delta), self.ticks);
                    self.position += 8;
                    continue;
                }
                // This word is included in the length of a long record, and of a discarded one.
                (0 | PADDING, Some(length)) => (8, u64::from(length) + 4),
                (words, Some(_)) => (4, u64::from(words) * 4 + 4),
            };
            let Some(bytes) = usize::try_from(to).ok().and_then(|to| rest.get(from..to)) else {
                return self.damage(to);
            };
            self.position += from + bytes.len();
            // The kernel gives a discarded record without time since the one before one tick, because zero would end
            // the page.
            if kind != PADDING || delta != 1 {
                self.ticks = self.ticks.after(delta.into());
            }
            if kind != PADDING {
                return Some(Ok(KernelRecord { ticks: self.ticks, bytes }));
            }
        }
    }
}

impl<'a> Records<'a> {
    /// Ends the iteration with damage at the current entry, which claims `length` bytes.
    #[cold]
    fn damage(&mut self, length: u64) -> Option<Result<KernelRecord<'a>, Damage>> {
        let (offset, end) = (self.start + self.position, self.start + self.data.len());
        self.position = self.data.len();
        Some(Err(Damage::Entry { offset, length, end }))
    }
}

/// Splits an entry's header, which is a C bit-field, into type and time.
fn split(header: u32) -> (u32, u32) {
    if cfg!(target_endian = "big") { (header >> 27, header & 0x7ff_ffff) } else { (header & 31, header >> 5) }
}

/// Completes an absolute time of 59 bits with the upper five bits of the time before.
fn absolute(timestamp: u64, before: Ticks) -> Ticks {
    const BITS: u32 = 59;
    let timestamp = Ticks(timestamp | before.0 >> BITS << BITS);
    if timestamp < before { timestamp.after(1 << BITS) } else { timestamp }
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests;
