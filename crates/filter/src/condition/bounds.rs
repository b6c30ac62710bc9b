//! The fields that a condition bounds, each with the side of the bound.

use super::tree::{Node, Tree};
use sordino_filter_vm::Relation;

/// Returns the fields that `tree` compares by less or greater, each with true if lesser values meet the condition.
/// Negated parts are left out: they do not show which values are worse.
pub(super) fn bounds(tree: &Tree) -> Vec<(&str, bool)> {
    match &tree.node {
        Node::All(parts) | Node::Any(parts) => parts.iter().flat_map(bounds).collect(),
        Node::Compare(relation, left, right) => {
            let less = match relation {
                Relation::Less | Relation::LessOrEqual => true,
                Relation::Greater | Relation::GreaterOrEqual => false,
                Relation::Equal | Relation::Unequal => return Vec::new(),
            };
            match (field(left), field(right)) {
                (Some(name), None) => vec![(name, less)],
                (None, Some(name)) => vec![(name, !less)],
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}

fn field(tree: &Tree) -> Option<&str> {
    match &tree.node {
        Node::Field { name, index: None } => Some(name),
        _ => None,
    }
}
