//! Annotations of a program's threads: a table in the area, from which collectors that come late, or that overwrite old
//! records, get them, too.
//!
//! A cell is one thread's annotation under one name. That thread alone writes to it. It counts up before and after, so
//! that a reader of a cell detects a change during its copy. Cells of threads that have ended are used again if there
//! is no other.
//!
//! | label | partner | guarantee |
//! |---|---|---|
//! | `annotations:A`, storing a cell's words | `annotations:D`, loading them | if a load sees a new word, it sees that the count had become odd before |
//! | `annotations:B`, the count afterwards | `annotations:C`, the count before a copy | if the load sees the count, it sees the words |

use crate::layout::{ANNOTATION_NAME, ANNOTATION_TEXT, ANNOTATION_WORDS, AnnotationCell};
use sordino_percpu::primitive::{Acquire, Relaxed, Release};

/// An annotation of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotation<'a> {
    /// The thread's id in its program's pid namespace; not 0.
    pub tid: u32,
    /// The time of the annotation, in nanoseconds of `CLOCK_BOOTTIME`.
    pub since: u64,
    /// The annotation's name; a name longer than [`ANNOTATION_NAME`] is cut.
    pub name: &'a str,
    /// The value; a value longer than [`ANNOTATION_TEXT`] is cut. An empty one ends the annotation.
    pub text: &'a str,
}

impl Annotation<'_> {
    /// Cuts both texts, at characters, to the room that a cell has.
    pub fn cut(self) -> Self {
        let (name, text) =
            (self.name.floor_char_boundary(ANNOTATION_NAME), self.text.floor_char_boundary(ANNOTATION_TEXT));
        Self { name: &self.name[..name], text: &self.text[..text], ..self }
    }
}

/// A program's table of annotations.
#[derive(Clone, Copy, Debug)]
pub struct Annotations<'a> {
    cells: &'a [AnnotationCell],
}

/// A cell's words, copied, as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopiedAnnotation([u8; 8 * ANNOTATION_WORDS]);

/// Number of copies that are tried of a cell that changes meanwhile: its thread does little else then.
const TRIES: usize = 8;
/// Index of a cell's first word of the name, and of the text.
const NAME: usize = 2;
const TEXT: usize = NAME + ANNOTATION_NAME / 8;

impl<'a> Annotations<'a> {
    pub(crate) fn of(cells: &'a [AnnotationCell]) -> Self {
        Self { cells }
    }

    /// Stores an annotation; returns `false` if there is no room. `is_gone` returns true for a thread that has ended,
    /// and is called only if all cells are taken.
    ///
    /// Real-time: reads each cell at most twice; never waits. In a signal handler that interrupted the same thread
    /// here, the value that is being written stays.
    pub fn set(self, value: &Annotation<'_>, is_gone: impl Fn(u32) -> bool) -> bool {
        let words = words(value);
        let Some((cell, is_new)) = self.find(value.tid, &words, is_gone) else { return false };
        let count = cell.count.load(Relaxed);
        if !is_new && count & 1 != 0 {
            return true;
        }
        // Odd also if the cell's former owner was stopped in the middle.
        let odd = count | 1;
        cell.count.store(odd, Relaxed);
        for (word, now) in cell.words.iter().zip(words) {
            // ORDER(annotations:A) pairs with annotations:D: if the load sees the word, then it sees the odd count.
            word.store(now, Release);
        }
        // ORDER(annotations:B) pairs with annotations:C: if the load sees the count, then it sees the words.
        cell.count.store(odd.wrapping_add(1), Release);
        true
    }

