//! The times that a condition allows.

use super::tree::{EventVariable, Node, Tree};
use sordino_event::Nanos;
use sordino_filter_vm::{Number, Relation};
use std::ops::RangeInclusive;

/// Returns the times since the recording began outside of which `tree` cannot hold.
pub(super) fn span(tree: &Tree) -> RangeInclusive<Nanos> {
    let all = Nanos(i64::MIN)..=Nanos(i64::MAX);
    match &tree.node {
        Node::All(parts) => {
            parts.iter().map(span).fold(all, |a, b| *a.start().max(b.start())..=*a.end().min(b.end()))
        }
        Node::Any(parts) => {
            let either = |a: RangeInclusive<Nanos>, b: RangeInclusive<Nanos>| {
                *a.start().min(b.start())..=*a.end().max(b.end())
            };
            parts.iter().map(span).reduce(either).unwrap_or(all)
        }
        Node::Compare(relation, left, right) => match (&left.node, &right.node) {
            (Node::Variable(EventVariable::Time), Node::Number(number)) => side(*relation, *number),
            (Node::Number(number), Node::Variable(EventVariable::Time)) => side(relation.mirrored(), *number),
            _ => all,
        },
        _ => all,
    }
}

fn side(relation: Relation, number: Number) -> RangeInclusive<Nanos> {
    let (least, most) = (Nanos(i64::MIN), Nanos(i64::MAX));
    let bound = match number {
        Number::Integer(number) => Nanos(number.clamp(i64::MIN.into(), i64::MAX.into()) as i64),
        _ => return least..=most,
    };
    match relation {
        Relation::Equal => bound..=bound,
        Relation::Less | Relation::LessOrEqual => least..=bound,
        Relation::Greater | Relation::GreaterOrEqual => bound..=most,
        Relation::Unequal => least..=most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::parse::parse;

    #[test]
    fn bounds_of_time_are_found_in_a_condition() {
        let (least, most) = (i64::MIN, i64::MAX);
        for (text, from, to) in [
            ("late > 5us", least, most),
            ("$time >= 1s", 1_000_000_000, most),
            ("2us > $time && $cpu == 1", least, 2000),
            ("$time > 1us && $time <= 3us && $time != 2us", 1000, 3000),
            ("$time == 4us || $time < 1us", least, 4000),
            ("$time == 4us || $time == 1us", 1000, 4000),
            ("$time == 4us || late", least, most),
            // A negated part is not looked into.
            ("!($time > 4us) && $time > 2us", 2000, most),
            ("$time > 9223372036854775808", most, most),
        ] {
            assert_eq!(span(&parse(text).unwrap()), Nanos(from)..=Nanos(to), "{text}");
        }
    }
}
