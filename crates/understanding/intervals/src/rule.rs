//! The rule that selects intervals.

use std::fmt;
use std::str::FromStr;

/// The rule that selects intervals: from one event to another one that belongs to it.
///
/// It is written `EVENT`, for intervals from each such event of a thread to its next one, or `BEGIN..END`. Events
/// belong together if they have the same thread, or the same value of the key behind an `@`: a field's name, or `$cpu`.
///
/// ```
/// use sordino_intervals::IntervalRule;
/// let loops: IntervalRule = "npt:loop".parse()?;
/// let requests: IntervalRule = "net:request@id..net:answer@id".parse()?;
/// let reaction: IntervalRule = "sched_waking@tid..npt:loop".parse()?;
/// assert_eq!(requests.to_string(), "net:request@id..net:answer@id");
/// # Ok::<(), sordino_intervals::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntervalRule {
    /// The event that begins an interval.
    pub begin: Point,
    /// The event that ends it. When it is the same as `begin`, each event ends one interval and begins the next.
    pub end: Point,
}

/// One end of an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The event's name: `provider:name`, or the bare name of a kernel event.
    pub event: String,
    /// The key that an end shares with its begin.
    pub key: Key,
}

/// A key that the two ends of an interval share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// The thread of the event.
    Thread,
    /// The CPU of the event.
    Cpu,
    /// The value of the field of this name, or a thread's id at the other end.
    Field(String),
}

impl IntervalRule {
    /// Creates the rule for intervals from each event called `event` of a thread to its next one.
    pub fn between(event: &str) -> Self {
        let point = Point { event: event.to_owned(), key: Key::Thread };
        Self { begin: point.clone(), end: point }
    }

    /// Returns true if each event ends one interval and begins the next.
    pub fn is_chain(&self) -> bool {
        self.begin == self.end
    }
}

impl fmt::Display for IntervalRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.begin)?;
        if self.is_chain() { Ok(()) } else { write!(f, "..{}", self.end) }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.event)?;
        match &self.key {
            Key::Thread => Ok(()),
            Key::Cpu => f.write_str("@$cpu"),
            Key::Field(name) => write!(f, "@{name}"),
        }
    }
}

impl FromStr for IntervalRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (begin, end) = text.split_once("..").unwrap_or((text, text));
        let point = |text| point(text).ok_or_else(|| Error::Rule { text: text.to_owned() });
        Ok(Self { begin: point(begin)?, end: point(end)? })
    }
}

fn point(text: &str) -> Option<Point> {
    let (event, key) = match text.split_once('@') {
        None => (text, Key::Thread),
        Some((event, "$cpu")) => (event, Key::Cpu),
        Some((event, field)) => (event, Key::Field(field.to_owned())),
    };
    let is_name = |text: &str| !text.is_empty() && !text.contains(['@', ' ']) && !text.contains("..");
    let is_key = match &key {
        Key::Field(name) => is_name(name),
        Key::Thread | Key::Cpu => true,
    };
    (is_name(event) && is_key).then(|| Point { event: event.to_owned(), key })
}

/// An error in a rule, by itself or for a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is no [`IntervalRule`].
    #[error("`{text}` is neither EVENT nor BEGIN..END, each with an optional @FIELD")]
    Rule {
        /// The part that is invalid.
        text: String,
    },
    /// No event of that name is declared in the trace.
    #[error("the trace has no event called `{event}`")]
    Event {
        /// The name of the event.
        event: String,
    },
    /// None of the events of that name has such a field.
    #[error("the event `{event}` has no field called `{field}`")]
    Field {
        /// The name of the event.
        event: String,
        /// The name of the field.
        field: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_prints_as_it_is_parsed() {
        for text in ["npt:loop", "a:begin..a:end", "a:in@id..b:out@id", "sched_waking@tid..npt:loop", "e@f"] {
            assert_eq!(text.parse::<IntervalRule>().map(|rule| rule.to_string()).as_deref(), Ok(text));
        }
        assert_eq!("npt:loop".parse(), Ok(IntervalRule::between("npt:loop")));
        assert!("irq@$cpu..irq@$cpu".parse::<IntervalRule>().is_ok_and(|rule| rule.is_chain()));
    }

    #[test]
    fn what_is_no_rule_is_refused_with_its_part() {
        for (text, part) in [
            ("", ""),
            ("a..", ""),
            ("..b", ""),
            ("a@", "a@"),
            ("a@b@c", "a@b@c"),
            ("a..b c", "b c"),
            ("a..b..c", "b..c"),
        ] {
            assert_eq!(text.parse::<IntervalRule>(), Err(Error::Rule { text: part.to_owned() }), "{text}");
        }
    }
}
