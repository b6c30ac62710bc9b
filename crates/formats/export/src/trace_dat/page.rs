//! Pages of the kernel's ring buffer.

use sordino_event::Time;

/// Bytes of a page, of its header, and of its events; the rest has the number of lost records.
pub(super) const PAGE: usize = 1 << 16;
pub(super) const HEADER: usize = 16;
const ROOM: usize = PAGE - HEADER - size_of::<u64>();
/// Maximum size of a record in bytes: with two words for its time and two for its length, it fills a page.
pub(super) const RECORD_MAX: usize = ROOM - 16;
/// Flags in a page's length: records are missing before it, and their number stands behind the events.
const MISSED: u64 = 1 << 31;
const STORED: u64 = 1 << 30;
/// The type of an entry that extends the time of the next one, and the bits of time in an entry.
const TIME_EXTEND: u32 = 30;
const TIME_BITS: u32 = 27;
/// The greatest length in words that an entry's type can have.
const WORDS_MAX: usize = 28;

/// The pages of a CPU: the one that is being filled, and the number of those before.
#[derive(Debug, Default)]
pub(super) struct CpuPages {
    /// The events of the page.
    events: Vec<u8>,
    begin: u64,
    last: u64,
    written: u64,
    /// The number of records lost in front of the page; `None` in it if it is not known.
    lost: Option<Option<u64>>,
}

