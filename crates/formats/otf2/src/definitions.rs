//! Strings, regions and attributes, which records refer to by number. They are defined when the archive is closed.

use std::collections::HashMap;

/// A value of an attribute; a text by its number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AttributeValue {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(u32),
}

impl AttributeValue {
    /// Returns the library's number of the type.
    pub(crate) fn kind(self) -> u8 {
        match self {
            Self::Unsigned(_) => 4,
            Self::Signed(_) => 8,
            Self::Float(_) => 10,
            Self::Text(_) => 11,
        }
    }
}

/// Maximum number of texts of values in an archive, and of names of regions. All are in memory until the archive is
/// closed.
const STRINGS_MAX: usize = 1 << 18;
/// Maximum size in bytes of all texts of values, and of all names of regions.
const BYTES_MAX: usize = 1 << 28;
/// The string that replaces strings beyond the maximum.
const TOO_MANY: &str = "...";

/// The definitions so far.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    strings: HashMap<String, u32>,
    /// The region of each string that is a region's name.
    regions: HashMap<u32, u32>,
    /// The attribute of each name and type.
    attributes: HashMap<(u32, u8), u32>,
    values_left: StringBudget,
    regions_left: StringBudget,
    left_out: u64,
}

/// The strings and bytes that may still be added.
#[derive(Debug)]
struct StringBudget {
    strings: usize,
    bytes: usize,
}

impl Default for StringBudget {
    fn default() -> Self {
        Self { strings: STRINGS_MAX, bytes: BYTES_MAX }
    }
}

impl StringBudget {
    /// Reserves room for a string. Returns true if there was room.
    fn has_taken(&mut self, text: &str) -> bool {
        let fits = self.strings > 0 && text.len() <= self.bytes;
        if fits {
            self.strings -= 1;
            self.bytes -= text.len();
        }
        fits
    }
}

impl Definitions {
    /// Returns the number of a string of the archive's own, or of an attribute's name. Their number is limited only by
    /// the trace's classes and CPUs.
    pub(crate) fn string(&mut self, text: &str) -> u32 {
        if let Some(number) = self.strings.get(text) {
            return *number;
        }
        let number = self.strings.len() as u32;
        self.strings.insert(text.to_owned(), number);
        number
    }

    /// Returns the number of a value's text, or that of `...` beyond the maximum.
    pub(crate) fn value(&mut self, text: &str) -> u32 {
        let fits = self.strings.contains_key(text) || self.values_left.has_taken(text);
        self.string_or_too_many(text, fits)
    }

    fn string_or_too_many(&mut self, text: &str, fits: bool) -> u32 {
        self.left_out += u64::from(!fits);
        self.string(if fits { text } else { TOO_MANY })
    }

    /// Returns the number of strings that were too many.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns the number of the region of that name, or that of `...` beyond the maximum.
    pub(crate) fn region(&mut self, name: &str) -> u32 {
        let known = self.strings.get(name).is_some_and(|number| self.regions.contains_key(number));
        let fits = known || self.regions_left.has_taken(name);
        let (name, next) = (self.string_or_too_many(name, fits), self.regions.len() as u32);
        *self.regions.entry(name).or_insert(next)
    }

    /// Returns the number of the attribute of that name and of the value's type.
    pub(crate) fn attribute(&mut self, name: &str, value: AttributeValue) -> u32 {
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
    fn a_text_has_one_number_and_too_many_texts_share_one() {
        let mut definitions = Definitions::default();
        let numbers: Vec<u32> =
            (0..2 * STRINGS_MAX).map(|number| definitions.value(&number.to_string())).collect();
        assert_eq!((definitions.value("7"), definitions.strings().len()), (numbers[7], STRINGS_MAX + 1));
        let shared = definitions.value(TOO_MANY);
        assert!(numbers[STRINGS_MAX..].iter().all(|number| *number == shared));
        assert!(numbers[..STRINGS_MAX].iter().all(|number| *number != shared));
        assert_eq!(definitions.left_out(), STRINGS_MAX as u64);
    }

    #[test]
    fn attributes_and_regions_have_their_names_where_values_are_too_many() {
        let mut definitions =
            Definitions { values_left: StringBudget { strings: 1, bytes: 10 }, ..Definitions::default() };
        let shared = [definitions.value("a"), definitions.value("b")][1];
        let value = AttributeValue::Signed(1);
        let numbers = ["c", "d"].map(|name| (definitions.attribute(name, value), definitions.region(name)));
        assert_eq!(numbers, [(0, 0), (1, 1)]);
        let own = definitions.string("c");
        assert_eq!(
            (definitions.strings()[own as usize], definitions.strings()[shared as usize].1),
            ((own, "c"), TOO_MANY)
        );
        assert_eq!((definitions.value("c"), definitions.left_out()), (own, 1));
    }

    #[test]
    fn the_bytes_of_values_and_of_regions_have_limits() {
        let budget = || StringBudget { strings: 10, bytes: 5 };
        let mut definitions =
            Definitions { values_left: budget(), regions_left: budget(), ..Definitions::default() };
        let numbers = ["abcd", "ef", "g", "h"].map(|text| definitions.value(text));
        assert_eq!((numbers, definitions.left_out()), ([0, 1, 2, 1], 2));
        let numbers = ["ijkl", "mn", "o", "p", "ijkl"].map(|name| definitions.region(name));
        assert_eq!((numbers, definitions.left_out()), ([0, 1, 2, 1, 0], 4));
    }

    #[test]
    fn regions_and_attributes_are_numbered_by_themselves() {
        let mut definitions = Definitions::default();
        assert_eq!((definitions.region("a"), definitions.region("b"), definitions.region("a")), (0, 1, 0));
        let [signed, float] = [AttributeValue::Signed(1), AttributeValue::Float(1.0)];
        assert_eq!((definitions.attribute("a", signed), definitions.attribute("a", float)), (0, 1));
        assert_eq!(definitions.attribute("a", AttributeValue::Signed(2)), 0);
    }
}
