//! Conditions on decoded events, evaluated on the tree with the machine's arithmetic.
//!
//! A decoded event has values and no layout, so the type of a value is known only when the value is read.

use super::resolve::listed;
use super::tree::{EventVariable, Node, Tree};
use crate::Invalid;
use sordino_event::functions::function;
use sordino_event::{Class, Cpu, Domain, Event, Nanos, Pid, Tid, View};
use sordino_filter_vm::{Number, Operator, Relation, glob};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// The names of functions, by their addresses in processes.
pub trait FunctionNames: Debug {
    /// Returns the name of the function at this address of a process, as its source has it; `None` if it is not known.
    fn name(&self, pid: Pid, address: u64) -> Option<Arc<str>>;

    /// Returns the number of functions so far whose names are not known.
    fn unnamed(&self) -> usize;
}

/// The facts about a decoded event besides its class and its fields.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// The value of `$cpu`.
    pub cpu: Option<Cpu>,
    /// The value of `$pid`.
    pub pid: Option<Pid>,
    /// The value of `$tid`.
    pub tid: Option<Tid>,
    /// The value of `$comm`, the thread's name.
    pub comm: Option<&'a str>,
    /// The value of `$procname`, the program's name.
    pub procname: Option<&'a str>,
    /// The value of `$prio`: the thread's priority in the kernel's numbering.
    pub priority: Option<i32>,
    /// The value of `$host`, the name of the machine.
    pub host: Option<&'a str>,
    /// The value of `$domain`: the origin of the event.
    pub domain: Option<Domain>,
    /// The value of `$time`: the time since the recording began.
    pub time: Option<Nanos>,
    /// The value of `$fiber`: the number of the thread's fiber, and its name if that is known.
    pub fiber: Option<(u64, Option<&'a str>)>,
    /// The annotations of the thread, by name.
    pub annotations: Option<&'a BTreeMap<Arc<str>, Arc<str>>>,
    /// The performance counters at the event, with their names.
    pub counters: &'a [(Arc<str>, u64)],
    /// The names of functions, for the value of `$function` at their entries and exits.
    pub functions: Option<&'a dyn FunctionNames>,
}