impl CpuPages {
    /// Returns the size of all pages that were returned, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.written * PAGE as u64
    }

    /// Appends a record of at most [`RECORD_MAX`] bytes. Returns the page before, if the record begins another.
    pub(super) fn append(&mut self, time: Time, record: &[u8]) -> Option<Vec<u8>> {
        let time = u64::try_from(time.0).unwrap_or(0).max(self.last);
        let padded = record.len().next_multiple_of(4);
        let is_full = self.events.len() + padded + 16 > ROOM;
        // A difference of more than 2^59 ns does not fit an entry; a page has the time of its first record.
        let is_far = (time - self.last) >> TIME_BITS > u32::MAX.into();
        let full = if is_full || is_far { self.close() } else { None };
        if self.events.is_empty() {
            (self.begin, self.last) = (time, time);
        }
        let delta = time - self.last;
        let (low, high) = ((delta & ((1 << TIME_BITS) - 1)) as u32, delta >> TIME_BITS);
        let mut low_of_record = low;
        if high > 0 {
            self.entry(TIME_EXTEND, low);
            // Greater ones begin another page (see above).
            self.events.extend((high as u32).to_ne_bytes());
            low_of_record = 0;
        }
        self.last = time;
        match padded / 4 {
            words @ 1..=WORDS_MAX => self.entry(words as u32, low_of_record),
            _ => {
                self.entry(0, low_of_record);
                self.events.extend((padded as u32 + 4).to_ne_bytes());
            }
        }
        self.events.extend_from_slice(record);
        self.events.resize(self.events.len() + padded - record.len(), 0);
        full
    }

    fn entry(&mut self, kind: u32, delta: u32) {
        let entry = if cfg!(target_endian = "big") { kind << TIME_BITS | delta } else { kind | delta << 5 };
        self.events.extend(entry.to_ne_bytes());
    }

    /// Marks the next page as standing behind lost records. Returns the page before.
    pub(super) fn lose(&mut self, count: Option<u64>) -> Option<Vec<u8>> {
        let full = self.close();
        self.lost = Some(match self.lost {
            None => count,
            Some(before) => before.zip(count).map(|(before, count)| before.saturating_add(count)),
        });
        full
    }

    /// Ends the page, if it has events, and returns it.
    pub(super) fn close(&mut self) -> Option<Vec<u8>> {
        if self.events.is_empty() {
            return None;
        }
        let mut page = Vec::with_capacity(PAGE);
        page.extend(self.begin.to_ne_bytes());
        let mut length = self.events.len() as u64;
        let lost = self.lost.take();
        if let Some(count) = lost {
            length |= MISSED | if count.is_some() { STORED } else { 0 };
        }
        page.extend(length.to_ne_bytes());
        page.append(&mut self.events);
        lost.flatten().into_iter().for_each(|count| page.extend(count.to_ne_bytes()));
        page.resize(PAGE, 0);
        self.written += 1;
        Some(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn word(bytes: &[u8]) -> u32 {
        u32::from_ne_bytes(bytes[..4].try_into().unwrap())
    }

    fn long(bytes: &[u8]) -> u64 {
        u64::from_ne_bytes(bytes[..8].try_into().unwrap())
    }

    /// A record and its time.
    type Record = (u64, Vec<u8>);

    /// Returns the records of a page, and the number of lost records in front.
    fn read(page: &[u8]) -> (Vec<Record>, Option<Option<u64>>) {
        assert_eq!(page.len(), PAGE);
        let (mut time, commit) = (long(page), long(&page[8..]));
        let length = (commit & 0x00ff_ffff) as usize;
        let (mut rest, mut records) = (&page[HEADER..HEADER + length], Vec::new());
        while !rest.is_empty() {
            let (kind, delta) = (word(rest) & 31, u64::from(word(rest) >> 5));
            rest = &rest[4..];
            time += delta;
            if kind == TIME_EXTEND {
                time += u64::from(word(rest)) << TIME_BITS;
                rest = &rest[4..];
                continue;
            }
            let bytes = match kind {
                0 => {
                    let bytes = word(rest) as usize - 4;
                    rest = &rest[4..];
                    bytes
                }
                words => 4 * words as usize,
            };
            records.push((time, rest[..bytes].to_vec()));
            rest = &rest[bytes..];
        }
        let count = (commit & STORED != 0).then(|| long(&page[HEADER + length..]));
        (records, (commit & MISSED != 0).then_some(count))
    }

    proptest! {
        #[test]
        #[cfg(target_endian = "little")]
        fn records_come_back_with_their_times(
            records in proptest::collection::vec(
                (prop_oneof![0..100_u64, Just((1 << 27) - 1), Just(1 << 27), 0..1_u64 << 50],
                 prop_oneof![4..300_usize, RECORD_MAX - 8..RECORD_MAX]),
                1..60,
            ),
            begin in 0..1_u64 << 60,
        ) {
            let (mut pages, mut read_back) = (CpuPages::default(), Vec::new());
            let (mut time, mut expected) = (begin, Vec::new());
            for (number, (delta, length)) in records.into_iter().enumerate() {
                time += delta;
                let record = vec![number as u8; length];
                let page = pages.append(Time(time as i64), &record);
                page.iter().for_each(|page| read_back.extend(read(page).0));
                expected.push((time, record));
            }
            pages.close().iter().for_each(|page| read_back.extend(read(page).0));
            prop_assert_eq!(read_back.len(), expected.len());
            for ((time, record), (at, written)) in read_back.into_iter().zip(expected) {
                prop_assert_eq!((time, &record[..written.len()]), (at, &written[..]));
                prop_assert!(record[written.len()..].iter().all(|byte| *byte == 0));
            }
        }
    }

    #[test]
    fn a_time_that_is_far_from_the_one_before_begins_a_page() {
        let (mut pages, times) = (CpuPages::default(), [1, 1 << 59, (1 << 60) + 7, i64::MAX]);
        let mut full: Vec<_> = times.iter().filter_map(|time| pages.append(Time(*time), &[0; 8])).collect();
        full.extend(pages.close());
        let read: Vec<Vec<u64>> =
            full.iter().map(|page| read(page).0.iter().map(|(time, _)| *time).collect()).collect();
        assert_eq!(read, [vec![1, 1 << 59], vec![(1 << 60) + 7], vec![i64::MAX as u64]]);
    }

    #[test]
    fn a_loss_is_counted_in_the_page_behind_it() {
        let mut pages = CpuPages::default();
        assert_eq!(pages.lose(Some(3)), None);
        assert_eq!(pages.lose(Some(4)), None);
        pages.append(Time(1), &[0; 8]);
        let first = pages.lose(None).unwrap();
        pages.append(Time(2), &[0; 8]);
        let second = pages.close().unwrap();
        pages.append(Time(3), &[0; 8]);
        let third = pages.close().unwrap();
        assert_eq!([first, second, third].map(|page| read(&page).1), [Some(Some(7)), Some(None), None]);
        assert_eq!(pages.bytes(), 3 * PAGE as u64);
    }
}
