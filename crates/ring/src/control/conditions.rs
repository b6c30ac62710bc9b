//! The collector's side of conditions: where their code goes.

use crate::condition::{Code, MAX_CODE, Place, When};
use crate::layout::{CONDITION_POOL, CONDITION_TABLE, ConditionEntry, POINTS};
use crate::map::Mapping;
use sordino_percpu::primitive::{Release, plain};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The conditions of a session in one program.
#[derive(Debug)]
pub struct Conditions {
    region: Arc<Mapping>,
    /// Where the table lies in it.
    table: usize,
    /// Bytes of the pool that are taken.
    used: usize,
    /// What lies where: this side never reads it from memory that is the program's, too.
    known: HashMap<[When<Vec<u8>>; 2], Place>,
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
    pub(super) fn new(region: Arc<Mapping>, table: usize) -> Self {
        Self { region, table, used: 0, known: HashMap::new() }
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
        assert!(usize::from(id) < POINTS);
        let key = [code.filter, code.trigger].map(owned);
        let place = match self.known.get(&key) {
            Some(place) => *place,
            None => {
                let place = self.append(&key)?;
                self.known.insert(key, place);
                place
            }
        };
        let entry = self.region.at(self.table).cast::<ConditionEntry>().wrapping_add(usize::from(id));
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
        let to = self.region.at(self.table + CONDITION_TABLE + start);
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
