//! The environment of a trace: the description of its recording.

use std::collections::BTreeMap;

/// The value of an environment entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A signed integer value.
    Integer(i64),
    /// A text, in UTF-8.
    Text(String),
}

impl From<i64> for Setting {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<&str> for Setting {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

/// A trace's `env` block: names and their values, sorted by name.
///
/// ```
/// let mut env = sordino_ctf::Environment::default();
/// env.set("domain", "ust").set("vpid", 4711);
/// assert_eq!((env.text("domain"), env.integer("vpid")), (Some("ust"), Some(4711)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, Setting>);

impl Environment {
    /// Sets the value of `name`; the last value counts.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Setting>) -> &mut Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// Returns the value of `name`.
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.0.get(name)
    }

    /// Returns the value of `name`, if it is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Setting::Text(text) => Some(text),
            Setting::Integer(_) => None,
        }
    }

    /// Returns the value of `name`, if it is a number.
    pub fn integer(&self, name: &str) -> Option<i64> {
        match self.get(name)? {
            Setting::Integer(number) => Some(*number),
            Setting::Text(_) => None,
        }
    }

    /// Iterates over the entries, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}
