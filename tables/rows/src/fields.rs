//! The columns of fields' values: for each type of value, a map from names to values for each event.

use crate::names::NameForm;
use crate::schema::{entries, entry};
use arrow_array::builder::{ArrayBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{Array, ArrayRef, MapArray, StringArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::ArrowError;
use sordino_event::{Class, Classes, Event, View};
use sordino_report::json_value;
use sordino_timeline::Moment;
use std::collections::HashMap;
use std::sync::Arc;

/// The names of the fields of all classes, each stored once.
#[derive(Debug)]
pub(crate) struct FieldKeys {
    names: Arc<StringArray>,
    /// The indexes of the names of each class's fields.
    of_class: Vec<Box<[u32]>>,
}

impl FieldKeys {
    /// Collects the names of all fields.
    pub(crate) fn new(classes: &Classes) -> Self {
        let (mut names, mut indexes) = (Vec::new(), HashMap::new());
        let of_class = classes.iter().map(|(_, class)| {
            let index = |name| {
                *indexes.entry(name).or_insert_with(|| {
                    names.push(name);
                    names.len() as u32 - 1
                })
            };
            class.fields.iter().map(index).collect()
        });
        let of_class = of_class.collect();
        Self { names: Arc::new(StringArray::from_iter_values(names)), of_class }
    }
}

/// The values of fields, by type: each event has a map of each.
pub(crate) struct FieldColumns {
    form: NameForm,
    known: Arc<FieldKeys>,
    /// The indexes of the names in this batch that are no fields' names; they follow those of the others.
    more: HashMap<String, u32>,
    maps: FieldMaps,
}

impl FieldColumns {
    pub(crate) fn new(known: &Arc<FieldKeys>, form: NameForm) -> Self {
        Self { form, known: Arc::clone(known), more: HashMap::new(), maps: FieldMaps::default() }
    }

    /// Appends the maps of an event.
    pub(crate) fn push(
        &mut self,
        event: &Event,
        class: &Class,
        moment: Option<&Moment<'_>>,
    ) -> Result<(), ArrowError> {
        let names = &self.known.of_class[event.class.index()];
        for (name, (_, value)) in names.iter().zip(event.fields(class)) {
            self.maps.field(*name, value);
        }
        if let Some(context) = moment.and_then(Moment::context) {
            for (name, value) in &context.annotations {
                let name = self.index(format!("$annotation.{name}"));
                self.maps.text(name, value.as_bytes());
            }
            for (name, count) in &context.counters {
                let name = self.index(format!("$counter.{name}"));
                self.maps.unsigned(name, *count);
            }
        }
        self.maps.end_row()
    }

    /// Returns the index of a name that is no field's.
    fn index(&mut self, name: String) -> u32 {
        let next = self.known.names.len() + self.more.len();
        *self.more.entry(name).or_insert(next as u32)
    }

    /// Returns the columns, and begins the next.
    pub(crate) fn finish(&mut self) -> Result<[Option<ArrayRef>; 3], ArrowError> {
        let (names, maps) = (self.names(), &mut self.maps);
        let integers = maps.integers.finish(&names, self.form)?;
        let reals = maps.reals.finish(&names, self.form)?;
        let texts = maps.texts.finish(&names, self.form)?;
        Ok([Some(integers), Some(reals), Some(texts)])
    }

    /// Returns all names of the batch, in the order of their indexes.
    fn names(&mut self) -> ArrayRef {
        let mut more: Vec<(String, u32)> = self.more.drain().collect();
        if more.is_empty() {
            return Arc::clone(&self.known.names) as ArrayRef;
        }
        more.sort_unstable_by_key(|(_, index)| *index);
        let more = more.iter().map(|(name, _)| Some(name.as_str()));
        Arc::new(self.known.names.iter().chain(more).collect::<StringArray>())
    }
}

#[derive(Default)]
struct FieldMaps {
    integers: ValueColumn<Int64Builder>,
    reals: ValueColumn<Float64Builder>,
    texts: ValueColumn<StringBuilder>,
    /// The JSON that is being made.
    buffer: Vec<u8>,
}

impl FieldMaps {
    fn field(&mut self, name: u32, value: View<'_>) {
        match value {
            View::Unsigned(value, _) => self.unsigned(name, value),
            View::Signed(value, _) => self.integer(name, value),
            View::Float(value) => {
                self.reals.names.push(name);
                self.reals.values.append_value(value);
            }
            View::Text(text) => self.text(name, text),
            View::Label(value, label) => {
                self.integer(name, value);
                label.into_iter().for_each(|label| self.text(name, label));
            }
            View::List(_) | View::Group(_) => {
                let mut json = std::mem::take(&mut self.buffer);
                json.clear();
                json_value(value, &mut json);
                self.text(name, &json);
                self.buffer = json;
            }
        }
    }

    /// Adds an integer, or a text of one that is too large.
    fn unsigned(&mut self, name: u32, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.integer(name, value),
            Err(_) => self.text(name, value.to_string().as_bytes()),
        }
    }

    fn integer(&mut self, name: u32, value: i64) {
        self.integers.names.push(name);
        self.integers.values.append_value(value);
    }

    fn text(&mut self, name: u32, text: &[u8]) {
        self.texts.names.push(name);
        self.texts.values.append_value(String::from_utf8_lossy(text));
    }

    fn end_row(&mut self) -> Result<(), ArrowError> {
        self.integers.end_row()?;
        self.reals.end_row()?;
        self.texts.end_row()
    }
}

/// The values of one type.
struct ValueColumn<B> {
    /// The index of the name of each value.
    names: Vec<u32>,
    values: B,
    /// The number of values before the first row, and up to the end of each.
    ends: Vec<i32>,
}

impl<B: ArrayBuilder + Default> Default for ValueColumn<B> {
    fn default() -> Self {
        Self { names: Vec::new(), values: B::default(), ends: vec![0] }
    }
}

impl<B: ArrayBuilder> ValueColumn<B> {
    fn end_row(&mut self) -> Result<(), ArrowError> {
        let end = i32::try_from(self.names.len());
        self.ends.push(end.map_err(|_| ArrowError::OffsetOverflowError(self.names.len()))?);
        Ok(())
    }

    fn finish(&mut self, names: &ArrayRef, form: NameForm) -> Result<ArrayRef, ArrowError> {
        let ends = std::mem::replace(&mut self.ends, vec![0]);
        let values = self.names.len();
        let indexes = std::mem::replace(&mut self.names, Vec::with_capacity(values));
        let names = form.column(names, indexes.into())?;
        let values = self.values.finish();
        let entry = entry(values.data_type().clone(), form);
        let field = Arc::new(entries(entry.clone()));
        let entries = StructArray::try_new(entry, vec![names, values], None)?;
        Ok(Arc::new(MapArray::try_new(field, OffsetBuffer::new(ends.into()), entries, None, false)?))
    }
}
