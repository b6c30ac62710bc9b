use super::*;
use proptest::prelude::*;

/// A page that is being written in the kernel's format.
struct Writer {
    data: Vec<u8>,
    flags: u32,
    behind: Vec<u8>,
}

impl Writer {
    fn new() -> Self {
        Self { data: Vec::new(), flags: 0, behind: Vec::new() }
    }

    fn words(mut self, words: &[u32]) -> Self {
        self.data.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        self
    }

    /// Appends a record of one word.
    fn record(self, delta: u32, word: u32) -> Self {
        self.words(&[header(1, delta), word])
    }

    fn page(&self, size: usize) -> Vec<u8> {
        let mut bytes = 1_000u64.to_ne_bytes().to_vec();
        // The kernel adds the flag as a negative integer.
        bytes.extend((self.data.len() as i64 + i64::from(self.flags as i32)).to_ne_bytes());
        bytes.extend(&self.data);
        bytes.extend(&self.behind);
        bytes.resize(size, 0);
        bytes
    }

    fn read(&self) -> Vec<Result<(u64, Vec<u8>), Damage>> {
        let (bytes, layout) = (self.page(4096), PageLayout::of_size(4096).unwrap());
        let records = Page::parse(&bytes, &layout).unwrap().records();
        records.map(|record| record.map(|record| (record.ticks.0, record.bytes.to_vec()))).collect()
    }
}

fn header(kind: u32, delta: u32) -> u32 {
    if cfg!(target_endian = "big") { kind << 27 | delta } else { delta << 5 | kind }
}

fn word(word: u32) -> Vec<u8> {
    word.to_ne_bytes().to_vec()
}

#[test]
fn time_adds_up_over_every_kind_of_entry() {
    let long: Vec<u32> = [header(0, 6), 4 + 4 * 40].into_iter().chain(0..40).collect();
    let bytes: Vec<u8> = (0..40u32).flat_map(u32::to_ne_bytes).collect();
    let writer = Writer::new()
        .record(0, 1)
        .record(5, 2)
        .words(&long)
        .words(&[header(TIME_EXTEND, 3), 2]) // two times 2^27 and three ticks
        .record(0, 3)
        .words(&[header(PADDING, 7), 8, 0]) // discarded, with its time
        .record(2, 4)
        .words(&[header(PADDING, 1), 4]) // discarded, had no time
        .record(0, 5)
        .words(&[header(TIME_STAMP, 9), 100])
        .record(1, 6);
    let later = 1_011 + (2 << 27) + 3;
    let absolute = (100 << 27) + 9;
    assert_eq!(
        writer.read(),
        [
            Ok((1_000, word(1))),
            Ok((1_005, word(2))),
            Ok((1_011, bytes)),
            Ok((later, word(3))),
            Ok((later + 9, word(4))),
            Ok((later + 9, word(5))),
            Ok((absolute + 1, word(6))),
        ]
    );
}

#[test]
fn an_absolute_time_keeps_the_upper_bits_of_the_one_before() {
    let top = 3u64 << 59;
    assert_eq!(absolute(7, Ticks(top | 5)), Ticks(top | 7));
    // The 59 bits have wrapped around.
    assert_eq!(absolute(7, Ticks(top | 9)), Ticks((4 << 59) | 7));
    assert_eq!(absolute(7, Ticks(5)), Ticks(7));
    assert_eq!(absolute(0, Ticks(u64::MAX)), Ticks(u64::MAX));
}

#[test]
fn padding_without_time_ends_the_page() {
    assert_eq!(Writer::new().record(1, 1).words(&[header(PADDING, 0), 99, 1]).read(), [Ok((1_001, word(1)))]);
    assert_eq!(Writer::new().read(), []);
}

#[test]
fn a_page_reports_what_is_missing_before_it() {
    let missed = |flags, behind: &[u8], size| {
        let writer = Writer { flags, behind: behind.to_vec(), ..Writer::new().record(0, 1) };
        let bytes = writer.page(size);
        Page::parse(&bytes, &PageLayout::of_size(size as u32).unwrap()).unwrap().missed
    };
    let count = 77u64.to_ne_bytes();
    assert_eq!(missed(0, &count, 4096), Missed::None);
    assert_eq!(missed(MISSED, &count, 4096), Missed::Unknown);
    assert_eq!(missed(MISSED | MISSED_STORED, &count, 65536), Missed::Count(77));
    // There is no room for the count that the flag announces.
    assert_eq!(missed(MISSED | MISSED_STORED, &[], 16 + 8), Missed::Unknown);
}

