//! `sordino demo`, from its start to its end.

use sordino_tests::{NOBODY, Scene};

#[test]
fn root_sees_every_planted_disturbance_found() {
    let Some(scene) = Scene::new().as_root() else { return };
    let demo = scene.sordino(&["demo", "--output", "trace"]);
    let text = demo.succeeded();
    assert!(!text.contains("NOT FOUND"), "{text}");
    for planted in ["a thread of priority 95, 3 ms", "400 timers within 400 us", "256 page faults in npt"] {
        let line = text.lines().find(|line| line.contains(planted)).expect(planted);
        assert!(line.contains("found: ") || line.contains("not measured here: "), "{line}");
    }
    let hog = text.lines().find(|line| line.contains("a thread of priority 95")).unwrap();
    assert!(hog.contains("hog/"), "{hog}");
    // The commands that the demo suggests work on its trace.
    assert!(text.contains("sordino events "), "{text}");
    let again = scene.sordino(&["explain", "--top", "5", "trace"]);
    let first = again.succeeded().lines().find(|line| line.starts_with("#1 ")).expect("a gap");
    assert!(text.contains(first), "{first}");
}

#[test]
fn nobody_is_told_what_is_missing() {
    let Some(scene) = Scene::new().as_root() else { return };
    let mine = scene.directory_of(NOBODY, "mine");
    let demo = scene.run(scene.command_of(NOBODY, &["demo", "--output", "trace"]).current_dir(&mine));
    let text = demo.succeeded();
    assert!(demo.errors.contains("not root: no kernel events, no real-time priority"), "{}", demo.errors);
    assert!(text.contains("an ordinary thread") && !text.contains("NOT FOUND"), "{text}");
    assert!(text.contains("What the trace does not tell"), "{text}");
}
