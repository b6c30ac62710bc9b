//! Hand-made traces and their explanation.
#![allow(dead_code, unused_imports, reason = "no test uses all of it")]

#[path = "../../../timeline/tests/support/mod.rs"]
mod script;

pub(crate) use script::*;

use sordino_analyze::{Explainer, Explanation, Finder, Findings, Options, Survey};

/// The intervals of `rule`.
pub(crate) fn survey(script: &Script, rule: &str) -> Survey {
    let mut finder = Finder::new(&script.classes, rule.parse().unwrap()).unwrap();
    script.play(|item| finder.take(item));
    finder.finish()
}

/// Both passes.
pub(crate) fn explain(script: &Script, rule: &str, options: Options) -> Findings {
    let recorded = sordino_timeline::Vocabulary::new(&script.classes).recorded();
    let mut explainer = Explainer::new(survey(script, rule), recorded, options);
    script.play(|item| explainer.take(item));
    explainer.finish()
}

/// The same for the longest interval alone, whose parts add up.
pub(crate) fn explain_longest(script: &Script, rule: &str) -> (Explanation, Findings) {
    let findings = explain(script, rule, Options { longest: 1, ..Options::default() });
    let longest = findings.intervals[0].clone();
    assert_eq!(longest.parts.iter().map(|part| part.time.0).sum::<i64>(), longest.length.0, "{longest:?}");
    (longest, findings)
}

/// Loops of 100 ns of npt on CPU 1 up to 1000, where one begins that the test goes on with.
pub(crate) fn loops(event: &str) -> Script {
    let mut script = Script::new();
    script.at(0).cpu(1).switch(IDLE, 0, NPT);
    for time in (100..=1000).step_by(100) {
        script.at(time).cpu(1).user(event, NPT, &[]);
    }
    script
}