#[test]
fn pages_of_32_bit_kernels_are_read() {
    let header_page = "field: u64 timestamp; offset:0; size:8; signed:0;
        field: local_t commit; offset:8; size:4; signed:1;
        field: char data; offset:12; size:4084; signed:0;";
    let layout = PageLayout::parse(header_page, "").unwrap();
    let mut bytes = 1_000u64.to_ne_bytes().to_vec();
    bytes.extend((8 | MISSED | MISSED_STORED).to_ne_bytes());
    bytes.extend([header(1, 2).to_ne_bytes(), *b"word", 5u32.to_ne_bytes()].as_flattened());
    bytes.resize(4096, 0);
    let page = Page::parse(&bytes, &layout).unwrap();
    assert_eq!(page.missed, Missed::Count(5));
    assert_eq!(page.records().next(), Some(Ok(KernelRecord { ticks: Ticks(1_002), bytes: b"word" })));
}

#[test]
fn impossible_pages_are_refused() {
    let layout = PageLayout::of_size(4096).unwrap();
    let parse = |bytes: &[u8]| Page::parse(bytes, &layout).unwrap_err();
    assert_eq!(parse(&[]), Damage::Size { expected: 4096, found: 0 });
    assert_eq!(parse(&[0; 4097]), Damage::Size { expected: 4096, found: 4097 });
    for commit in [4081, 1 << 29, u32::MAX] {
        let bytes = Writer { flags: commit, ..Writer::new() }.page(4096);
        assert!(matches!(parse(&bytes), Damage::Commit { room: 4080, .. }), "{commit}");
    }
}

#[test]
fn an_entry_that_goes_beyond_the_records_ends_them() {
    for (words, length) in [
        (&[header(2, 0), 0][..], 12),
        (&[header(28, 0)], 116),
        (&[header(0, 0)], 8),
        (&[header(0, 0), 100], 104),
        (&[header(0, 0), 0], 4),
        (&[header(0, 0), u32::MAX], u64::from(u32::MAX) + 4),
        (&[header(PADDING, 1)], 8),
        (&[header(PADDING, 1), 100], 104),
        (&[header(PADDING, 1), 0], 4),
        (&[header(TIME_EXTEND, 1)], 8),
        (&[header(TIME_STAMP, 1)], 8),
    ] {
        let found = Writer::new().record(1, 1).words(words).read();
        let damage = Damage::Entry { offset: 24, length, end: 24 + 4 * words.len() };
        assert_eq!(found, [Ok((1_001, word(1))), Err(damage)], "{words:?}");
    }
    let mut cut = Writer::new().record(1, 1);
    cut.data.push(0);
    assert_eq!(cut.read()[1], Err(Damage::Entry { offset: 24, length: 4, end: 25 }));
}

#[test]
fn time_does_not_overflow() {
    let found = Writer::new()
        .words(&[header(TIME_STAMP, 0x7ff_ffff), u32::MAX])
        .words(&[header(TIME_EXTEND, 0x7ff_ffff), u32::MAX].repeat(40))
        .record(1, 1)
        .read();
    assert_eq!(found, [Ok((u64::MAX, word(1)))]);
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(
        words in proptest::collection::vec(any::<u32>(), 0..64), commit in 0..300u64, flags in 0..4u64,
    ) {
        let layout = PageLayout::of_size(272).unwrap();
        let mut bytes = 5u64.to_ne_bytes().to_vec();
        bytes.extend((commit | flags << 30).to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.resize(272, 0);
        if let Ok(page) = Page::parse(&bytes, &layout) {
            // An entry has at least four bytes, and records do not overlap.
            let records: Vec<_> = page.records().collect();
            prop_assert!(records.len() <= 64);
            prop_assert!(records.iter().flatten().map(|record| record.bytes.len()).sum::<usize>() <= 256);
        }
    }
}
