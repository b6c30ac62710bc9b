//! Columns of names with few different values.

use arrow_array::{ArrayRef, DictionaryArray, StringViewArray, UInt32Array};
use arrow_schema::{ArrowError, DataType};
use arrow_select::take::take;
use std::collections::HashMap;
use std::sync::Arc;

/// The nanoseconds of an hour.
const HOUR: i64 = 3_600_000_000_000;

/// The form of a column of names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NameForm {
    /// Each row has its text.
    Texts,
    /// Each row has the index of its text in a dictionary.
    Dictionary,
}

impl NameForm {
    /// Returns the type of a column of names whose texts have this type.
    pub(crate) fn data_type(self, text: DataType) -> DataType {
        match self {
            Self::Texts => text,
            Self::Dictionary => DataType::Dictionary(Box::new(DataType::UInt32), Box::new(text)),
        }
    }

    /// Returns a column with the name at each of the `indexes`.
    pub(crate) fn column(self, names: &ArrayRef, indexes: UInt32Array) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Texts => take(names, &indexes, None),
            Self::Dictionary => Ok(Arc::new(DictionaryArray::try_new(indexes, Arc::clone(names))?)),
        }
    }
}

/// The names in a column of one batch, each stored once.
#[derive(Debug, Default)]
pub(crate) struct NameColumn {
    known: Vec<Arc<str>>,
    /// The indexes by the names' addresses, which stay as long as the names are kept here.
    by_address: HashMap<usize, u32>,
    /// The address and the index of the last name.
    last: Option<(usize, u32)>,
    rows: Vec<Option<u32>>,
}

impl NameColumn {
    /// Appends a row with this name.
    pub(crate) fn push(&mut self, name: Option<&Arc<str>>) {
        let index = name.map(|name| self.index(name));
        self.rows.push(index);
    }

    fn index(&mut self, name: &Arc<str>) -> u32 {
        let address = name.as_ptr().addr();
        if let Some((last, index)) = self.last
            && last == address
        {
            return index;
        }
        let next = self.known.len() as u32;
        let index = *self.by_address.entry(address).or_insert(next);
        if index == next {
            self.known.push(Arc::clone(name));
        }
        self.last = Some((address, index));
        index
    }

    /// Returns the column, and begins the next.
    pub(crate) fn finish(&mut self, form: NameForm) -> Result<ArrayRef, ArrowError> {
        let names = StringViewArray::from_iter_values(self.known.iter().map(|name| &**name));
        let rows = UInt32Array::from(std::mem::take(&mut self.rows));
        *self = Self::default();
        form.column(&(Arc::new(names) as ArrayRef), rows)
    }
}

/// The hours of rows.
#[derive(Debug, Default)]
pub(crate) struct Hours {
    names: NameColumn,
    last: Option<(i64, Arc<str>)>,
}

impl Hours {
    /// Appends the hour of a time in nanoseconds since 1970.
    pub(crate) fn push(&mut self, time: i64) {
        let hour = time.div_euclid(HOUR);
        if self.last.as_ref().is_none_or(|(last, _)| *last != hour) {
            self.last = Some((hour, hour_name(time).into()));
        }
        self.names.push(self.last.as_ref().map(|(_, name)| name));
    }

    /// Returns the column, and begins the next.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.names.finish(NameForm::Texts)
    }
}

/// Returns the number of the hour, since 1970, in which a time in nanoseconds lies.
pub fn hour_of(time: i64) -> i64 {
    time.div_euclid(HOUR)
}

/// Returns the name of the hour in UTC in which a time in nanoseconds lies, such as `2026-01-31-14`.
pub fn hour_name(time: i64) -> String {
    let time = jiff::Timestamp::from_nanosecond(time.into()).unwrap_or_default();
    time.strftime("%Y-%m-%d-%H").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;

    #[test]
    fn names_come_back_in_the_order_of_their_rows() {
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "a name that is longer than a view".into());
        let mut names = NameColumn::default();
        for name in [Some(&a), Some(&b), None, Some(&a), Some(&b)] {
            names.push(name);
        }
        let column = names.finish(NameForm::Texts).unwrap();
        let column: &StringViewArray = column.as_any().downcast_ref().unwrap();
        let texts: Vec<_> = column.iter().collect();
        assert_eq!(texts, [Some(&*a), Some(&*b), None, Some(&*a), Some(&*b)]);
        assert_eq!(names.finish(NameForm::Texts).unwrap().len(), 0);
    }

    #[test]
    fn hours_are_named_in_utc_before_1970_too() {
        assert_eq!(hour_name(0), "1970-01-01-00");
        assert_eq!(hour_name(-1), "1969-12-31-23");
        assert_eq!((hour_of(-1), hour_of(0), hour_of(HOUR)), (-1, 0, 1));
    }
}
