//! Annotations of threads that change while a collector copies them.

use crate::support::*;
use loom::thread;
use sordino_ring::value::{Annotation, Copied, Values};

fn annotation(tid: u32, text: &str) -> Annotation<'_> {
    Annotation { tid, since: text.len() as u64, name: "name", text }
}

fn nobody(_: u32) -> bool {
    false
}

fn texts(values: Values<'_>) -> Vec<String> {
    let text = |copied: &Copied| {
        let value = copied.value().unwrap();
        assert_eq!((value.name, value.since), ("name", value.text.len() as u64));
        value.text.to_owned()
    };
    values.copy().iter().map(text).collect()
}

#[test]
fn a_value_that_is_copied_is_all_of_what_was_said_once() {
    check(|| {
        let (area, program) = area();
        area.slots().values().set(&annotation(1, "one"), nobody);
        let thread = thread::spawn(move || {
            area.slots().values().set(&annotation(1, "second"), nobody);
        });
        let seen = texts(program.values());
        assert!(seen.iter().all(|text| text == "one" || text == "second"), "{seen:?}");
        thread.join().unwrap();
        assert_eq!(texts(program.values()), ["second"]);
    });
}

#[test]
fn two_threads_that_take_over_what_others_left_have_a_cell_each() {
    check(|| {
        let (area, program) = area();
        for gone in [3, 4] {
            assert!(area.slots().values().set(&annotation(gone, "gone"), nobody));
        }
        let takes = move |tid, text| area.slots().values().set(&annotation(tid, text), |tid| tid > 2);
        let thread = thread::spawn(move || assert!(takes(2, "two")));
        assert!(takes(1, "one"));
        thread.join().unwrap();
        let mut seen = texts(program.values());
        seen.sort();
        assert_eq!(seen, ["one", "two"]);
    });
}
