//! The code that a program has mapped, which changes while it loads libraries.

use crate::options::UserEvents;
use sordino_filter::condition::is_match;
use sordino_symbols::FunctionTable;
use std::time::{Duration, Instant};

/// Interval at which the size of a program's code is read, if the program records functions.
const EACH: Duration = Duration::from_secs(1);

/// The code of a program as it was read last.
#[derive(Debug)]
pub(super) struct KnownCode {
    /// The functions in it, if rules named some then.
    functions: Option<FunctionTable>,
    size: Option<u64>,
    compared_at: Instant,
}

impl KnownCode {
    pub(super) fn new(functions: Option<FunctionTable>, size: Option<u64>) -> Self {
        Self { functions, size, compared_at: Instant::now() }
    }

    /// Returns true if the size of the program's code, which `size` reads, has changed since the last time, or its
    /// functions are not known and rules name some. It is compared every second.
    pub(super) fn is_other(&mut self, size: impl FnOnce() -> Option<u64>, names_functions: bool) -> bool {
        if self.compared_at.elapsed() < EACH {
            return false;
        }
        self.compared_at = Instant::now();
        let size = size();
        let is_other = size.is_some() && size != self.size;
        self.size = size.or(self.size);
        is_other || names_functions && self.functions.is_none()
    }

    /// Replaces the functions, unless the code that was read now has none.
    pub(super) fn replace_functions(&mut self, functions: Option<FunctionTable>) {
        self.functions = functions.or_else(|| self.functions.take());
    }

    /// Returns the rules with the addresses of the functions that they name; `None` if they name none. Adds notes on
    /// names without a function if the program `records` any, and removes those of names that have one now.
    pub(super) fn named_in(
        &self,
        user: &UserEvents,
        records: bool,
        notes: &mut Vec<String>,
    ) -> Option<UserEvents> {
        user.names_functions().then(|| {
            user.with_functions(|pattern| {
                let Some(functions) = &self.functions else { return Vec::new() };
                let ranges = functions.ranges(|name| is_match(pattern, name));
                let note = format!("no function is called '{pattern}' in the files that it had mapped");
                if !ranges.is_empty() {
                    notes.retain(|known| *known != note);
                } else if records && !notes.contains(&note) {
                    notes.push(note);
                }
                ranges
            })
        })
    }
}
