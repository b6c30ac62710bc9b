//! Many decoded events, for another thread.

use super::{Event, EventHead, Value};

/// The number of values, or of bytes, from which on an event gets no more room than it needs.
const LARGE: usize = 1 << 16;

/// Decoded events in order, which are taken in that order.
///
/// The values of all events are in a few vectors. An event that was decoded on one CPU is read on another from one or
/// two cache lines, which that CPU fetches ahead; the buffers of an [`Event`] would be several lines anywhere in
/// memory. Nothing is allocated once the buffers have grown to the largest batch.
///
/// ```
/// use sordino_event::{ClassId, Event, EventBatch, Time, Value};
/// let (mut batch, mut event) = (EventBatch::default(), Event::default());
/// for time in 1..=2 {
///     event.begin(Time(time), ClassId::default());
///     event.push(Value::signed(10 * time));
///     batch.push(&event);
/// }
/// assert!(batch.take(&mut event) && event.time == Time(1) && event.integer(0) == Some(10));
/// assert!(batch.take(&mut event) && event.integer(0) == Some(20));
/// assert!(!batch.take(&mut event));
/// ```
#[derive(Clone, Debug, Default)]
pub struct EventBatch {
    events: Vec<BatchedEvent>,
    values: Vec<Value>,
    bytes: Vec<u8>,
    starts: Vec<u32>,
    /// The number of events that were taken, and the offsets of the next one's values.
    taken: usize,
    next: [usize; 3],
}

/// An event without its values.
#[derive(Clone, Copy, Debug)]
struct BatchedEvent {
    head: EventHead,
    /// The lengths of its parts of `values`, `bytes` and `starts`.
    lengths: [u32; 3],
}

impl EventBatch {
    /// Adds a copy of an event.
    #[inline]
    pub fn push(&mut self, event: &Event) {
        let Event { values, bytes, starts, .. } = event;
        let lengths = [values.len(), bytes.len(), starts.len()].map(|length| length as u32);
        self.events.push(BatchedEvent { head: event.head(), lengths });
        if values.len() > LARGE || bytes.len() > LARGE {
            self.values.reserve_exact(values.len());
            self.bytes.reserve_exact(bytes.len());
        }
        self.values.extend_from_slice(values);
        self.bytes.extend_from_slice(bytes);
        self.starts.extend_from_slice(starts);
    }

    /// Copies the next event into `event`. Returns false if all were taken; `event` is unchanged then.
    #[inline]
    pub fn take(&mut self, event: &mut Event) -> bool {
        let Some(&BatchedEvent { head, lengths }) = self.events.get(self.taken) else { return false };
        event.begin(head.time, head.class);
        (event.cpu, event.pid, event.tid) = (head.cpu, head.pid, head.tid);
        let [values, bytes, starts] = lengths.map(|length| length as usize);
        let [value, byte, start] = &mut self.next;
        event.values.extend_from_slice(&self.values[*value..*value + values]);
        event.bytes.extend_from_slice(&self.bytes[*byte..*byte + bytes]);
        event.starts.extend_from_slice(&self.starts[*start..*start + starts]);
        (*value, *byte, *start) = (*value + values, *byte + bytes, *start + starts);
        self.taken += 1;
        true
    }

    /// Removes all events, and keeps the buffers.
    pub fn clear(&mut self) {
        self.events.clear();
        self.values.clear();
        self.bytes.clear();
        self.starts.clear();
        (self.taken, self.next) = (0, [0; 3]);
    }

    /// Returns the number of events, taken or not.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns true if no event was added.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns the number of events that were taken.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Returns the number of bytes that the events take.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.events)
            + size_of_val(&*self.values)
            + self.bytes.len()
            + size_of_val(&*self.starts)
    }

    /// Returns the number of bytes that the buffers take.
    pub fn memory(&self) -> usize {
        self.events.capacity() * size_of::<BatchedEvent>()
            + self.values.capacity() * size_of::<Value>()
            + self.bytes.capacity()
            + self.starts.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClassId, Cpu, Tid, Time};
    use proptest::prelude::*;

    /// An event with a list and a text.
    fn event((time, cpu, list, text): &(i64, Option<u32>, Vec<u64>, Vec<u8>)) -> Event {
        let mut event = Event::default();
        event.begin(Time(*time), ClassId::default());
        (event.cpu, event.tid) = (cpu.map(Cpu), Some(Tid(*time as i32)));
        event.push(Value::List(list.len() as u32));
        list.iter().for_each(|value| event.push(Value::unsigned(*value)));
        event.push_text(text);
        event
    }

    proptest! {
        #[test]
        fn events_come_back_as_they_were(
            events in prop::collection::vec(any::<(i64, Option<u32>, Vec<u64>, Vec<u8>)>(), 0..9), rounds in 1..3,
        ) {
            let (mut batch, mut taken) = (EventBatch::default(), Event::default());
            for _ in 0..rounds {
                batch.clear();
                events.iter().for_each(|values| batch.push(&event(values)));
                prop_assert_eq!((batch.len(), batch.is_empty()), (events.len(), events.is_empty()));
                for (index, values) in events.iter().enumerate() {
                    prop_assert_eq!(batch.taken(), index);
                    prop_assert!(batch.take(&mut taken));
                    prop_assert_eq!(format!("{taken:?}"), format!("{:?}", event(values)));
                }
                prop_assert!(!batch.take(&mut taken));
                prop_assert!(batch.bytes() <= batch.memory());
            }
        }
    }
}
