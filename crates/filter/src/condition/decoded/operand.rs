//! The operands of operations.

use super::super::tree::{EventVariable, Node, Tree};
use sordino_event::Class;
use sordino_event::functions::function_field;
use sordino_filter_vm::Number;
use std::ops::Range;
use std::sync::Arc;

/// The operand of an operation.
#[derive(Clone, Debug)]
pub(super) struct ConditionOperand {
    pub(super) source: ValueSource,
    /// The place in the condition's text.
    pub(super) at: Range<usize>,
    /// The operand as an error names it.
    pub(super) written: Arc<str>,
}

/// The place from which an operation gets the value of an operand.
#[derive(Clone, Debug)]
pub(super) enum ValueSource {
    Number(Number),
    /// The field with this index, or the requested element of it.
    Field(usize, Option<i128>),
    /// The result of the last calculation.
    Last,
    /// The result of an earlier calculation, which was kept.
    Earlier(usize),
    Variable(EventVariable),
    Annotation(Arc<str>),
    Counter(Arc<str>),
    /// The text that all events of the class have, if they have one.
    ClassText(Option<Arc<str>>),
    /// The name of the function whose address is in the field with this index.
    Function(Option<usize>),
    /// A part of the condition that has no value.
    Nothing,
}

impl ConditionOperand {
    /// Returns the operand that has this source in place of `tree`.
    pub(super) fn new(source: ValueSource, tree: &Tree, class: &Class) -> Self {
        let written = match &tree.node {
            Node::Field { name, .. } => format!("'{name}' of {}", class.name),
            Node::Variable(variable) => format!("${}", variable.name()),
            Node::Counter(name) => format!("$counter.{name}"),
            _ => "a text".to_owned(),
        };
        Self { source, at: tree.at.clone(), written: written.into() }
    }

    /// Returns true if the operand is a number in every event.
    pub(super) fn is_number(&self) -> bool {
        matches!(self.source, ValueSource::Number(_) | ValueSource::Last | ValueSource::Earlier(_))
    }
}

impl ValueSource {
    /// Returns the source of a tree's value in events of `class`, unless it is a field's. A tree that has parts has
    /// none.
    pub(super) fn of_leaf(tree: &Tree, class: &Class) -> Self {
        let (provider, name) = match class.name.split_once(':') {
            Some((provider, name)) => (Some(provider), name),
            None => (None, &*class.name),
        };
        match &tree.node {
            Node::Number(number) => Self::Number(*number),
            Node::Variable(EventVariable::Level) => Self::Number(
                class.level.map_or(Number::Nothing, |level| Number::Integer(level.number().into())),
            ),
            Node::Variable(EventVariable::Provider) => Self::ClassText(provider.map(Into::into)),
            Node::Variable(EventVariable::Name) => Self::ClassText(Some(name.into())),
            Node::Variable(EventVariable::Function) => Self::Function(function_field(class)),
            Node::Variable(variable) => Self::Variable(*variable),
            Node::Annotation(name) => Self::Annotation(name.as_str().into()),
            Node::Counter(name) => Self::Counter(name.as_str().into()),
            _ => Self::Nothing,
        }
    }
}
