//! One decoded event, in memory that is reused from event to event.

mod batch;

pub use batch::EventBatch;

use crate::{Base, Class, ClassId, Cpu, Pid, Tid, Time};

/// One value in an event's flat, preorder list of values.
///
/// [`Value::List`] and [`Value::Group`] are followed by their children; texts lie in the event's bytes. Readers use
/// [`View`], which hides both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// An unsigned integer and how to print it.
    Unsigned(u64, Base),
    /// A signed integer and how to print it.
    Signed(i64, Base),
    /// A floating-point number; singles are widened.
    Float(f64),
    /// A text, which lies in the event's bytes.
    Text(Text),
    /// An enumeration's integer, and its label if the trace has one for it.
    Label(i64, Option<Text>),
    /// A list of this many values, which follow.
    List(u32),
    /// A group of this many pairs of a name (a text) and a value, which follow.
    Group(u32),
}

/// The place of a text in an event's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    start: u32,
    length: u32,
}

impl Value {
    /// Creates a decimal unsigned integer.
    pub fn unsigned(value: u64) -> Self {
        Self::Unsigned(value, Base::Decimal)
    }

    /// Creates a decimal signed integer.
    pub fn signed(value: i64) -> Self {
        Self::Signed(value, Base::Decimal)
    }
}

/// The facts about an event besides its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHead {
    /// The time of the event.
    pub time: Time,
    /// The CPU on which it was recorded, if the trace has it.
    pub cpu: Option<Cpu>,
    /// The process that recorded it, if the trace has it.
    pub pid: Option<Pid>,
    /// The thread that recorded it, if the trace has it.
    pub tid: Option<Tid>,
    /// The kind of event.
    pub class: ClassId,
}

/// The values of an event's top-level fields, whether all of them were decoded or none was.
pub trait FieldValues {
    /// Returns the top-level field with this index, which [`Class::field`] finds.
    fn value(&self, field: usize) -> Option<View<'_>>;

    /// Returns an integer field's value or an enumeration's integer. `None` for other types and above `i64::MAX`.
    fn integer(&self, field: usize) -> Option<i64>;
}

/// One decoded event.
///
/// A reader fills it: it calls [`begin`](Self::begin) and then pushes values. Nothing is allocated once the buffers
/// have grown to the largest event.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// The time of the event.
    pub time: Time,
    /// The CPU on which it was recorded, if the trace has it.
    pub cpu: Option<Cpu>,
    /// The process that recorded it, if the trace has it.
    pub pid: Option<Pid>,
    /// The thread that recorded it, if the trace has it.
    pub tid: Option<Tid>,
    /// The kind of event.
    pub class: ClassId,
    values: Vec<Value>,
    bytes: Vec<u8>,
    /// The index in `values` of each top-level field.
    starts: Vec<u32>,
    /// The number of children that are missing from the compound values being pushed.
    open: u64,
}

impl FieldValues for Event {
    fn value(&self, field: usize) -> Option<View<'_>> {
        self.value(field)
    }

    fn integer(&self, field: usize) -> Option<i64> {
        self.integer(field)
    }
}

impl Event {
    /// Returns the facts besides the fields.
    #[inline]
    pub fn head(&self) -> EventHead {
        let Self { time, cpu, pid, tid, class, .. } = *self;
        EventHead { time, cpu, pid, tid, class }
    }

    /// Starts over as an event of `class` at `time`, with no CPU, process, thread or value.
    #[inline]
    pub fn begin(&mut self, time: Time, class: ClassId) {
        (self.time, self.class) = (time, class);
        (self.cpu, self.pid, self.tid) = (None, None, None);
        self.values.clear();
        self.bytes.clear();
        self.starts.clear();
        self.open = 0;
    }

    /// Adds a value: the next child of an unfinished list or group, else the next top-level field.
    #[inline]
    pub fn push(&mut self, value: Value) {
        match self.open.checked_sub(1) {
            Some(rest) => self.open = rest,
            None => self.starts.push(self.values.len() as u32),
        }
        match value {
            Value::List(length) => self.open += u64::from(length),
            Value::Group(length) => self.open += 2 * u64::from(length),
            _ => {}
        }
        self.values.push(value);
    }

    /// Copies `text` into the event and returns its place, for [`Value::Text`] and [`Value::Label`].
    #[inline]
    pub fn intern(&mut self, text: &[u8]) -> Text {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(text);
        Text { start, length: text.len() as u32 }
    }

    /// Adds a text as the next value.
    #[inline]
    pub fn push_text(&mut self, text: &[u8]) {
        let text = self.intern(text);
        self.push(Value::Text(text));
    }

    /// Returns the number of bytes that the buffers for values take.
    #[inline]
    pub fn memory(&self) -> usize {
        self.values.capacity() * size_of::<Value>()
            + self.bytes.capacity()
            + self.starts.capacity() * size_of::<u32>()
    }