    /// The thread's cell for the name, or one that it takes now. No cell becomes free again, so its own one does not
    /// lie behind a free one.
    fn find(
        self,
        tid: u32,
        words: &[u64; ANNOTATION_WORDS],
        is_gone: impl Fn(u32) -> bool,
    ) -> Option<(&'a AnnotationCell, bool)> {
        let is_its = |cell: &AnnotationCell| (NAME..TEXT).all(|at| cell.words[at].load(Relaxed) == words[at]);
        let take =
            |cell: &AnnotationCell, owner| cell.owner.compare_exchange(owner, tid, Relaxed, Relaxed).is_ok();
        let cells = self.cells.iter().cycle().skip(first(words, self.cells.len())).take(self.cells.len());
        for cell in cells.clone() {
            match cell.owner.load(Relaxed) {
                0 if take(cell, 0) => return Some((cell, true)),
                owner if owner == tid && is_its(cell) => return Some((cell, false)),
                _ => {}
            }
        }
        let take_over = |cell: &&AnnotationCell| {
            let owner = cell.owner.load(Relaxed);
            is_gone(owner) && take(cell, owner)
        };
        cells.clone().find(take_over).map(|cell| (cell, true))
    }

    /// Copies the annotations of all threads, also of those that have ended. Leaves out a cell that is changed all the
    /// time.
    pub fn copy(self) -> Vec<CopiedAnnotation> {
        let taken = self.cells.iter().filter(|cell| cell.owner.load(Relaxed) != 0);
        taken.filter_map(|cell| (0..TRIES).find_map(|_| copy(cell))).collect()
    }
}

/// Copies a cell as it was at one moment; `None` if it was being changed, or was never written.
fn copy(cell: &AnnotationCell) -> Option<CopiedAnnotation> {
    // ORDER(annotations:C) pairs with annotations:B: if the load sees the count, then it sees the words.
    let count = cell.count.load(Acquire);
    if count == 0 || count & 1 != 0 {
        return None;
    }
    // ORDER(annotations:D) pairs with annotations:A: if a load sees a newer word, then the count's load below sees that
    // it has changed.
    let words: [u64; ANNOTATION_WORDS] = std::array::from_fn(|at| cell.words[at].load(Acquire));
    (cell.count.load(Relaxed) == count).then(|| CopiedAnnotation::of_words(&words))
}

impl CopiedAnnotation {
    /// The copy of a cell with this annotation.
    pub fn of(value: &Annotation<'_>) -> Self {
        Self::of_words(&words(value))
    }

    fn of_words(words: &[u64; ANNOTATION_WORDS]) -> Self {
        Self(std::array::from_fn(|at| words[at / 8].to_ne_bytes()[at % 8]))
    }

    /// The annotation in this copy: arbitrary, if a hostile program wrote it.
    pub fn annotation(&self) -> Option<Annotation<'_>> {
        let word = |at: usize| self.0[8 * at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let (head, since) = (word(0), word(1));
        let text = |from: usize, length: u64, most: usize| {
            let bytes = &self.0[8 * from..][..(length as usize).min(most)];
            std::str::from_utf8(bytes).ok()
        };
        let tid = head as u32;
        let name = text(NAME, head >> 32 & 0xffff, ANNOTATION_NAME)?;
        let text = text(TEXT, head >> 48, ANNOTATION_TEXT)?;
        (tid != 0).then_some(Annotation { tid, since, name, text })
    }
}

/// Encodes an annotation as a cell's words: the thread's id with the lengths of both texts in 16 bits each, the time,
/// the texts filled up with zeros.
fn words(value: &Annotation<'_>) -> [u64; ANNOTATION_WORDS] {
    let Annotation { tid, since, name, text } = value.cut();
    let mut words = [0; ANNOTATION_WORDS];
    words[0] = u64::from(tid) | (name.len() as u64) << 32 | (text.len() as u64) << 48;
    words[1] = since;
    fill(&mut words[NAME..TEXT], name);
    fill(&mut words[TEXT..], text);
    words
}

