//! Pages of the kernel's trace buffers, taken apart into records.
//!
//! A page is a time, the size of what follows with two flags about loss, and entries. An entry starts with 32
//! bits: a type or length of 5 bits and 27 bits of time since the entry before, in ticks of the trace clock.
//! Bytes are not trusted: nothing here panics, whatever they are.

use crate::PageLayout;

/// One page of a trace buffer.
///
/// ```
/// use sordino_tracefs::{Missed, Page, PageLayout};
/// let mut bytes = vec![0; 4096];
/// bytes[..8].copy_from_slice(&1_000u64.to_ne_bytes()); // time
/// bytes[8..16].copy_from_slice(&8u64.to_ne_bytes()); // size of what is used
/// bytes[16..20].copy_from_slice(&(5u32 << 5 | 1).to_ne_bytes()); // five ticks later, one word
/// bytes[20..24].copy_from_slice(b"word");
/// let page = Page::parse(&bytes, &PageLayout::of_size(4096)?)?;
/// assert_eq!(page.missed, Missed::None);
/// let record = page.records().next().unwrap()?;
/// assert_eq!((record.ticks, record.bytes), (1_005, &b"word"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// The time of the first entry, in ticks of the trace clock.
    pub ticks: u64,
    /// The records lost before this page.
    pub missed: Missed,
    /// The entries.
    data: &'a [u8],
    /// Where they lie in the page, for messages.
    start: usize,
}

/// How many records are missing before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// None.
    None,
    /// As many.
    Count(u64),
    /// Some; the page was too full to say how many.
    Unknown,
}

/// One record and when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// In ticks of the trace clock.
    pub ticks: u64,
    /// The event's fields, the common ones first; may be followed by up to three bytes of padding.
    pub bytes: &'a [u8],
}

/// Bytes that no kernel writes. What follows in the page can't be told from it and is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The page is cut off, or of another size.
    #[error("page of {found} bytes, expected {expected}")]
    Size {
        /// As the layout says.
        expected: usize,
        /// As there are.
        found: usize,
    },
    /// The page claims to hold more than it has room for.
    #[error("page claims {commit} bytes of records in {room}")]
    Commit {
        /// What it claims.
        commit: u32,
        /// What it has.
        room: usize,
    },
    /// An entry does not end where the records do.
    #[error("entry of {length} bytes at byte {offset} of a page whose records end at {end}")]
    Entry {
        /// Where it starts in the page.
        offset: usize,
        /// What it claims, with its header.
        length: u64,
        /// Where the records end.
        end: usize,
    },
    /// A record has no room for the fields of its event.
    #[error("record of {length} bytes, too short for a field that ends at {end}")]
    Short {
        /// The record's length.
        length: usize,
        /// Where the field ends.
        end: usize,
    },
    /// A record has more values in one field than a sequence takes.
    #[error("field of {0} values, more than 65535")]
    Long(usize),
    /// No event has the number that a record starts with.
    #[error("record of the unknown event number {0}")]
    UnknownEvent(u16),
}

/// The kernel's flags in the page's size: records are missing before it, and it ends with their count.
const MISSED: u32 = 1 << 31;
const MISSED_STORED: u32 = 1 << 30;

/// The types of entries that are no record; smaller numbers are a record's length in words.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

impl<'a> Page<'a> {
    /// Reads the head of the page that `bytes` are.
    ///
    /// # Errors
    /// [`Damage`] if it has another size or claims more records than fit.
    pub fn parse(bytes: &'a [u8], layout: &PageLayout) -> Result<Self, Damage> {
        let size = Damage::Size { expected: layout.page_size(), found: bytes.len() };
        if bytes.len() != layout.page_size() {
            return Err(size);
        }
        let ticks = word64(bytes, layout.timestamp).ok_or(size)?;
        // The upper half of a 64-bit one tells nothing: the kernel adds its flags as a negative integer.
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

    /// The page's records in order. Ends after the first damage.
    pub fn records(&self) -> Records<'a> {
        Records { data: self.data, start: self.start, position: 0, ticks: self.ticks }
    }
}

/// The records of a [`Page`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    data: &'a [u8],
    start: usize,
    position: usize,
    ticks: u64,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Damage>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self.data.get(self.position..).filter(|rest| !rest.is_empty())?;
            let Some(header) = word32(rest, 0) else { return self.damage(4) };
            let (kind, delta) = split(header);
            // Anything but a short record is followed by a word.
            let word = if (1..PADDING).contains(&kind) { Some(0) } else { word32(rest, 4) };
            let (from, to) = match (kind, word) {
                (PADDING, _) if delta == 0 => {
                    self.position = self.data.len();
                    return None;
                }
                (_, None) => return self.damage(8),
                (TIME_EXTEND, Some(high)) => {
                    self.ticks = self.ticks.saturating_add(u64::from(high) << 27 | u64::from(delta));
                    self.position += 8;
                    continue;
                }
                (TIME_STAMP, Some(high)) => {
                    self.ticks = absolute(u64::from(high) << 27 | u64::from(delta), self.ticks);
                    self.position += 8;
                    continue;
                }
                // The length of a long record, or of one that was discarded, counts this word.
                (0 | PADDING, Some(length)) => (8, u64::from(length) + 4),
                (words, Some(_)) => (4, u64::from(words) * 4 + 4),
            };
            let Some(bytes) = usize::try_from(to).ok().and_then(|to| rest.get(from..to)) else {
                return self.damage(to);
            };
            self.position += from + bytes.len();
            // A discarded record that came with no time since the one before was given one tick: not zero,
            // which would end the page.
            if kind != PADDING || delta != 1 {
                self.ticks = self.ticks.saturating_add(u64::from(delta));
            }
            if kind != PADDING {
                return Some(Ok(Record { ticks: self.ticks, bytes }));
            }
        }
    }
}

impl<'a> Records<'a> {
    /// Ends with the entry at the current position, which claims `length` bytes.
    #[cold]
    fn damage(&mut self, length: u64) -> Option<Result<Record<'a>, Damage>> {
        let (offset, end) = (self.start + self.position, self.start + self.data.len());
        self.position = self.data.len();
        Some(Err(Damage::Entry { offset, length, end }))
    }
}

/// The type and time of an entry's header, which is a C bit-field.
fn split(header: u32) -> (u32, u32) {
    if cfg!(target_endian = "big") { (header >> 27, header & 0x7ff_ffff) } else { (header & 31, header >> 5) }
}

/// An absolute time of 59 bits, with the upper five of the time before it.
fn absolute(stamp: u64, before: u64) -> u64 {
    const BITS: u32 = 59;
    let stamp = stamp | before >> BITS << BITS;
    if stamp < before { stamp.saturating_add(1 << BITS) } else { stamp }
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests;
