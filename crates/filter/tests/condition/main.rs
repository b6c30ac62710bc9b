//! The results of conditions agree with their definition, and nothing panics on any bytes.

mod reference;

use proptest::prelude::*;
use reference::{logic, record, seeds};
use sordino_event::{Class, Classes, Domain, Event, Time, Value};
use sordino_event::{Pid, Tid};
use sordino_filter::Invalid;
use sordino_filter::condition::{Condition, Context, Expression, Known, MAX_CODE, holds};
use sordino_filter::rule::{Rule, Rules};
use std::cmp::Ordering;

const CONTEXT: Context<'static> = Context { pid: Pid(4711), procname: "motor" };

/// Operations in any order, most of them with the operands that they need; operations that push and jump are the most
/// frequent.
fn nearly_code() -> impl Strategy<Value = Vec<u8>> {
    let operation = prop_oneof![
        4 => Just(vec![0x24]),
        2 => (0x25..0x46_u8).prop_map(|op| vec![op]),
        2 => (0x50..0x52_u8, 0..40_u8).prop_map(|(op, skip)| vec![op, skip, 0]),
        2 => (1..0x24_u8, proptest::collection::vec(0..8_u8, 2..20)).prop_map(|(op, operands)| [vec![op], operands].concat()),
        1 => proptest::collection::vec(any::<u8>(), 1..20),
    ];
    proptest::collection::vec(operation, 0..100).prop_map(|operations| operations.concat())
}

/// Text of the parser's own words, which gets further in the parser than random characters.
fn nearly_sense() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "f0",
        "f1[0]",
        "$level",
        "$procname",
        "warning",
        "debug-line",
        "5",
        "0x1f",
        "1.5",
        "50us",
        "1e3",
        "\"a*\"",
        "\"",
        "==",
        "<",
        ">=",
        "&&",
        "||",
        "!",
        "+",
        "-",
        "~",
        "<<",
        "&",
        "(",
        ")",
        "[",
        "]",
        " ",
        "if",
        ",",
        "a:*",
        "é",
    ];
    let word = prop_oneof![8 => proptest::sample::select(WORDS).prop_map(str::to_owned), 1 => ".{0,3}"];
    proptest::collection::vec(word, 0..16).prop_map(|words| words.concat())
}

/// Integers that a field can have; small ones, and the ends of the types, more often.
fn integers() -> impl Strategy<Value = i128> {
    prop_oneof![
        4 => -9..10_i128,
        1 => any::<i64>().prop_map(i128::from),
        1 => any::<u64>().prop_map(i128::from),
        1 => prop::sample::select(vec![i64::MIN.into(), i64::MAX.into(), i128::from(u64::MAX), 1 << 62]),
    ]
}