    /// Returns the number of top-level fields.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns true if the event has no field.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Returns the top-level field with this index, which [`Class::field`] finds.
    #[inline]
    pub fn value(&self, field: usize) -> Option<View<'_>> {
        self.view(*self.starts.get(field)? as usize)
    }

    /// Returns an integer field's value or an enumeration's integer. `None` for other types and above `i64::MAX`.
    #[inline]
    pub fn integer(&self, field: usize) -> Option<i64> {
        match *self.values.get(*self.starts.get(field)? as usize)? {
            Value::Unsigned(value, _) => i64::try_from(value).ok(),
            Value::Signed(value, _) | Value::Label(value, _) => Some(value),
            _ => None,
        }
    }

    /// Returns the bytes of a text field.
    #[inline]
    pub fn text(&self, field: usize) -> Option<&[u8]> {
        match self.value(field)? {
            View::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Iterates over the top-level fields with their names.
    pub fn fields<'a>(&'a self, class: &'a Class) -> Fields<'a> {
        Fields { event: self, class, next: 0 }
    }

    /// Returns the value at `index` of the flat list.
    #[inline]
    fn view(&self, index: usize) -> Option<View<'_>> {
        let children = |left| Entries { event: self, next: index + 1, left };
        Some(match *self.values.get(index)? {
            Value::Unsigned(value, base) => View::Unsigned(value, base),
            Value::Signed(value, base) => View::Signed(value, base),
            Value::Float(value) => View::Float(value),
            Value::Text(text) => View::Text(self.resolve(text)),
            Value::Label(value, text) => View::Label(value, text.map(|text| self.resolve(text))),
            Value::List(length) => View::List(children(u64::from(length))),
            Value::Group(length) => View::Group(children(2 * u64::from(length))),
        })
    }

    /// Returns the index behind `children` values that start at `index`, with all of their children.
    fn behind(&self, mut index: usize, children: u64) -> usize {
        let mut left = children;
        while left > 0 {
            left -= 1;
            match self.values.get(index) {
                Some(Value::List(length)) => left += u64::from(*length),
                Some(Value::Group(length)) => left += 2 * u64::from(*length),
                Some(_) => {}
                None => return index,
            }
            index += 1;
        }
        index
    }

    fn resolve(&self, text: Text) -> &[u8] {
        let start = text.start as usize;
        self.bytes.get(start..start + text.length as usize).unwrap_or_default()
    }
}

/// One value as a reader sees it.
#[derive(Clone, Copy, Debug)]
pub enum View<'a> {
    /// An unsigned integer and its base.
    Unsigned(u64, Base),
    /// A signed integer and its base.
    Signed(i64, Base),
    /// A floating-point number; singles are widened.
    Float(f64),
    /// A text; the program may have given any bytes.
    Text(&'a [u8]),
    /// An enumeration's integer and label.
    Label(i64, Option<&'a [u8]>),
    /// The elements of an array or sequence.
    List(Entries<'a>),
    /// The members of a structure: the first one's name as a text, its value, and so on.
    Group(Entries<'a>),
}

/// The children of a list or group.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a> {
    event: &'a Event,
    next: usize,
    left: u64,
}

impl<'a> Iterator for Entries<'a> {
    type Item = View<'a>;
    fn next(&mut self) -> Option<View<'a>> {
        self.left = self.left.checked_sub(1)?;
        let view = self.event.view(self.next)?;
        self.next = self.event.behind(self.next, 1);
        Some(view)
    }
}

/// An event's top-level fields, as `(name, value)`.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    event: &'a Event,
    class: &'a Class,
    next: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a str, View<'a>);

    // A call would return the value through memory, where a caller waits for it.
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let value = self.event.value(self.next)?;
        let name = self.class.fields.get(self.next)?;
        self.next += 1;
        Some((name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Classes, Domain};

    fn class(fields: &[&str]) -> (Classes, ClassId) {
        let mut classes = Classes::default();
        let id = classes.add(Class::new(Domain::User, "t:e", fields.iter().copied()));
        (classes, id)
    }

    #[test]
    fn nested_values_come_back_as_they_were_pushed() {
        let (classes, id) = class(&["list", "group", "last"]);
        let mut event = Event::default();
        event.begin(Time(7), id);
        event.push(Value::List(2));
        event.push(Value::List(1));
        event.push(Value::unsigned(1));
        event.push(Value::unsigned(2));
        event.push(Value::Group(1));
        event.push_text(b"member");
        event.push(Value::List(0));
        event.push(Value::signed(-3));
        assert_eq!(event.len(), 3);

        let Some(View::List(mut list)) = event.value(0) else { panic!("no list") };
        let Some(View::List(inner)) = list.next() else { panic!("no inner list") };
        assert_eq!(inner.count(), 1);
        assert!(matches!(list.next(), Some(View::Unsigned(2, _))));
        assert!(list.next().is_none());
        let Some(View::Group(mut group)) = event.value(1) else { panic!("no group") };
        assert!(matches!(group.next(), Some(View::Text(b"member"))));
        assert!(matches!(group.next(), Some(View::List(_))));
        assert!(group.next().is_none());
        assert_eq!(event.integer(2), Some(-3));
        let names: Vec<_> = event.fields(&classes[id]).map(|(name, _)| name).collect();
        assert_eq!(names, ["list", "group", "last"]);
    }

    #[test]
    fn beginning_anew_leaves_nothing_of_the_event_before() {
        let (_, id) = class(&["a"]);
        let mut event = Event { cpu: Some(Cpu(1)), ..Event::default() };
        event.begin(Time(1), id);
        event.push(Value::List(5));
        event.begin(Time(2), id);
        event.push_text(b"x");
        assert_eq!((event.len(), event.text(0), event.cpu), (1, Some(&b"x"[..]), None));
    }

    #[test]
    fn a_list_that_lacks_elements_ends_early() {
        let (_, id) = class(&["a"]);
        let mut event = Event::default();
        event.begin(Time(1), id);
        event.push(Value::List(3));
        event.push(Value::unsigned(1));
        let Some(View::List(list)) = event.value(0) else { panic!("no list") };
        assert_eq!(list.count(), 1);
    }
}
