//! The results of conditions agree with their definition, and nothing panics on any bytes.

mod reference;

use proptest::prelude::*;
use reference::{logic, record, seeds};
use sordino_event::{Pid, Tid};
use sordino_filter::Invalid;
use sordino_filter::condition::{Condition, Context, Expression, Known, MAX_CODE, holds};
use sordino_filter::rule::{Rule, Rules};

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
        let found = expression.is_met_by(&record.classes()[record.event.class], &record.event, &known);
        prop_assert_eq!(found, Ok(expected == Some(true)), "{}", text);
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
