//! A condition's syntax tree, independent of any tracepoint.

use sordino_filter_vm::{Number, Operator, Relation};
use std::ops::{Range, RangeInclusive};

/// Field with the address of a function, to which `$function` refers.
pub(super) const FUNCTION: &str = sordino_event::functions::FUNCTION;

/// A part of a condition and its place in the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tree {
    pub(super) at: Range<usize>,
    /// The depth of the nested parts, this one included.
    pub(super) height: usize,
    pub(super) node: Node,
}

/// The kind of a part.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Number(Number),
    /// A pattern for texts.
    Text(String),
    Field {
        name: String,
        /// The index of an element, if one is requested.
        index: Option<i128>,
    },
    Variable(EventVariable),
    /// An annotation of the event's thread, by name; known for decoded events only.
    Annotation(String),
    /// A performance counter at the event, by name; known for decoded events only.
    Counter(String),
    Negate(Box<Tree>),
    Complement(Box<Tree>),
    Apply(Operator, Box<Tree>, Box<Tree>),
    Compare(Relation, Box<Tree>, Box<Tree>),
    /// The comparison of `$function` with a text, resolved: the function's address lies in one of these ranges.
    Functions(Vec<RangeInclusive<u64>>),
    Not(Box<Tree>),
    All(Vec<Tree>),
    Any(Vec<Tree>),
}

/// The variables that a condition can use beside fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventVariable {
    Tid,
    Pid,
    Procname,
    Level,
    Provider,
    Name,
    Cpu,
    Comm,
    Prio,
    Host,
    Domain,
    Time,
    Fiber,
    Function,
}

impl EventVariable {
    pub(super) const ALL: [Self; 14] = [
        Self::Tid,
        Self::Pid,
        Self::Procname,
        Self::Level,
        Self::Provider,
        Self::Name,
        Self::Cpu,
        Self::Comm,
        Self::Prio,
        Self::Host,
        Self::Domain,
        Self::Time,
        Self::Fiber,
        Self::Function,
    ];

    /// Returns true if the value is not available in a program that hits a tracepoint.
    pub(super) fn is_of_recorded_events(self) -> bool {
        matches!(
            self,
            Self::Cpu | Self::Comm | Self::Prio | Self::Host | Self::Domain | Self::Time | Self::Fiber
        )
    }

    /// Returns the name as it is written behind the `$`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tid => "tid",
            Self::Pid => "pid",
            Self::Cpu => "cpu",
            Self::Comm => "comm",
            Self::Procname => "procname",
            Self::Level => "level",
            Self::Provider => "provider",
            Self::Name => "name",
            Self::Prio => "prio",
            Self::Host => "host",
            Self::Domain => "domain",
            Self::Time => "time",
            Self::Fiber => "fiber",
            Self::Function => "function",
        }
    }
}

impl Tree {
    pub(super) fn new(at: Range<usize>, node: Node) -> Self {
        let height = 1 + Self::parts(&node).iter().map(|part| part.height).max().unwrap_or(0);
        Self { at, height, node }
    }

    /// Returns the names of the fields in the tree.
    pub(super) fn fields(&self) -> Vec<&str> {
        match &self.node {
            Node::Field { name, .. } => vec![name],
            Node::Variable(EventVariable::Function) | Node::Functions(_) => vec![FUNCTION],
            node => Self::parts(node).into_iter().flat_map(Self::fields).collect(),
        }
    }

    /// Returns the tree in which each comparison of `$function` with a text has the addresses that `resolve` returns.
    pub(super) fn with_functions(&self, resolve: &mut impl FnMut(&str) -> Vec<RangeInclusive<u64>>) -> Self {
        let node = match &self.node {
            Node::Compare(relation @ (Relation::Equal | Relation::Unequal), left, right) => {
                match (&left.node, &right.node) {
                    (Node::Variable(EventVariable::Function), Node::Text(pattern))
                    | (Node::Text(pattern), Node::Variable(EventVariable::Function)) => {
                        let functions = Node::Functions(resolve(pattern));
                        match relation {
                            Relation::Equal => functions,
                            _ => Node::Not(Box::new(Self::new(self.at.clone(), functions))),
                        }
                    }
                    _ => return self.clone(),
                }
            }
            Node::Not(part) => Node::Not(Box::new(part.with_functions(resolve))),
            Node::All(parts) => Node::All(parts.iter().map(|part| part.with_functions(resolve)).collect()),
            Node::Any(parts) => Node::Any(parts.iter().map(|part| part.with_functions(resolve)).collect()),
            _ => return self.clone(),
        };
        Self::new(self.at.clone(), node)
    }

    /// Returns true if the tree has `$function` in it.
    pub(super) fn names_functions(&self) -> bool {
        matches!(self.node, Node::Variable(EventVariable::Function))
            || Self::parts(&self.node).into_iter().any(Self::names_functions)
    }

    /// Returns the parts that a node consists of.
    pub(super) fn parts(node: &Node) -> Vec<&Self> {
        match node {
            Node::Number(_)
            | Node::Text(_)
            | Node::Field { .. }
            | Node::Variable(_)
            | Node::Annotation(_)
            | Node::Counter(_)
            | Node::Functions(_) => Vec::new(),
            Node::Negate(part) | Node::Complement(part) | Node::Not(part) => vec![part],
            Node::Apply(_, left, right) | Node::Compare(_, left, right) => vec![left, right],
            Node::All(parts) | Node::Any(parts) => parts.iter().collect(),
        }
    }
}
