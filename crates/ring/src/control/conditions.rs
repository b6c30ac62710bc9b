//! The collector's side of conditions: where their code goes.

use super::Want;
use crate::condition::{Code, MAX_CODE, Place, When};
use crate::layout::{CONDITION_POOL, Capacity, ConditionEntry, EnableWord, GATES, Gate};
use crate::map::Mapping;
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
    /// Bytes of the pool that are taken.
    used: usize,
    /// What lies where: this side never reads it from memory that is the program's, too.
    known: HashMap<[When<Vec<u8>>; 2], Place>,
    /// The area's control part, which has the gates.
    control: Arc<Mapping>,
    /// The numbers that decide the offsets of the control part.
    capacity: Capacity,
    /// The number of the session's first gate.
    pub(super) first_gate: usize,
    /// The gates in use, by field, least value and span, with their numbers.
    gates: HashMap<(u32, u64, u64), usize>,
}

/// The pool has no room for a condition's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// Bytes that it takes.
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
        slot: usize,
    ) -> Self {
        let first_gate = capacity.gates_offset() + slot * GATES * size_of::<Gate>();
        let (known, gates) = (HashMap::new(), HashMap::new());
        Self { region, pool, used: 0, known, control, capacity, first_gate, gates }
    }

    /// # Panics
    /// Panics if tracepoint `id` is beyond the capacity.
    fn check(&self, id: u16) {
        assert!(u32::from(id) < self.capacity.points);
    }

    /// How to want the hits of tracepoint `id` whose [code](Self::set) asks for nothing but that its field with this number lies in an
    /// interval: [through](Want::Through) a [`Gate`], or as any other code if all are in use.
    ///
    /// A gate is never changed while the session lasts, whatever happens to its tracepoints: so a hit that was slow still finds the one
    /// it was sent to. One that finds another session's by now belonged to a session that has ended, and may be left out.
    ///
    /// # Panics
    /// Panics if tracepoint `id` is beyond the capacity.
    pub fn gate(&mut self, id: u16, field: u32, low: u64, span: u64) -> Want {
        self.check(id);
        let (key, next) = ((field, low, span), self.gates.len());
        let at = |number| self.first_gate + number * size_of::<Gate>();
        let at = match self.gates.get(&key) {
            Some(number) => at(*number),
            None if next == GATES => return Want::If,
            None => {
                // SAFETY: inside the control part; all atomics.
                let gate = unsafe { &*self.control.at(at(next)).cast::<Gate>() };
                // Who sees the enable word that leads here sees them, by control:A.
                gate.low.store(low, Relaxed);
                gate.span.store(span, Relaxed);
                gate.field.store(field, Relaxed);
                self.gates.insert(key, next);
                at(next)
            }
        };
        let word = self.capacity.points_offset() + usize::from(id) * size_of::<EnableWord>();
        Want::Through((at - word) as u32)
    }

    /// Has `code` decide about the hits of tracepoint `id` from now on, where the session wants them
    /// [conditionally](super::Want::If). The code that decided before keeps its room; the same code takes room once.
    ///
    /// # Errors
    /// [`NoRoom`], and nothing is changed.
    ///
    /// # Panics
    /// If there is no such tracepoint, or a part's code is empty or longer than [`MAX_CODE`].
    pub fn set(&mut self, id: u16, code: &Code<'_>) -> Result<(), NoRoom> {
        self.check(id);
        let key = [code.filter, code.trigger].map(owned);
        let place = match self.known.get(&key) {
            Some(place) => *place,
            None => {
                let place = self.append(&key)?;
                self.known.insert(key, place);
                place
            }
        };
        let table = self.region.at(self.pool + CONDITION_POOL).cast::<ConditionEntry>();
        let entry = table.wrapping_add(usize::from(id));
        // SAFETY: inside the table; an atomic.
        let entry = unsafe { &*entry };
        // ORDER(control:H) pairs with slots:B: who sees the word sees the code.
        entry.store(place.0, Release);
        Ok(())
    }

    /// Puts the code behind what there is.
    fn append(&mut self, [filter, trigger]: &[When<Vec<u8>>; 2]) -> Result<Place, NoRoom> {
        // In whole words, as it is read.
        let mut bytes = Vec::new();
        for code in [filter, trigger].into_iter().filter_map(code_of) {
            bytes.extend_from_slice(code);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        let needed = bytes.len().next_multiple_of(Place::UNIT);
        let left = CONDITION_POOL - self.used;
        if needed > left {
            return Err(NoRoom { needed, left });
        }
        let start = if needed == 0 { 0 } else { self.used };
        let to = self.region.at(self.pool + start);
        // SAFETY: inside the pool, where no word of the table leads yet; our own bytes.
        unsafe { plain::copy_in(to, bytes.as_ptr(), bytes.len()) };
        self.used += needed;
        Ok(Place::of(start, length(filter), length(trigger)))
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