fn fill(words: &mut [u64], text: &str) {
    for (word, bytes) in words.iter_mut().zip(text.as_bytes().chunks(8)) {
        let mut eight = [0; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(eight);
    }
}

/// The cell at which the search for a thread's cell begins.
fn first(words: &[u64; ANNOTATION_WORDS], cells: usize) -> usize {
    let of = std::iter::once(words[0] & 0xffff_ffff).chain(words[NAME..TEXT].iter().copied());
    // The multiplier is 2^64 over the golden ratio.
    let hash = of.fold(0u64, |hash, word| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
    hash as usize % cells
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use sordino_percpu::primitive::{AtomicU32, AtomicU64};

    fn table(cells: usize) -> Vec<AnnotationCell> {
        let zero = || AtomicU32::new(0);
        let cell = |_| AnnotationCell {
            owner: zero(),
            count: zero(),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        (0..cells).map(cell).collect()
    }

    fn annotation<'a>(tid: u32, name: &'a str, text: &'a str) -> Annotation<'a> {
        Annotation { tid, since: 5, name, text }
    }

    fn all(annotations: Annotations<'_>) -> Vec<String> {
        let line = |value: Annotation<'_>| format!("{} {}={}", value.tid, value.name, value.text);
        let mut lines: Vec<_> =
            annotations.copy().iter().map(|copied| line(copied.annotation().unwrap())).collect();
        lines.sort();
        lines
    }

    #[test]
    fn each_thread_has_one_value_under_each_name() {
        let table = table(8);
        let annotations = Annotations::of(&table);
        for (tid, name, text) in
            [(1, "request", "7"), (1, "mode", "idle"), (2, "request", "8"), (1, "request", "9")]
        {
            assert!(annotations.set(&annotation(tid, name, text), |_| false));
        }
        assert_eq!(all(annotations), ["1 mode=idle", "1 request=9", "2 request=8"]);
    }

    #[test]
    fn when_all_cells_are_taken_those_of_threads_that_are_gone_are_used_again() {
        let table = table(3);
        let annotations = Annotations::of(&table);
        for tid in 1..=3 {
            assert!(annotations.set(&annotation(tid, "name", "x"), |_| panic!("there is room")));
        }
        assert!(!annotations.set(&annotation(4, "name", "y"), |_| false));
        assert!(annotations.set(&annotation(4, "name", "y"), |tid| tid == 2));
        assert_eq!(all(annotations), ["1 name=x", "3 name=x", "4 name=y"]);
        assert!(annotations.set(&annotation(1, "name", "z"), |_| false));
        assert_eq!(all(annotations), ["1 name=z", "3 name=x", "4 name=y"]);
    }

    #[test]
    fn a_signal_handler_leaves_the_value_that_it_interrupted() {
        let table = table(2);
        let annotations = Annotations::of(&table);
        annotations.set(&annotation(1, "name", "before"), |_| false);
        let cell = table.iter().find(|cell| cell.owner.load(Relaxed) == 1).unwrap();
        let count = cell.count.load(Relaxed);
        cell.count.store(count | 1, Relaxed);
        assert!(annotations.set(&annotation(1, "name", "nested"), |_| false));
        assert!(annotations.copy().is_empty());
        cell.count.store(count, Relaxed);
        assert_eq!(all(annotations), ["1 name=before"]);
        // The thread that was stopped there is gone: the next thread's value is whole.
        cell.count.store(count | 1, Relaxed);
        for tid in [2, 3] {
            assert!(annotations.set(&annotation(tid, "name", "new"), |tid| tid == 1));
        }
        assert_eq!(all(annotations), ["2 name=new", "3 name=new"]);
    }

    #[test]
    fn what_is_too_long_is_cut_at_a_character() {
        let table = table(1);
        let (name, text) = ("ä".repeat(ANNOTATION_NAME), format!("x{}", "ä".repeat(ANNOTATION_TEXT)));
        Annotations::of(&table).set(&annotation(1, &name, &text), |_| false);
        let copied = Annotations::of(&table).copy();
        let value = copied[0].annotation().unwrap();
        assert_eq!((value.name.len(), value.text.len()), (ANNOTATION_NAME, ANNOTATION_TEXT - 1));
    }

    #[test]
    fn any_words_are_some_value_or_none() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            state >> (state & 63)
        };
        for _ in 0..10_000 {
            if let Some(value) = CopiedAnnotation::of_words(&std::array::from_fn(|_| random())).annotation() {
                assert!(value.name.len() <= ANNOTATION_NAME && value.text.len() <= ANNOTATION_TEXT);
            }
        }
    }
}
