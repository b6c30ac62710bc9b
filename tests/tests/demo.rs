//! `sordino demo`, from its start to its end.

use sordino_event::Nanos;
use sordino_tests::{NOBODY, Scene};

#[test]
fn root_sees_every_planted_disturbance_found() {
    let Some(scene) = Scene::new().as_root() else { return };
    let mut demo = scene.sordino(&["demo", "--output", "trace"]);
    // The disk may have been too slow for a while: builds run beside the tests.
    if demo.output.contains("some are lost: run it again") {
        std::fs::remove_dir_all(scene.path("trace")).unwrap();
        demo = scene.sordino(&["demo", "--output", "trace"]);
    }
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
    assert_eq!(text.lines().last(), Some("Pictures of the longest gaps: trace/report.html"));
    disturbances_are_in_their_lanes(&scene);
}

/// Checks that the pictures of the demo's page show the planted disturbances that are the causes of their gaps.
fn disturbances_are_in_their_lanes(scene: &Scene) {
    let html = std::fs::read_to_string(scene.path("trace/report.html")).unwrap();
    assert!(html.len() < 2_000_000, "{}", html.len());
    let pictures: Vec<&str> = html.split("<section id=\"peak").skip(1).collect();
    // Of each cause, the parts of the words of what shows it.
    let lanes = [
        (" by hog/", [": hog/", " (RT 95): "]),
        ("by interrupt local_timer", ["cpu", "interrupt local_timer: "]),
        (" page faults took", ["page fault", " at +"]),
    ];
    for (cause, parts) in lanes {
        let headline = |picture: &str| picture.split("</h3>").next().unwrap().to_owned();
        let Some(picture) = pictures.iter().find(|picture| headline(picture).contains(cause)) else {
            // Gaps that others cause may all be longer.
            Scene::not_measured(&format!("pictures of gaps '{cause}': others are longer"));
            continue;
        };
        let titles: Vec<&str> =
            picture.split("<title>").skip(1).map(|rest| rest.split('<').next().unwrap()).collect();
        let shown: Vec<&str> =
            titles.iter().copied().filter(|title| parts.iter().all(|part| title.contains(part))).collect();
        assert!(!shown.is_empty(), "no picture shows '{cause}': {titles:?}");
        if cause == " by hog/" {
            // The hog's time depends on the hypervisor, which may take the CPU from it.
            let claimed = length_before(&headline(picture), cause);
            let drawn: Nanos = shown.iter().map(|title| length_before(title, " from ")).sum();
            assert!(claimed <= drawn + Nanos(claimed.0 / 100), "{}: {shown:?}", headline(picture));
        }
    }
}

/// Returns the length that stands before this text, as in `cpu1: hog/7398 (RT 95): 3.05 ms from +43.1 us`.
fn length_before(text: &str, mark: &str) -> Nanos {
    let before = text.split(mark).next().unwrap();
    let start = before.rmatch_indices(' ').nth(1).unwrap().0;
    let length = sordino_quantity::duration(&before[start..].replace(' ', "")).expect(text);
    Nanos(length.as_nanos() as i64)
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
