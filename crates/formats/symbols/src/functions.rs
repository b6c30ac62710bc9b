//! The functions of a process, by the files that it has mapped.

use crate::{MappedFile, SymbolFiles, demangled, named_function};
use std::ops::RangeInclusive;

/// The maximum number of functions of a process.
const FUNCTIONS_MAX: usize = 1 << 20;

/// The names and first addresses of a process's functions, by address.
#[derive(Debug, Default)]
pub struct FunctionTable(Vec<(u64, Box<str>)>);

impl FunctionTable {
    /// Reads the symbols of the files that a process has mapped. Files that cannot be used have no functions.
    pub fn of(files: &[MappedFile]) -> Self {
        let mut read = SymbolFiles::default();
        let mut functions = Vec::new();
        for mapped in files {
            read.each_symbol(mapped, |address, symbol, is_code| {
                let name = demangled(symbol);
                let name = named_function(&name).or(is_code.then_some(&*name));
                if let Some(name) = name.filter(|_| functions.len() < FUNCTIONS_MAX) {
                    functions.push((address, name.into()));
                }
            });
        }
        functions.sort_unstable();
        functions.dedup();
        Self(functions)
    }

    /// Returns the addresses of the functions with selected names, in ranges. Selected functions without another
    /// function in between are one range, from the begin of the first to the begin of the last.
    pub fn ranges(&self, mut is_selected: impl FnMut(&str) -> bool) -> Vec<RangeInclusive<u64>> {
        let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
        let mut goes_on = false;
        for same in self.0.chunk_by(|a, b| a.0 == b.0) {
            let address = same[0].0;
            let is_it = same.iter().any(|(_, name)| is_selected(name));
            match ranges.last_mut().filter(|_| goes_on && is_it) {
                Some(last) => *last = *last.start()..=address,
                None if is_it => ranges.push(address..=address),
                None => {}
            }
            goes_on = is_it;
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_functions_without_others_between_them_are_one_range() {
        let names = ["a", "b1", "b2", "b3", "c", "b4"];
        let mut table = FunctionTable((10..).step_by(10).zip(names.map(Into::into)).collect());
        assert_eq!(table.ranges(|name| name.starts_with('b')), [20..=40, 60..=60]);
        assert_eq!(table.ranges(|name| name == "x"), []);
        // Another name of the same function.
        table.0.insert(1, (10, "b0".into()));
        assert_eq!(table.ranges(|name| name.starts_with('b')), [10..=40, 60..=60]);
    }
}
