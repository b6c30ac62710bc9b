//! Tests of requests that pass from thread to thread, stage by stage.

mod support;

use sordino_analyze::*;
use support::{HOG, IDLE, KWORKER, NPT, RUNNABLE, SLEEPING, Script, ScriptThread as Task, V, explain};

fn hit(script: &mut Script, time: i64, cpu: u32, event: &str, thread: Task, id: i64) {
    script.at(time).cpu(cpu).user(event, thread, &[("id", V::I(id))]);
}

/// Creates a request from a client (the hog, cpu0) to npt (cpu1), which is kept from its CPU for a while, and another
/// request, which waits in between.
fn request(with_steps: bool) -> Script {
    let mut script = Script::new();
    script.at(0).cpu(0).by(IDLE).switch(IDLE, 0, HOG);
    script.cpu(1).by(NPT).switch(NPT, SLEEPING, IDLE);
    hit(&mut script, 100, 0, "net:request", HOG, 1);
    hit(&mut script, 200, 0, "net:request", HOG, 2);
    if with_steps {
        hit(&mut script, 300, 0, "net:send", HOG, 1);
    }
    script.at(310).cpu(0).by(HOG).waking(NPT, 1).cpu(1).by(IDLE).switch(IDLE, 0, NPT);
    if with_steps {
        hit(&mut script, 350, 1, "net:receive", NPT, 1);
        hit(&mut script, 360, 1, "net:receive", NPT, 3);
    }
    script.at(400).cpu(1).by(NPT).switch(NPT, RUNNABLE, KWORKER);
    script.at(900).by(KWORKER).switch(KWORKER, SLEEPING, NPT);
    hit(&mut script, 1000, 1, "net:answer", NPT, 1);
    hit(&mut script, 1010, 0, "net:answer", HOG, 2);
    script
}

fn longest(script: &Script) -> Explanation {
    explain(script, "net:request@id..net:answer@id", ExplainOptions::default()).intervals.remove(0)
}

/// Returns the stages in short form: their ends, their thread, and the longest part.
fn stages(explanation: &Explanation) -> Vec<(String, i32, i64, &'static str, i64)> {
    let of = |stage: &Stage| {
        let (parts, length) = (&stage.explanation.parts, stage.explanation.length.0);
        assert_eq!(parts.iter().map(|part| part.time.0).sum::<i64>(), length, "{parts:?}");
        let part = &parts[0];
        let ends = format!("{}..{}", stage.from, stage.to);
        (ends, stage.explanation.thread.tid.0, length, part.cause.entry().kind, part.time.0)
    };
    explanation.stages.iter().map(of).collect()
}

#[test]
fn each_stage_is_explained_by_the_thread_that_ended_it() {
    let longest = longest(&request(true));
    assert_eq!(
        stages(&longest),
        [
            ("net:request..net:send".to_owned(), HOG.0, 200, "own", 200),
            ("net:send..net:receive".to_owned(), NPT.0, 50, "own", 40),
            ("net:receive..net:answer".to_owned(), NPT.0, 650, "throttled", 500),
        ]
    );
    assert_eq!(longest.stages.iter().map(|stage| stage.explanation.length.0).sum::<i64>(), longest.length.0);
}

#[test]
fn a_request_of_one_thread_has_no_stages() {
    let findings = explain(&request(true), "net:request@id..net:answer@id", ExplainOptions::default());
    let other = findings.intervals.iter().find(|explained| explained.thread.tid.0 == HOG.0).unwrap();
    assert_eq!(stages(other), []);
    assert_eq!(
        stages(&longest(&request(false))),
        [],
        "without an event between nobody knows when it was handed over"
    );
}

/// A key is used again, and there are steps without a request.
#[test]
fn steps_belong_to_the_request_that_is_open() {
    let mut script = request(true);
    hit(&mut script, 1100, 0, "net:send", HOG, 1);
    hit(&mut script, 1200, 0, "net:request", HOG, 1);
    hit(&mut script, 1300, 1, "net:receive", NPT, 1);
    hit(&mut script, 3300, 1, "net:answer", NPT, 1);
    let longest = longest(&script);
    let ends: Vec<String> = stages(&longest).into_iter().map(|(ends, ..)| ends).collect();
    assert_eq!(ends, ["net:request..net:receive", "net:receive..net:answer"]);
    assert_eq!(longest.length.0, 2100);
}

#[test]
fn of_a_request_with_many_steps_the_last_stage_has_the_rest() {
    let mut script = Script::new();
    script.at(0).cpu(0).by(IDLE).switch(IDLE, 0, HOG);
    hit(&mut script, 100, 0, "net:request", HOG, 1);
    for step in 0..100 {
        hit(&mut script, 200 + step, 0, "net:step", HOG, 1);
    }
    hit(&mut script, 1000, 1, "net:answer", NPT, 1);
    let longest = longest(&script);
    assert_eq!((longest.stages.len(), longest.stages[16].explanation.length.0), (17, 785));
}