/// One side of a comparison.
enum Side<'a> {
    Number(Number),
    /// An enumeration's label, if its value has one.
    Label(Number, Option<&'a [u8]>),
    Text(&'a [u8]),
    /// The name of a function.
    Name(Arc<str>),
    /// A text in quotes.
    Pattern(&'a str),
    /// The trace does not have the value, or the sequence does not have the element: no comparison holds.
    Unknown,
}

/// The event, and the facts about it, on which a tree is evaluated.
struct Evaluation<'a> {
    class: &'a Class,
    event: &'a Event,
    known: &'a Known<'a>,
}

pub(super) fn is_met(tree: &Tree, class: &Class, event: &Event, known: &Known<'_>) -> Result<bool, Invalid> {
    Evaluation { class, event, known }.test(tree, false)
}

pub(super) fn lacking(tree: &Tree, class: &Class) -> Option<Invalid> {
    match &tree.node {
        Node::Field { name, .. } => field(class, name, &tree.at).err(),
        node => Tree::parts(node).into_iter().find_map(|part| lacking(part, class)),
    }
}

fn field(class: &Class, name: &str, at: &Range<usize>) -> Result<usize, Invalid> {
    class.field(name).ok_or_else(|| {
        let fields = listed(class.fields.iter().map(String::as_str));
        Invalid::new(at.clone(), format!("no field '{name}': {} has {fields}", class.name))
    })
}

impl<'a> Evaluation<'a> {
    /// Returns true if `tree` holds or, with `negated`, if its opposite holds. A comparison that cannot be made holds
    /// in neither case.
    fn test(&self, tree: &'a Tree, negated: bool) -> Result<bool, Invalid> {
        match &tree.node {
            Node::Not(part) => self.test(part, !negated),
            Node::All(parts) | Node::Any(parts) => {
                let all = matches!(tree.node, Node::All(_)) != negated;
                for part in parts {
                    if self.test(part, negated)? != all {
                        return Ok(!all);
                    }
                }
                Ok(all)
            }
            Node::Compare(relation, left, right) => {
                let relation = if negated { relation.opposite() } else { *relation };
                if let (Some(left), Some(right)) = (self.small(left), self.small(right)) {
                    return Ok(relation.holds(Number::Integer(left.into()), Number::Integer(right.into())));
                }
                self.comparison(tree, relation, left, right)
            }
            _ => {
                let relation = if negated { Relation::Equal } else { Relation::Unequal };
                Ok(relation.holds(self.value(tree)?, Number::Integer(0)))
            }
        }
    }

    fn comparison(
        &self,
        tree: &'a Tree,
        relation: Relation,
        left: &'a Tree,
        right: &'a Tree,
    ) -> Result<bool, Invalid> {
        // A text in quotes goes to the right.
        let (left, right, relation) = match left.node {
            Node::Text(_) => (right, left, relation.mirrored()),
            _ => (left, right, relation),
        };
        let matches = |pattern: &str, text: Option<&[u8]>| {
            let unlike = match relation {
                Relation::Equal => false,
                Relation::Unequal => true,
                _ => {
                    let message = "texts and labels are compared with == and != only";
                    return Err(Invalid::new(tree.at.clone(), message));
                }
            };
            Ok(text.is_some_and(|text| glob::matches(pattern.as_bytes(), text)) != unlike)
        };
        let mismatch = |tree: &Tree, what: &str| {
            let written = match &tree.node {
                Node::Field { name, .. } => format!("'{name}' of {}", self.class.name),
                Node::Variable(variable) => format!("${}", variable.name()),
                Node::Counter(name) => format!("$counter.{name}"),
                _ => "a text".to_owned(),
            };
            Err(Invalid::new(tree.at.clone(), format!("{written} is {what}")))
        };
        match (self.side(left)?, self.side(right)?) {
            (Side::Unknown, _) | (_, Side::Unknown) => Ok(false),
            (Side::Text(text), Side::Pattern(pattern)) => matches(pattern, Some(text)),
            (Side::Name(name), Side::Pattern(pattern)) => matches(pattern, Some(name.as_bytes())),
            (Side::Label(_, label), Side::Pattern(pattern)) => matches(pattern, label),
            (Side::Number(a) | Side::Label(a, _), Side::Number(b) | Side::Label(b, _)) => {
                Ok(relation.holds(a, b))
            }
            (Side::Number(_), Side::Pattern(_)) => mismatch(left, "not compared with a text"),
            (_, Side::Text(_) | Side::Name(_)) => mismatch(right, "compared with a text in quotes only"),
            (Side::Text(_) | Side::Name(_) | Side::Pattern(_), _) => {
                mismatch(left, "compared with a text in quotes only")
            }
        }
    }

    fn side(&self, tree: &'a Tree) -> Result<Side<'a>, Invalid> {
        let name = || self.class.name.as_str();
        let known =
            |text: Option<&'a str>| Ok(text.map_or(Side::Unknown, |text| Side::Text(text.as_bytes())));
        match &tree.node {
            Node::Text(pattern) => Ok(Side::Pattern(pattern)),
            Node::Variable(EventVariable::Comm) => known(self.known.comm),
            Node::Variable(EventVariable::Procname) => known(self.known.procname),
            Node::Variable(EventVariable::Host) => known(self.known.host),
            Node::Variable(EventVariable::Domain) => known(self.known.domain.map(domain_name)),
            Node::Variable(EventVariable::Fiber) => Ok(match self.known.fiber {
                Some((number, name)) => Side::Label(Number::Integer(number.into()), name.map(str::as_bytes)),
                None => Side::Unknown,
            }),
            Node::Variable(EventVariable::Function) => Ok(self.function().map_or(Side::Unknown, Side::Name)),
            Node::Annotation(name) => Ok(match self.annotation(name) {
                Some(text) => Side::Label(number_in(text), Some(text.as_bytes())),
                None => Side::Unknown,
            }),
            Node::Variable(EventVariable::Provider) => {
                known(name().split_once(':').map(|(provider, _)| provider))
            }
            Node::Variable(EventVariable::Name) => {
                known(Some(name().split_once(':').map_or(name(), |(_, name)| name)))
            }
            Node::Field { name, index } => Ok(match self.view(name, *index, &tree.at)? {
                Some(View::Text(text)) => Side::Text(text),
                Some(View::Label(value, label)) => Side::Label(Number::Integer(value.into()), label),
                Some(view) => Side::Number(self.number(&view, tree)?),
                None => Side::Unknown,
            }),
            _ => self.value(tree).map(Side::Number),
        }
    }

    /// Returns the value of a tree if it, and each value on the way to it, is an integer of 64 bits; `value` has the
    /// others. Most comparisons are of such integers, and most events of a recording fail one.
    fn small(&self, tree: &Tree) -> Option<i64> {
        match &tree.node {
            Node::Number(Number::Integer(number)) => i64::try_from(*number).ok(),
            Node::Field { name, index: None } => self.event.integer(self.class.field(name)?),
            Node::Apply(operator, left, right) => {
                let (left, right) = (self.small(left)?, self.small(right)?);
                match operator {
                    Operator::Add => left.checked_add(right),
                    Operator::Subtract => left.checked_sub(right),
                    Operator::Multiply => left.checked_mul(right),
                    Operator::Divide => left.checked_div(right),
                    Operator::Remainder => left.checked_rem(right),
                    Operator::And => Some(left & right),
                    Operator::Or => Some(left | right),
                    Operator::Xor => Some(left ^ right),
                    Operator::ShiftLeft | Operator::ShiftRight => None,
                }
            }
            _ => None,
        }
    }

    fn value(&self, tree: &Tree) -> Result<Number, Invalid> {
        let integer = |value: Option<i128>| value.map_or(Number::Nothing, Number::Integer);
        Ok(match &tree.node {
            Node::Number(number) => *number,
            Node::Variable(EventVariable::Tid) => integer(self.known.tid.map(|tid| tid.0.into())),
            Node::Variable(EventVariable::Pid) => integer(self.known.pid.map(|pid| pid.0.into())),
            Node::Variable(EventVariable::Cpu) => integer(self.known.cpu.map(|cpu| cpu.0.into())),
            Node::Variable(EventVariable::Prio) => integer(self.known.priority.map(Into::into)),
            Node::Variable(EventVariable::Fiber) => {
                integer(self.known.fiber.map(|(number, _)| number.into()))
            }
            Node::Variable(EventVariable::Time) => integer(self.known.time.map(|time| time.0.into())),
            Node::Annotation(name) => self.annotation(name).map_or(Number::Nothing, number_in),
            Node::Counter(name) => integer(self.counter(name).map(Into::into)),
            Node::Variable(EventVariable::Level) => {
                integer(self.class.level.map(|level| level.number().into()))
            }
            Node::Field { name, index } => match self.view(name, *index, &tree.at)? {
                Some(view) => self.number(&view, tree)?,
                None => Number::Nothing,
            },
            Node::Negate(part) => self.value(part)?.negated(),
            Node::Complement(part) => self.value(part)?.complement(),
            Node::Apply(operator, left, right) => operator.apply(self.value(left)?, self.value(right)?),
            // Address ranges are resolved for programs only.
            Node::Functions(_)
            | Node::Variable(_)
            | Node::Text(_)
            | Node::Compare(..)
            | Node::Not(_)
            | Node::All(_)
            | Node::Any(_) => return Err(Invalid::new(tree.at.clone(), "a number is needed here")),
        })
    }

    fn annotation(&self, name: &str) -> Option<&'a str> {
        self.known.annotations?.get(name).map(|text| &**text)
    }

    /// Returns the name of the function that the event is about.
    fn function(&self) -> Option<Arc<str>> {
        let (names, pid) = self.known.functions.zip(self.known.pid)?;
        names.name(pid, function(self.class, self.event)?)
    }

    fn counter(&self, name: &str) -> Option<u64> {
        self.known.counters.iter().find(|(known, _)| **known == *name).map(|(_, count)| *count)
    }

    /// Returns the field's value, or that of its element.
    fn view(&self, name: &str, index: Option<i128>, at: &Range<usize>) -> Result<Option<View<'a>>, Invalid> {
        let view = self.event.value(field(self.class, name, at)?);
        let Some(index) = index else { return Ok(view) };
        match view {
            Some(View::List(mut elements)) => {
                Ok(usize::try_from(index).ok().and_then(|index| elements.nth(index)))
            }
            Some(_) => {
                let message = format!("'{name}' of {} has no elements", self.class.name);
                Err(Invalid::new(at.clone(), message))
            }
            None => Ok(None),
        }
    }

    fn number(&self, view: &View<'_>, tree: &Tree) -> Result<Number, Invalid> {
        match *view {
            View::Unsigned(value, _) => Ok(Number::Integer(value.into())),
            View::Signed(value, _) | View::Label(value, _) => Ok(Number::Integer(value.into())),
            View::Float(value) => Ok(Number::Float(value)),
            View::Text(_) => Err(Invalid::new(tree.at.clone(), "a text is no number")),
            View::List(_) => {
                let message = "these are many values: choose one, as in NAME[0]";
                Err(Invalid::new(tree.at.clone(), message))
            }
            View::Group(_) => Err(Invalid::new(tree.at.clone(), "a structure is no number")),
        }
    }
}

fn domain_name(domain: Domain) -> &'static str {
    match domain {
        Domain::Kernel => "kernel",
        Domain::User => "user",
    }
}

/// Returns the integer in an annotation's text; `None` if the text is no integer.
fn number_in(text: &str) -> Number {
    text.parse().map_or(Number::Nothing, Number::Integer)
}
