//! Tests of the meaning of rules, and of texts that are no rules.

use super::*;
use crate::condition::holds;
use sordino_event::{Field, Level, Pid};

const CONTEXT: Context<'static> = Context { pid: Pid(1), procname: "test" };

fn schema(full_name: &str, fields: &[&str]) -> Schema {
    let (provider, name) = full_name.split_once(':').unwrap();
    let field = |name: &&str| Field { name: (*name).to_owned(), ty: "u8".parse().unwrap() };
    let (provider, name) = (provider.to_owned(), name.to_owned());
    Schema { provider, name, level: Level::Info, location: None, fields: fields.iter().map(field).collect() }
}

fn choose(rules: &str, schema: &Schema) -> Condition {
    Rules(Rule::list(rules).unwrap()).choose(schema, &CONTEXT).unwrap()
}

/// Returns true if the tracepoint is chosen without a condition, false if it is not chosen.
fn chosen(rules: &str, full_name: &str) -> bool {
    match choose(rules, &schema(full_name, &[])) {
        Condition::Always => true,
        Condition::Never => false,
        Condition::Code(_) => panic!("a condition"),
    }
}

fn refused(text: &str) -> String {
    let invalid = Rule::list(text).expect_err(text);
    assert!(text.get(invalid.at.clone()).is_some(), "{text}: {invalid:?}");
    invalid.picture(text)
}

#[test]
fn names_and_patterns_choose() {
    assert!(chosen("motor", "motor:period"));
    assert!(!chosen("motor", "motors:period"));
    assert!(chosen("motor:p?r*", "motor:period"));
    assert!(chosen("*", "motor:period"));
    assert!(chosen("*:period", "motor:period"));
    assert!(!chosen("motor:period", "motor:period2"));
    assert!(
        !Rules::default()
            .choose(&schema("a:b", &[]), &CONTEXT)
            .is_ok_and(|condition| condition != Condition::Never)
    );
}

#[test]
fn the_last_rule_that_matches_decides() {
    let rules = "motor:*, !motor:noise*, motor:noise_floor";
    assert!(chosen(rules, "motor:period"));
    assert!(!chosen(rules, "motor:noise"));
    assert!(chosen(rules, "motor:noise_floor"));
    assert!(!chosen("motor:*, ! *", "motor:period"));
    assert!(!chosen("!motor:noise", "motor:period"));
}

#[test]
fn a_record_meets_one_of_several_conditions() {
    let schema = schema("a:b", &["x", "y"]);
    let Condition::Code(code) = choose("a if x == 1, *:b if y == 2", &schema) else { panic!("no code") };
    let kept = |x, y| holds(&code, &[x, y], 0);
    assert_eq!((kept(1, 0), kept(0, 2), kept(0, 0)), (true, true, false));
    assert_eq!(choose("a if x == 1, a:b", &schema), Condition::Always);
    assert_eq!(choose("a if x == 1, !a:b", &schema), Condition::Never);
    let anew = choose("a:b, !a, a if x == 1", &schema);
    assert_eq!(anew, choose("a if x == 1", &schema));
}

#[test]
fn a_rule_whose_field_is_missing_adds_nothing() {
    let (point, rule) = (schema("a:b", &["x"]), |text: &str| Rule::list(text).unwrap().remove(0));
    assert_eq!(choose("a if absent > 1, a if x == 1", &point), choose("a if x == 1", &point));
    assert_eq!(choose("a if absent > 1", &point), Condition::Never);
    assert_eq!(rule("a if x == 1 && absent > 1").missing_field(&point.field_names()), Some("absent"));
    assert_eq!(rule("a").missing_field(&[]), None);
}

#[test]
fn a_rule_that_does_not_fit_otherwise_is_an_error() {
    let choose = |text: &str| Rules(Rule::list(text).unwrap()).choose(&schema("a:b", &["x"]), &CONTEXT);
    let unfit = choose("a if missing == 1, a if x == \"text\"").unwrap_err();
    assert_eq!(unfit.to_string(), "'a if x == \"text\"': 'x' (u8) is not compared with a text");
    assert_eq!(&unfit.rule[unfit.invalid.at.clone()], "x");
    let half = ["x == 1"; 16].join(" || ");
    let unfit = choose(&format!("a if {half}, *:b if {half}")).unwrap_err();
    assert!(unfit.rule.starts_with("*:b") && unfit.invalid.message.contains("too long"), "{unfit}");
}

#[test]
fn commas_inside_conditions_do_not_separate() {
    let rules = Rule::list(r#" a if x == "1,\",2" && (y == 1) , b,c if y == 2 "#).unwrap();
    let texts: Vec<_> = rules.iter().map(Rule::to_string).collect();
    assert_eq!(texts, [r#"a if x == "1,\",2" && (y == 1)"#, "b", "c if y == 2"]);
}

#[test]
fn errors_name_the_place_in_the_whole_list() {
    for (text, expected) in [
        ("", "\n^ a tracepoint's name is missing here"),
        ("a,, b", "\n  ^ a tracepoint's name is missing here"),
        ("a, !", "\n    ^ a tracepoint's name is missing here"),
        ("a, b:[xy]", "\n     ^ only * and ? stand for other characters"),
        ("a, b:{x}", "\n     ^ only * and ? stand for other characters"),
        ("a, b-c", "\n    ^ '-' is in no tracepoint's name"),
        ("a:b:c", "\n   ^ one ':' stands between a provider's name and a tracepoint's"),
        ("a, b:", "\n    ^ one ':' stands between"),
        (":b", "\n^ one ':' stands between"),
        ("a if(x", "\n    ^ the parenthesis that closes this one is missing"),
        ("a, b when x > 1", "\n     ^^^^^^^^^^ behind a name there is 'if' and a condition, or a comma"),
        ("a iffy", "\n  ^^^^ behind a name there is 'if'"),
        ("a, !b if x > 1", "\n      ^^^^^^^^ an exclusion has no condition"),
        ("a, b if x > 1 ss", "\n              ^^ no unit of time"),
        ("a, b if", "\n       ^ a field, a number, a text or '(' is missing here"),
        ("a, b if (x > 1, c", "\n              ^ ',' means nothing in a condition"),
    ] {
        let picture = refused(text);
        assert!(picture.contains(expected), "{picture}");
    }
}
