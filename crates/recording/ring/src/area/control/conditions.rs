//! The collector's side of conditions: it writes their code and their inline filters.

use super::EnableMode;
use crate::area::condition::{Code, CodeRange, MAX_CODE, When};
use crate::area::map::Mapping;
use crate::layout::{CONDITION_POOL, Capacity, ConditionEntry, EnableWord, INLINE_FILTERS, InlineFilter};
use crate::number::{PointId, SlotIndex};
use sordino_percpu::primitive::{Relaxed, Release, plain};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The conditions of a session in one program.
#[derive(Debug)]
pub struct Conditions {
    region: Arc<Mapping>,
    /// The pool's offset in the region; the table follows it.
    pool: usize,
    /// Bytes of the pool that are in use.
    used: usize,
    /// The code in the pool and its places: this side never reads it from memory that the program can write to.
    known: HashMap<[When<Vec<u8>>; 2], CodeRange>,
    /// The area's control part, which has the inline filters.
    control: Arc<Mapping>,
    /// The numbers that decide the offsets of the control part.
    capacity: Capacity,
    /// The number of the session's first inline filter.
    pub(super) first_inline_filter: usize,
    /// The inline filters in use, by field, least value and span, with their numbers.
    inline_filters: HashMap<(u32, u64, u64), usize>,
}

/// The pool has no room for a condition's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// Bytes that the code needs.
    pub needed: usize,
    /// Bytes that are left.
    pub left: usize,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { needed, left } = self;
        write!(
            f,
            "the condition needs {needed} bytes, and {left} of the {CONDITION_POOL} for all conditions of a session are left: \
             use fewer or shorter ones"
        )
    }
}

impl std::error::Error for NoRoom {}

impl Conditions {
    pub(super) fn new(
        region: Arc<Mapping>,
        pool: usize,
        control: Arc<Mapping>,
        capacity: Capacity,
        slot: SlotIndex,
    ) -> Self {
        let first_inline_filter = capacity.inline_filters_offset()
            + slot.index() as usize * INLINE_FILTERS * size_of::<InlineFilter>();
        let (known, inline_filters) = (HashMap::new(), HashMap::new());
        Self { region, pool, used: 0, known, control, capacity, first_inline_filter, inline_filters }
    }

    /// # Panics
    /// Panics if tracepoint `id` is beyond the capacity.
    fn check(&self, id: PointId) {
        assert!(u32::from(id.0) < self.capacity.points);
    }

    /// Chooses how to enable tracepoint `id`, if its [code](Self::set) only requires that the field with this number
    /// lies in an interval: [through](EnableMode::Through) a [`InlineFilter`], an inline filter, or like any other code
    /// if all are in use.
    ///
    /// An inline filter is never changed while the session lasts, whatever happens to its tracepoints: so a slow hit
    /// still finds the one that its enable word led to. If a hit finds another session's filter, its own session has
    /// ended, and its record may be left out.
    ///
    /// # Panics
    /// Panics if tracepoint `id` is beyond the capacity.
    pub fn inline_filter(&mut self, id: PointId, field: u32, low: u64, span: u64) -> EnableMode {
        self.check(id);
        let (key, next) = ((field, low, span), self.inline_filters.len());
        let at = |number| self.first_inline_filter + number * size_of::<InlineFilter>();
        let at = match self.inline_filters.get(&key) {
            Some(number) => at(*number),
            None if next == INLINE_FILTERS => return EnableMode::If,
            None => {
                // SAFETY: the session's filters lie inside the control part, which is mapped as long as `control`; all
                // fields are atomics.
                let inline_filter = unsafe { &*self.control.at(at(next)).cast::<InlineFilter>() };
                // If a load sees the enable word that leads here, then it sees these stores, by control:A.
                inline_filter.low.store(low, Relaxed);
                inline_filter.span.store(span, Relaxed);
                inline_filter.field.store(field, Relaxed);
                self.inline_filters.insert(key, next);
                at(next)
            }
        };
        let word = self.capacity.points_offset() + id.index() * size_of::<EnableWord>();
        EnableMode::Through((at - word) as u32)
    }

    /// Makes `code` decide about the hits of tracepoint `id` from now on, if the session enabled it
    /// [conditionally](super::EnableMode::If). The code that decided before keeps its room; the same code takes room
    /// once.
    ///
    /// # Errors
    /// [`NoRoom`], and the condition stays as it was.
    ///
    /// # Panics
    /// If there is no such tracepoint, or a part's code is empty or longer than [`MAX_CODE`].
    pub fn set(&mut self, id: PointId, code: &Code<'_>) -> Result<(), NoRoom> {
        self.check(id);
        let key = [code.filter, code.trigger].map(owned);
        let range = match self.known.get(&key) {
            Some(range) => *range,
            None => {
                let range = self.append(&key)?;
                self.known.insert(key, range);
                range
            }
        };
        let table = self.region.at(self.pool + CONDITION_POOL).cast::<ConditionEntry>();
        let entry = table.wrapping_add(id.index());
        // SAFETY: `id` is below the capacity (checked above), which is the table's length; the region is mapped; an
        // atomic.
        let entry = unsafe { &*entry };
        // ORDER(control:H) pairs with slots:B: if the load sees the word, then it sees the code.
        entry.store(range.0, Release);
        Ok(())
    }

    /// Appends the code to the pool.
    fn append(&mut self, [filter, trigger]: &[When<Vec<u8>>; 2]) -> Result<CodeRange, NoRoom> {
        // In whole words, because the program reads whole words.
        let mut bytes = Vec::new();
        for code in [filter, trigger].into_iter().filter_map(code_of) {
            bytes.extend_from_slice(code);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        let needed = bytes.len().next_multiple_of(CodeRange::UNIT);
        let left = CONDITION_POOL - self.used;
        if needed > left {
            return Err(NoRoom { needed, left });
        }
        let start = if needed == 0 { 0 } else { self.used };
        let to = self.region.at(self.pool + start);
        // SAFETY: `needed <= left` (checked above), so the bytes lie inside the pool, where no word of the table leads
        // yet; the source is this process's own.
        unsafe { plain::copy_in(to, bytes.as_ptr(), bytes.len()) };
        self.used += needed;
        Ok(CodeRange::of(start, length(filter), length(trigger)))
    }
}

fn owned(when: When<&[u8]>) -> When<Vec<u8>> {
    match when {
        When::Always => When::Always,
        When::Never => When::Never,
        When::If(code) => {
            assert!((1..=MAX_CODE).contains(&code.len()), "code of {} bytes", code.len());
            When::If(code.to_vec())
        }
    }
}

fn code_of(when: &When<Vec<u8>>) -> Option<&Vec<u8>> {
    if let When::If(code) = when { Some(code) } else { None }
}

fn length(when: &When<Vec<u8>>) -> When<usize> {
    match when {
        When::Always => When::Always,
        When::Never => When::Never,
        When::If(code) => When::If(code.len()),
    }
}
