//! Which fields a condition bounds, and on which side.

use super::number::Relation;
use super::tree::{Node, Tree};

/// The fields that `tree` compares with something by less or greater, each with whether the less ones meet it. What is negated says
/// nothing of what is worse.
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
