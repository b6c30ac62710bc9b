//! The state dump: a recorder with all rights reads files that processes have mapped.

use serde_json::Value;
use sordino_tests::{EndedProcess, Sandbox, Scene};

const ATTACK: &str = env!("CARGO_BIN_EXE_attack_dump");

/// Starts the attack, then records while it runs. In `script`, the attacker's process is `$attacker`; `record` records
/// to `$SCENE/out`, for at most 20 seconds.
fn attack(scene: &Scene, kind: &str, script: &str) -> (EndedProcess, Value) {
    let sandbox = Sandbox::new(scene, ATTACK);
    let ended = sandbox.run(&format!(
        "echo secret > $SCENE/secret; chmod 600 $SCENE/secret; export SECRET=$SCENE/secret
         record() {{ timeout -k 1 20 $SORDINO record --json -o $SCENE/out \"$@\" > $SCENE/summary; }}
         as_user $ATTACK {kind} & attacker=$!
         until_there $USER_HOME/ready
         {script}"
    ));
    let summary = std::fs::read_to_string(scene.path("summary")).unwrap_or_default();
    let line = summary.lines().rev().find(|line| line.starts_with('{')).unwrap_or("null");
    (ended, serde_json::from_str(line).expect("a summary"))
}

/// The notes of a recording that is finished.
fn notes((ended, summary): &(EndedProcess, Value)) -> String {
    ended.succeeded();
    assert_eq!(summary["state"], "finished", "{summary}");
    let notes = summary["notes"].as_array().expect("notes");
    notes.iter().map(|note| note.as_str().expect("a note").to_owned() + "\n").collect()
}

/// Row 5: a FIFO is where a mapped file seems to be.
#[test]
fn a_fifo_in_place_of_a_deleted_file_holds_nobody_up() {
    let Some(scene) = Scene::new().as_root() else { return };
    let attacked = attack(&scene, "fifo", "record -- true");
    notes(&attacked);
}

/// Row 5: the recorder ends when it gets its signal.
#[test]
fn a_recorder_beside_a_fifo_is_interrupted_as_always() {
    let Some(scene) = Scene::new().as_root() else { return };
    let attacked = attack(
        &scene,
        "fifo",
        "record -- sleep 60 & recorder=$!
         until_there $SCENE/out/recording.json; sleep 0.3
         kill -INT $(pgrep -x sordino | head -n 1); wait $recorder",
    );
    notes(&attacked);
}

/// Row 5: links are where mapped files seem to be.
#[test]
fn a_link_in_place_of_a_deleted_file_is_not_followed() {
    let Some(scene) = Scene::new().as_root() else { return };
    // Of a file that was read, the time of access is later than that of the change.
    let attacked = attack(
        &scene,
        "links",
        "touch -a -d 2001-01-01 $SCENE/secret; record -- true
         stat -c %X $SCENE/secret; date -d 2001-01-01 +%s
         [ ! -e $USER_HOME/opened ]",
    );
    notes(&attacked);
    let times: Vec<&str> = attacked.0.output.lines().collect();
    assert_eq!(times[0], times[1], "the secret file was read");
}

/// Rows 5 and 6: a lease makes every process that opens the file wait for 45 seconds.
#[test]
fn a_lease_on_a_mapped_file_is_not_waited_for() {
    let Some(scene) = Scene::new().as_root() else { return };
    let notes = notes(&attack(&scene, "lease", "record -- true"));
    assert!(notes.contains("/leased (process ") && notes.contains("somebody holds a lease on it"), "{notes}");
    assert!(notes.contains("user 65534"), "{notes}");
}

/// Row 8: a sparse file claims to have notes of 2 GiB.
#[test]
fn large_notes_are_not_read() {
    let Some(scene) = Scene::new().as_root() else { return };
    let attacked = attack(
        &scene,
        "notes",
        "timeout -k 1 60 $ATTACK peak $SORDINO record --json -o $SCENE/out -- true > $SCENE/summary",
    );
    let summary = std::fs::read_to_string(scene.path("summary")).unwrap();
    let peak: u64 =
        summary.lines().find_map(|line| line.strip_prefix("peak ")?.parse().ok()).expect("a peak");
    assert!(peak < 300 << 10, "{peak} KiB");
    let notes = notes(&attacked);
    assert!(notes.contains("/notes (process ") && notes.contains("notes are too large"), "{notes}");
}

/// Row 5: mappings and threads without number.
#[test]
fn a_dump_takes_a_limited_number_of_mappings_and_threads_of_a_process() {
    for (kind, limit) in [
        ("mappings", "only 1024 executable mappings of process "),
        ("threads", "only 4096 threads of process "),
    ] {
        let Some(scene) = Scene::new().as_root() else { return };
        let notes = notes(&attack(&scene, kind, "record -- true"));
        assert!(notes.contains(limit), "{kind}: {notes}");
        let dump = scene.path("out/kernel/statedump").metadata().expect("a dump").len();
        assert!(dump < 4 << 20, "{kind}: {dump} bytes");
    }
}

/// Row 5: a user's own overlay lies over a file system that has stopped answering.
#[test]
fn a_file_system_over_one_that_a_program_serves_is_asked_for_nothing() {
    let Some(scene) = Scene::new().as_root() else { return };
    let served = scene.program("served.c");
    let sandbox = Sandbox::new(&scene, served.to_str().expect("a path"));
    let ended = sandbox.run(
        "mknod -m 666 /run/fuse c 10 229; touch $SCENE/printed
         as_user $ATTACK /run/fuse > $SCENE/printed 2>&1 &
         i=0; while ! grep -q . $SCENE/printed && [ $i -lt 1000 ]; do sleep 0.01; i=$((i + 1)); done
         cat $SCENE/printed
         grep -q ready $SCENE/printed || exit 0
         timeout -k 1 20 $SORDINO record --json -o $SCENE/out -- true",
    );
    let printed = ended.succeeded();
    let Some(line) = printed.lines().find(|line| line.starts_with('{')) else {
        return Scene::not_measured(&format!("a user's overlay over FUSE: {printed}"));
    };
    let summary: Value = serde_json::from_str(line).expect("a summary");
    assert!(summary["notes"].to_string().contains("a program serves its file system"), "{summary}");
}
