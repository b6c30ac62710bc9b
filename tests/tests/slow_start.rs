//! Programs that the recorder sees long before they can be recorded.

use sordino_tests::Scene;

#[test]
fn a_program_that_makes_its_area_slowly_is_recorded_and_not_noted_as_skipped() {
    let scene = Scene::new();
    let recording = scene.record(&[], &[scene.program("slow_start.c").to_str().unwrap()]);
    assert_eq!((recording.ended.status, recording.notes().as_str()), (0, ""));
    recording.assert_count(3);
}
