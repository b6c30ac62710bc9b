//! The code that a program has mapped, which changes while it loads libraries.

use super::Traced;
use crate::error::Error;
use crate::options::UserEvents;
use sordino_filter::condition::is_match;
use sordino_inspect::clock::TraceClock;
use sordino_intake::MappedCode;
use sordino_proc::status::code_size;
use sordino_symbols::FunctionTable;
use std::time::{Duration, Instant};

/// Interval at which a program that records functions is looked at for code that it has mapped.
const EACH: Duration = Duration::from_secs(1);

/// The code of a program as it was read last.
#[derive(Debug)]
pub(super) struct KnownCode {
    /// The functions in it, if rules named some then.
    functions: Option<FunctionTable>,
    size: Option<u64>,
    looked_at: Instant,
}

impl KnownCode {
    pub(super) fn new(functions: Option<FunctionTable>, size: Option<u64>) -> Self {
        Self { functions, size, looked_at: Instant::now() }
    }
}

impl Traced {
    /// Returns true if it has declared functions.
    pub fn has_functions(&self) -> bool {
        self.trace.has_functions
    }

    /// Returns true if it has declared functions and has mapped other code since the last time, or its functions are
    /// not known and rules name some: the caller then has to read it. It is looked at every second.
    pub fn has_other_code(&mut self, names_functions: bool) -> bool {
        if !self.has_functions() || self.code.looked_at.elapsed() < EACH {
            return false;
        }
        self.code.looked_at = Instant::now();
        let size = code_size(self.trace.pid);
        let is_other = size.is_some() && size != self.code.size;
        self.code.size = size.or(self.code.size);
        is_other || names_functions && self.code.functions.is_none()
    }

    /// Adds the code that it has mapped now to its trace, and applies the rules to it.
    ///
    /// # Errors
    /// The trace could not be changed. Without the names of its functions, their addresses are recorded nevertheless.
    pub fn take_code(
        &mut self,
        code: MappedCode,
        user: &UserEvents,
        clock: &TraceClock,
    ) -> Result<(), Error> {
        let added = self.trace.add_mapped(code.files, clock);
        self.code.functions = code.functions.or_else(|| self.code.functions.take());
        if user.names_functions() {
            self.choose(user, clock);
        }
        added
    }

    /// Returns the rules with the addresses of the functions that they name; `None` if they name none. Adds notes on
    /// names without a function if the program `records` any, and removes those of names that have one now.
    pub(super) fn named_in(&mut self, user: &UserEvents, records: bool) -> Option<UserEvents> {
        user.names_functions().then(|| {
            user.with_functions(|pattern| {
                let Some(functions) = &self.code.functions else { return Vec::new() };
                let ranges = functions.ranges(|name| is_match(pattern, name));
                let note = format!("no function is called '{pattern}' in the files that it had mapped");
                if !ranges.is_empty() {
                    self.notes.retain(|known| *known != note);
                } else if records && !self.notes.contains(&note) {
                    self.notes.push(note);
                }
                ranges
            })
        })
    }
}
