//! Strings, regions and attributes, which records refer to by number. They are defined when the archive is closed.

use crate::archive::Attribute;
use std::collections::HashMap;

/// Most strings of an archive. All are in memory until the archive is closed.
const STRINGS_MAX: usize = 1 << 18;
/// The string in place of those that are too many.
const TOO_MANY: &str = "...";

/// The names so far.
#[derive(Debug, Default)]
pub(crate) struct Names {
    strings: HashMap<String, u32>,
    /// The region of each string that is a region's name.
    regions: HashMap<u32, u32>,
    /// The attribute of each name and type.
    attributes: HashMap<(u32, u8), u32>,
    left_out: u64,
}

impl Names {
    /// Returns the number of a string.
    pub(crate) fn string(&mut self, text: &str) -> u32 {
        if let Some(number) = self.strings.get(text) {
            return *number;
        }
        let number = self.strings.len() as u32;
        if self.strings.len() == STRINGS_MAX {
            self.left_out += 1;
            return self.strings.get(TOO_MANY).copied().unwrap_or(0);
        }
        if self.strings.len() + 1 == STRINGS_MAX && text != TOO_MANY && !self.strings.contains_key(TOO_MANY) {
            self.left_out += 1;
            self.strings.insert(TOO_MANY.to_owned(), number);
            return number;
        }
        self.strings.insert(text.to_owned(), number);
        number
    }

    /// Returns the number of strings that were too many.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the number of the region of that name.
    pub(crate) fn region(&mut self, name: &str) -> u32 {
        let (name, next) = (self.string(name), self.regions.len() as u32);
        *self.regions.entry(name).or_insert(next)
    }

    /// Returns the number of the attribute of that name and of the value's type.
    pub(crate) fn attribute(&mut self, name: &str, value: Attribute) -> u32 {
        let (name, next) = (self.string(name), self.attributes.len() as u32);
        *self.attributes.entry((name, value.kind())).or_insert(next)
    }

    /// Returns the strings with their numbers, in this order, as readers expect it.
    pub(crate) fn strings(&self) -> Vec<(u32, &str)> {
        sorted(self.strings.iter().map(|(text, number)| (*number, text.as_str())))
    }

    /// Returns the regions in order: their numbers, and those of their names.
    pub(crate) fn regions(&self) -> Vec<(u32, u32)> {
        sorted(self.regions.iter().map(|(name, number)| (*number, *name)))
    }

    /// Returns the attributes in order: their numbers, those of their names, and their types.
    pub(crate) fn attributes(&self) -> Vec<(u32, u32, u8)> {
        sorted(self.attributes.iter().map(|((name, kind), number)| (*number, *name, *kind)))
    }
}

fn sorted<T: Ord>(definitions: impl Iterator<Item = T>) -> Vec<T> {
    let mut definitions: Vec<T> = definitions.collect();
    definitions.sort_unstable();
    definitions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_has_one_number_and_too_many_strings_share_one() {
        let mut names = Names::default();
        let numbers: Vec<u32> =
            (0..2 * STRINGS_MAX).map(|number| names.string(&number.to_string())).collect();
        assert_eq!((names.string("7"), names.strings().len()), (numbers[7], STRINGS_MAX));
        let shared = numbers[STRINGS_MAX - 1];
        assert!(numbers[STRINGS_MAX..].iter().all(|number| *number == shared));
        assert_eq!(names.string(TOO_MANY), shared);
        assert_eq!(names.left_out(), STRINGS_MAX as u64 + 1);
    }

    #[test]
    fn regions_and_attributes_are_numbered_by_themselves() {
        let mut names = Names::default();
        assert_eq!((names.region("a"), names.region("b"), names.region("a")), (0, 1, 0));
        let [signed, float] = [Attribute::Signed(1), Attribute::Float(1.0)];
        assert_eq!((names.attribute("a", signed), names.attribute("a", float)), (0, 1));
        assert_eq!(names.attribute("a", Attribute::Signed(2)), 0);
    }
}
