//! Annotations of threads that change while a collector copies them.

use crate::support::*;
use loom::thread;
use sordino_ring::area::annotations::{Annotation, Annotations, CopiedAnnotation};

fn annotation(tid: u32, text: &str) -> Annotation<'_> {
    Annotation { tid, since: text.len() as u64, name: "name", text }
}

fn nobody(_: u32) -> bool {
    false
}

fn texts(annotations: Annotations<'_>) -> Vec<String> {
    let text = |copied: &CopiedAnnotation| {
        let value = copied.annotation().unwrap();
        assert_eq!((value.name, value.since), ("name", value.text.len() as u64));
        value.text.to_owned()
    };
    annotations.copy().iter().map(text).collect()
}

#[test]
fn a_copied_annotation_is_whole_and_one_that_was_set() {
    check(|| {
        let (area, program) = area();
        area.slots().annotations().set(&annotation(1, "one"), nobody);
        let thread = thread::spawn(move || {
            area.slots().annotations().set(&annotation(1, "second"), nobody);
        });
        let seen = texts(program.annotations());
        assert!(seen.iter().all(|text| text == "one" || text == "second"), "{seen:?}");
        thread.join().unwrap();
        assert_eq!(texts(program.annotations()), ["second"]);
    });
}

#[test]
fn two_threads_that_take_over_what_others_left_have_a_cell_each() {
    check(|| {
        let (area, program) = area();
        for gone in [3, 4] {
            assert!(area.slots().annotations().set(&annotation(gone, "gone"), nobody));
        }
        let takes = move |tid, text| area.slots().annotations().set(&annotation(tid, text), |tid| tid > 2);
        let thread = thread::spawn(move || assert!(takes(2, "two")));
        assert!(takes(1, "one"));
        thread.join().unwrap();
        let mut seen = texts(program.annotations());
        seen.sort();
        assert_eq!(seen, ["one", "two"]);
    });
}
