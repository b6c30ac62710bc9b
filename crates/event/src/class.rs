//! The classes that decoded events belong to.

use crate::Level;
use std::ops::Index;

/// The origin of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Domain {
    /// A tracepoint of a program.
    User,
    /// An event of the kernel.
    Kernel,
}

/// The description that all events of one kind share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The origin of these events.
    pub domain: Domain,
    /// `provider:name` of a tracepoint; the bare name of a kernel event.
    pub name: String,
    /// The class's number in its trace, if it has one; another trace may give the number to another class.
    pub number: Option<u64>,
    /// The log level, where one was declared.
    pub level: Option<Level>,
    /// The names of the top-level fields, in the order of an event's values. Contexts that the trace adds to its events
    /// follow the payload's fields, named `$ctx.NAME`.
    pub fields: Vec<String>,
}

impl Class {
    /// Creates a class without a number and a level.
    pub fn new<S: Into<String>>(
        domain: Domain,
        name: impl Into<String>,
        fields: impl IntoIterator<Item = S>,
    ) -> Self {
        Self {
            domain,
            name: name.into(),
            number: None,
            level: None,
            fields: fields.into_iter().map(Into::into).collect(),
        }
    }

    /// Returns the index of the field called `name`, for [`Event::value`](crate::Event::value) and its kin.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field == name)
    }
}

/// The number of a [`Class`] within one [`Classes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(u32);

impl ClassId {
    /// Returns the class's index in [`Classes`], from 0, so that an analysis can keep its data of classes in a `Vec`.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// All classes of the traces that are read together.
#[derive(Clone, Debug, Default)]
pub struct Classes(Vec<Class>);

impl Classes {
    /// Adds `class` and returns its id.
    ///
    /// # Panics
    /// When there are more than 2^32 classes.
    pub fn add(&mut self, class: Class) -> ClassId {
        let id = u32::try_from(self.0.len()).expect("fewer than 2^32 classes");
        self.0.push(class);
        ClassId(id)
    }

    /// Returns the number of classes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there is no class.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the classes with their ids, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (ClassId, &Class)> {
        (0..).map(ClassId).zip(&self.0)
    }
}

impl Index<ClassId> for Classes {
    type Output = Class;
    /// # Panics
    /// If `id` came from another `Classes`.
    fn index(&self, id: ClassId) -> &Class {
        &self.0[id.index()]
    }
}
