//! The compiler of conditions for the events of a class.

use super::super::resolve::listed;
use super::operand::{ConditionOperand, ValueSource};
use super::{Calculation, ClassCondition, ConditionOp, Node, Tree};
use crate::Invalid;
use sordino_event::Class;
use sordino_filter_vm::{Number, Relation};
use std::ops::Range;

/// The operations so far.
struct ConditionCompiler<'a> {
    class: &'a Class,
    ops: Vec<ConditionOp>,
    /// The number of results that are kept for their operator, and the most so far.
    keeps: usize,
    kept: usize,
}

pub(in super::super) fn compile(tree: &Tree, class: &Class) -> Result<ClassCondition, Invalid> {
    let mut compiler = ConditionCompiler { class, ops: Vec::new(), keeps: 0, kept: 0 };
    compiler.test(tree, false)?;
    Ok(ClassCondition { ops: compiler.ops.into(), kept: compiler.kept })
}

pub(in super::super) fn lacking(tree: &Tree, class: &Class) -> Option<Invalid> {
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

impl ConditionCompiler<'_> {
    /// Compiles the test that `tree` holds or, with `negated`, that its opposite holds. A comparison that cannot be
    /// made holds in neither case.
    fn test(&mut self, tree: &Tree, negated: bool) -> Result<(), Invalid> {
        match &tree.node {
            Node::Not(part) => self.test(part, !negated),
            Node::All(parts) => self.series(parts, negated, !negated),
            Node::Any(parts) => self.series(parts, negated, negated),
            Node::Compare(relation, left, right) => {
                let relation = if negated { relation.opposite() } else { *relation };
                self.comparison(tree, relation, left, right)
            }
            _ => {
                let relation = if negated { Relation::Equal } else { Relation::Unequal };
                let left = self.operand(tree)?;
                let right = ConditionOperand::new(ValueSource::Number(Number::Integer(0)), tree, self.class);
                self.ops.push(ConditionOp::CompareNumbers { relation, left, right });
                Ok(())
            }
        }
    }

    /// Compiles tests of which all have to hold, or any. Behind each, the first result that decides jumps to the end.
    fn series(&mut self, parts: &[Tree], negated: bool, all: bool) -> Result<(), Invalid> {
        let mut jumps = Vec::new();
        for part in parts {
            self.test(part, negated)?;
            jumps.push(self.ops.len());
            self.ops.push(ConditionOp::Jump { on: !all, to: 0 });
        }
        // The last part's result is that of the whole.
        self.ops.truncate(jumps.pop().unwrap_or(self.ops.len()));
        for jump in jumps {
            self.ops[jump] = ConditionOp::Jump { on: !all, to: self.ops.len() };
        }
        Ok(())
    }

    fn comparison(
        &mut self,
        tree: &Tree,
        relation: Relation,
        left: &Tree,
        right: &Tree,
    ) -> Result<(), Invalid> {
        // A text in quotes goes to the right.
        let (left, right, relation) = match left.node {
            Node::Text(_) => (right, left, relation.mirrored()),
            _ => (left, right, relation),
        };
        if let Node::Text(pattern) = &right.node {
            let (text, pattern) = (self.operand(left)?, pattern.as_str().into());
            self.ops.push(ConditionOp::Match { relation, text, pattern, at: tree.at.clone() });
            return Ok(());
        }
        let (left, right) = self.operands(left, right)?;
        self.ops.push(match left.is_number() && right.is_number() {
            true => ConditionOp::CompareNumbers { relation, left, right },
            false => ConditionOp::Compare { relation, left, right },
        });
        Ok(())
    }

    /// Returns two operands, and compiles the calculations of them.
    fn operands(
        &mut self,
        left: &Tree,
        right: &Tree,
    ) -> Result<(ConditionOperand, ConditionOperand), Invalid> {
        let first = self.operand(left)?;
        if !matches!(first.source, ValueSource::Last) || Tree::parts(&right.node).is_empty() {
            return Ok((first, self.operand(right)?));
        }
        let place = self.keeps;
        self.ops.push(ConditionOp::Keep(place));
        self.keeps += 1;
        self.kept = self.kept.max(self.keeps);
        let second = self.operand(right)?;
        self.keeps = place;
        Ok((ConditionOperand { source: ValueSource::Earlier(place), ..first }, second))
    }

    /// Returns the operand that has the value of `tree`, and compiles the calculation of it.
    fn operand(&mut self, tree: &Tree) -> Result<ConditionOperand, Invalid> {
        let calculation = match &tree.node {
            Node::Negate(part) => Calculation::Negate(self.operand(part)?),
            Node::Complement(part) => Calculation::Complement(self.operand(part)?),
            Node::Apply(operator, left, right) => {
                let (left, right) = self.operands(left, right)?;
                Calculation::Apply(*operator, left, right)
            }
            Node::Field { name, index } => {
                let field = field(self.class, name, &tree.at)?;
                return Ok(ConditionOperand::new(ValueSource::Field(field, *index), tree, self.class));
            }
            _ => return Ok(ConditionOperand::new(ValueSource::of_leaf(tree, self.class), tree, self.class)),
        };
        self.ops.push(ConditionOp::Calculate(calculation));
        Ok(ConditionOperand::new(ValueSource::Last, tree, self.class))
    }
}