/// An operator, and its result, if it has one.
type OperatorCase = (&'static str, fn(i128, i128) -> Option<i128>);

/// A relation, and the orders for which it holds.
type RelationCase = (&'static str, fn(Ordering) -> bool);

const OPERATORS: [OperatorCase; 8] = [
    ("+", i128::checked_add),
    ("-", i128::checked_sub),
    ("*", |a, b| Some(a.wrapping_mul(b))),
    ("/", i128::checked_div),
    ("%", i128::checked_rem),
    ("&", |a, b| Some(a & b)),
    ("|", |a, b| Some(a | b)),
    ("^", |a, b| Some(a ^ b)),
];

const RELATIONS: [RelationCase; 6] = [
    ("==", Ordering::is_eq),
    ("!=", Ordering::is_ne),
    ("<", Ordering::is_lt),
    ("<=", Ordering::is_le),
    (">", Ordering::is_gt),
    (">=", Ordering::is_ge),
];

fn lies_in(invalid: &Invalid, text: &str) -> bool {
    invalid.picture(text);
    text.get(invalid.at.clone()).is_some()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn a_condition_holds_where_its_definition_says_so(seeds in seeds(), logic in logic(), tid in 0..4_u32) {
        let record = record(&seeds);
        let (text, expected) = logic.of(&record, tid);
        let condition = Expression::parse(&text).unwrap().compile(&record.schema, &CONTEXT);
        let found = match condition {
            Ok(Condition::Always) => true,
            Ok(Condition::Never) => false,
            Ok(Condition::Code(code)) => {
                prop_assert!(code.len() <= MAX_CODE);
                holds(&code, &record.payload, tid)
            }
            Err(invalid) => {
                prop_assert!(invalid.message.contains("too long"), "{}", invalid.picture(&text));
                return Ok(());
            }
        };
        prop_assert_eq!(found, expected == Some(true), "{}", text);
    }

    #[test]
    fn a_decoded_event_meets_the_conditions_that_its_record_met(seeds in seeds(), logic in logic(), tid in 0..4_u32) {
        let record = record(&seeds);
        let (text, expected) = logic.of(&record, tid);
        let expression = Expression::parse(&text).unwrap();
        let known = Known { tid: Some(Tid(tid as i32)), ..Known::default() };
        let condition = expression.for_class(&record.classes()[record.event.class]).unwrap();
        let found = condition.is_met_by(&record.event, &known);
        prop_assert_eq!(found, Ok(expected == Some(true)), "{}", text);
    }

    /// The part that does not fit has no number where one is needed. The parts are evaluated in order.
    #[test]
    fn a_part_that_does_not_fit_is_an_error_where_no_part_before_it_decides(
        seeds in seeds(), parts in proptest::collection::vec(logic(), 1..5), at in 0..5_usize, all: bool,
    ) {
        let record = record(&seeds);
        let at = at % (parts.len() + 1);
        let parts: Vec<_> = parts.iter().map(|part| part.of(&record, 1)).collect();
        let mut texts: Vec<_> = parts.iter().map(|(text, _)| format!("({text})")).collect();
        texts.insert(at, "$comm".to_owned());
        let text = texts.join(if all { " && " } else { " || " });
        let known = Known { tid: Some(Tid(1)), ..Known::NOTHING };
        let condition = Expression::parse(&text).unwrap().for_class(&record.classes()[record.event.class]).unwrap();
        let is_decided = parts[..at].iter().any(|(_, holds)| (*holds == Some(true)) != all);
        match condition.is_met_by(&record.event, &known) {
            Ok(found) => prop_assert!(is_decided && found != all, "{}", text),
            Err(invalid) => prop_assert!(!is_decided && &text[invalid.at.clone()] == "$comm", "{}", text),
        }
    }

    /// The reference is arithmetic with 128 bits, which wraps. A third field is the result, or next to it.
    #[test]
    fn integers_of_decoded_events_have_exact_results(
        a in integers(), b in integers(), operator in 0..OPERATORS.len(), relation in 0..RELATIONS.len(),
        beside in -1..2_i128, has_constants: bool,
    ) {
        let (operator, result) = OPERATORS[operator];
        let (relation, holds) = RELATIONS[relation];
        let result = result(a, b);
        let c = result.unwrap_or(0).saturating_add(beside);
        let c = c.clamp(i64::MIN.into(), u64::MAX.into());
        let mut classes = Classes::default();
        let id = classes.add(Class::new(Domain::User, "p:e", ["a", "b", "c"]));
        let mut event = Event::default();
        event.begin(Time(0), id);
        for value in [a, b, c] {
            event.push(match u64::try_from(value) {
                Ok(value) => Value::unsigned(value),
                Err(_) => Value::signed(value as i64),
            });
        }
        let written = |name: &str, value: i128| match has_constants && value >= 0 {
            true => value.to_string(),
            false => name.to_owned(),
        };
        let text = format!("a {operator} {} {relation} {}", written("b", b), written("c", c));
        let condition = Expression::parse(&text).unwrap().for_class(&classes[id]).unwrap();
        let met = condition.is_met_by(&event, &Known::default());
        let expected = result.is_some_and(|result| holds(result.cmp(&c)));
        prop_assert_eq!(met, Ok(expected), "{} with a = {}, b = {}, c = {}", text, a, b, c);
    }

    #[test]
    fn any_code_gets_an_answer_on_any_payload(
        code in nearly_code(),
        payload in proptest::collection::vec(any::<u8>(), 0..200),
        tid in any::<u32>(),
    ) {
        holds(&code, &payload, tid);
    }

    #[test]
    fn code_that_was_damaged_gets_an_answer(
        seeds in seeds(),
        logic in logic(),
        damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4),
        cut in any::<usize>(),
    ) {
        let mut record = record(&seeds);
        let (text, _) = logic.of(&record, 0);
        if let Ok(Condition::Code(mut code)) = Expression::parse(&text).unwrap().compile(&record.schema, &CONTEXT) {
            for (place, byte) in damage {
                let length = code.len();
                code[place % length] = byte;
            }
            record.payload.truncate(cut % (record.payload.len() + 1));
            holds(&code, &record.payload, 0);
        }
    }

    #[test]
    fn errors_lie_in_the_text(seeds in seeds(), text in prop_oneof![".*", nearly_sense()]) {
        let record = record(&seeds);
        match Expression::parse(&text) {
            Ok(expression) => {
                if let Err(invalid) = expression.compile(&record.schema, &CONTEXT) {
                    prop_assert!(lies_in(&invalid, &text), "{text:?} {invalid:?}");
                }
            }
            Err(invalid) => prop_assert!(lies_in(&invalid, &text), "{text:?} {invalid:?}"),
        }
        let name = "p:* if ";
        for text in [text.clone(), format!("{name}{text}"), format!("a, {name}{text}")] {
            match Rule::list(&text) {
                Err(invalid) => prop_assert!(lies_in(&invalid, &text), "{text:?} {invalid:?}"),
                Ok(rules) => {
                    if let Err(unfit) = Rules(rules).choose(&record.schema, &CONTEXT) {
                        prop_assert!(lies_in(&unfit.invalid, &unfit.rule), "{unfit:?}");
                    }
                }
            }
        }
    }
}
