//! Fuzzes a rule's text, or the bytes of a condition's code, with any payload: errors point into the text, code fits
//! its limit, and evaluation gives a result.
//!
//! The input has two parts with a zero byte between them, so that a text can be its own seed: `condition/corpus`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sordino_filter::condition::{Condition, Context, MAX_CODE, holds};
use sordino_filter::rule::{Rule, Rules};
use sordino_event::{Pid, Schema, catalogue};
use std::sync::LazyLock;

/// A tracepoint with fields of every kind.
static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let text = "event\t1\t4\tp\te\t\t0
field\tu64\tcount\nfield\ti32\tdelta\nfield\tu16n\tport\nfield\tf32\tratio\nfield\tbool\tok
field\tenum:u8\tstate\nlabel\t0\t0\tIdle\nlabel\t5\t9\tFaulty
field\ttext:6\tlabel\nfield\t[i16;3]\tdata\nfield\tstring\tpath\nfield\t[u16n]\tlist\nfield\tu8\tlast\nend\n";
    let (mut tracepoints, _) = catalogue::parse(text.as_bytes()).expect("a catalogue");
    tracepoints.remove(0).1
});

fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let (first, payload) = (&input[..end], input.get(end + 1..).unwrap_or_default());
    holds(input, payload, 1);
    let Ok(text) = std::str::from_utf8(first) else { return };
    let rules = match Rule::list(text) {
        Ok(rules) => Rules(rules),
        Err(invalid) => {
            assert!(text.get(invalid.at.clone()).is_some(), "{invalid:?}");
            invalid.picture(text);
            return;
        }
    };
    match rules.choose(&SCHEMA, &Context { pid: Pid(7), procname: "motor" }) {
        Ok(chosen) => {
            if let Condition::Code(code) = chosen {
                assert!(code.len() <= MAX_CODE);
                holds(&code, payload, 1);
            }
        }
        Err(unfit) => assert!(unfit.rule.get(unfit.invalid.at.clone()).is_some(), "{unfit:?}"),
    }
});
