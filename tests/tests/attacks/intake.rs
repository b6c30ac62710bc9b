//! Programs that attack a privileged recorder's intake: no program affects the recording of another one.

use serde_json::Value;
use sordino_tests::session::summary;
use sordino_tests::{Sandbox, Scene};
use std::fs;
use std::path::{Path, PathBuf};

const ATTACK: &str = env!("CARGO_BIN_EXE_attack_intake");
/// Number of events of the honest program each time.
const HONEST: u64 = 2000;

/// Returns the beginning of a session's scripts: `start` starts it, `honest` runs an honest program, `stop` ends it
/// within 30 seconds.
fn prologue(scene: &Scene) -> String {
    let honest = scene.program("burst.c");
    format!(
        "SOCKET=/run/sordino/sessions/s/programs; HONEST={}
         start() {{ \"$SORDINO\" start s -o \"$SCENE/of-s\" --subbuf-size ${{SIZE:-64K}} --num-subbuf 4 \"$@\"; }}
         stop() {{ timeout 30 \"$SORDINO\" stop s >/dev/null; echo stopped: $?; }}
         honest() {{ \"$HONEST\" 1 {HONEST}; }}
         attack() {{ as_user \"$ATTACK\" \"$@\" >\"$SCENE/attack.log\" 2>&1 & until_says ready; }}
         until_says() {{ i=0; while ! grep -q \"$1\" \"$SCENE/attack.log\" && [ $i -lt 2000 ]; do sleep 0.01; i=$((i + 1)); done
            grep -q \"$1\" \"$SCENE/attack.log\" || cat \"$SCENE/attack.log\" >&2; }}
         ",
        honest.display()
    )
}

/// Reads the summary of the session's only recording.
fn recorded(scene: &Scene) -> Value {
    let chunks = fs::read_dir(scene.path("of-s")).expect("recordings").flatten().map(|entry| entry.path());
    let mut chunks: Vec<PathBuf> = chunks.filter(|path| path.join("recording.json").exists()).collect();
    chunks.sort();
    summary(chunks.first().expect("a recording"))
}

fn named<'a>(summary: &'a Value, part: &str) -> Vec<&'a Value> {
    let programs = summary["programs"].as_array().expect("programs");
    programs
        .iter()
        .filter(|program| program["name"].as_str().is_some_and(|name| name.contains(part)))
        .collect()
}

/// Asserts that all honest programs are there with all of their events.
#[track_caller]
fn assert_honest(summary: &Value, programs: usize) {
    let honest = named(summary, "burst");
    assert_eq!(honest.len(), programs, "{summary:#}");
    for program in honest {
        assert_eq!(sordino_tests::recording::events_of(program), HONEST, "{program:#}");
    }
}

fn notes(summary: &Value) -> Vec<&str> {
    summary["notes"].as_array().expect("notes").iter().filter_map(Value::as_str).collect()
}

/// Asserts that a note names the reason once, not each time.
#[track_caller]
fn assert_noted(summary: &Value, words: &[&str], most: usize) {
    let notes = notes(summary);
    let fitting = notes.iter().filter(|note| words.iter().all(|word| note.contains(word))).count();
    assert!((1..=most).contains(&fitting), "{words:?}: {notes:#?}");
}

/// Returns a file of root's that every user may read.
fn roots_file(scene: &Scene) -> PathBuf {
    let path = scene.path("roots-file");
    fs::write(&path, "root's").expect("a file");
    path
}

#[track_caller]
fn assert_untouched(output: &str, path: &Path) {
    assert!(output.contains("untouched") && !output.contains("opened for writing"), "{output}");
    assert_eq!(fs::read_to_string(path).expect("root's file"), "root's");
}

/// Row 3: a descriptor that a program sends is not opened, for writing least of all.
#[test]
fn a_file_that_a_program_sends_is_not_opened_for_writing() {
    let Some(scene) = Scene::new().as_root() else { return };
    let (sandbox, file) = (Sandbox::new(&scene, ATTACK), roots_file(&scene));
    let script = format!(
        "{} start; as_user \"$ATTACK\" send {} $SOCKET; honest; stop",
        prologue(&scene),
        file.display()
    );
    let ended = sandbox.run(&script);
    assert_untouched(ended.succeeded(), &file);
    assert!(ended.output.contains("stopped: 0"), "{}", ended.output);
    assert_honest(&recorded(&scene), 1);
}

/// Row 3: a file that replaces a descriptor between two checks is not opened either.
#[test]
fn a_file_that_is_planted_at_a_descriptor_is_not_opened_for_writing() {
    let Some(scene) = Scene::new().as_root() else { return };
    let (sandbox, file) = (Sandbox::new(&scene, ATTACK), roots_file(&scene));
    let script = format!(
        "{} start; as_user \"$ATTACK\" plant {} $SOCKET 3; honest; stop",
        prologue(&scene),
        file.display()
    );
    let ended = sandbox.run(&script);
    assert_untouched(ended.succeeded(), &file);
    assert_honest(&recorded(&scene), 1);
}

/// Row 4: a terminal that a program sends does not become the recorder's, and its hang-up ends nothing.
#[test]
fn a_terminal_that_a_program_sends_does_not_end_the_recorder() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    let script = format!("{} start; attack terminal $SOCKET; sleep 0.5; honest; stop", prologue(&scene));
    let ended = sandbox.run(&script);
    assert!(ended.succeeded().contains("stopped: 0"), "{}{}", ended.output, ended.errors);
    assert_honest(&recorded(&scene), 1);
}

/// Row 6: leases delay no recording, and are reported.
#[test]
fn a_lease_on_an_areas_file_delays_nobody_else() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    let script = format!(
        "{} start; attack leases $SOCKET 4; honest; as_user \"$HONEST\" 1 {HONEST}; stop",
        prologue(&scene)
    );
    let ended = sandbox.run(&script);
    assert!(ended.succeeded().contains("stopped: 0"), "{}{}", ended.output, ended.errors);
    let summary = recorded(&scene);
    assert_honest(&summary, 2);
    assert_noted(&summary, &["of user 65534", "it holds a lease on its area's file"], 4);
}

/// Row 7: a process with 300 areas has 16 of them recorded, others all.
#[test]
fn three_hundred_areas_of_one_process_leave_room_for_others() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    let script = format!("{} start; attack areas $SOCKET 300; honest; stop", prologue(&scene));
    let ended = sandbox.run(&script);
    assert!(ended.succeeded().contains("stopped: 0"), "{}{}", ended.output, ended.errors);
    let summary = recorded(&scene);
    assert_honest(&summary, 1);
    assert_eq!(named(&summary, "attack").len(), 16);
    assert_noted(&summary, &["of user 65534", "more than 16 areas"], 1);
}

/// Row 7: connections without end, silent or senseless, leave room for others.
#[test]
fn a_flood_of_connections_of_one_user_leaves_room_for_others() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    let script = format!("{} start; attack flood $SOCKET; honest; honest; honest; stop", prologue(&scene));
    let ended = sandbox.run(&script);
    assert!(ended.succeeded().contains("stopped: 0"), "{}{}", ended.output, ended.errors);
    let summary = recorded(&scene);
    assert_honest(&summary, 3);
    assert!(notes(&summary).len() < 30, "{:#?}", notes(&summary));
}

/// Row 9: 256 locked areas delay no recording for long, not even of other programs of the same user.
#[test]
fn locked_areas_hold_nobody_up() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    let script = format!(
        "{} start; attack many 16 locked $SOCKET 16; honest; as_user \"$HONEST\" 1 {HONEST}; sleep 1; stop",
        prologue(&scene)
    );
    let ended = sandbox.run(&script);
    assert!(ended.succeeded().contains("stopped: 0"), "{}{}", ended.output, ended.errors);
    let summary = recorded(&scene);
    assert_honest(&summary, 2);
    assert_noted(&summary, &["of user 65534", "keeps its area locked"], 20);
}

/// Row 9: pages that never come delay a thread of their own user's, once, and no other user.
#[test]
fn pages_that_never_come_hold_nobody_else_up() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    let script = format!(
        "{} {FAULTS}
         SIZE=1M start; attack many 8 pages $SOCKET /run/faults; honest; sleep 2; as_user \"$HONEST\" 1 {HONEST}
         recorder=$(\"$SORDINO\" status s --json | tr ',{{' '\\n\\n' | grep '\"recorder\"' | tr -dc 0-9)
         echo threads: $(ls /proc/$recorder/task | wc -l)
         stop",
        prologue(&scene)
    );
    let ended = sandbox.run(&script);
    assert!(ended.succeeded().contains("stopped: 0"), "{}{}", ended.output, ended.errors);
    let threads =
        ended.output.lines().filter_map(|line| line.strip_prefix("threads: ")?.parse::<u32>().ok()).max();
    assert!(threads.is_some_and(|threads| threads <= 8), "{}", ended.output);
    let summary = recorded(&scene);
    assert_honest(&summary, 2);
    let of_programs: String =
        named(&summary, "attack").iter().map(|program| program["notes"].to_string()).collect();
    assert!(of_programs.contains("could not be made present (timed out)"), "{of_programs}");
    assert!(of_programs.contains("its pages were not made present: it may fault on them"), "{of_programs}");
}

/// Shell command that makes `/run/faults` a userfaultfd device, for page faults that are never answered.
const FAULTS: &str = "mknod /run/faults c 10 $(grep userfaultfd /proc/misc | tr -dc '0-9 ' | cut -d' ' -f1-) && chmod 666 /run/faults";

/// A program that keeps its area's inode locked, by a write from pages that never come, delays no recorder that
/// attaches to it or detaches from it; and the recorder's process ends.
#[test]
fn an_inode_that_is_kept_locked_stops_no_recorder() {
    for (when, note) in [("before", "could not be attached to"), ("after", "could not be given back")] {
        let Some(scene) = Scene::new().as_root() else { return };
        let sandbox = Sandbox::new(&scene, ATTACK);
        let script = format!(
            "{} {FAULTS}; start
             recorder=$(\"$SORDINO\" status s --json | tr ',{{' '\\n\\n' | grep '\"recorder\"' | tr -dc 0-9)
             as_user \"$ATTACK\" held $SOCKET /run/faults {when} >/dev/null & honest; sleep 4; honest
             as_user \"$HONEST\" 1 {HONEST}; stop
             i=0; while [ -e /proc/$recorder ] && [ $i -lt 500 ]; do sleep 0.01; i=$((i + 1)); done
             [ -e /proc/$recorder ] || echo recorder: gone",
            prologue(&scene)
        );
        let ended = sandbox.run(&script);
        assert!(ended.succeeded().contains("stopped: 0"), "{when}: {}{}", ended.output, ended.errors);
        assert!(ended.output.contains("recorder: gone"), "{when}: {}{}", ended.output, ended.errors);
        let summary = recorded(&scene);
        assert_honest(&summary, 3);
        assert_noted(&summary, &["attack", note, "timed out"], 2);
    }
}

/// A user with a range of ids (subuid(5)) has no more of the recorder's threads with them than without.
#[test]
fn the_ids_of_a_users_range_share_that_users_limits() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    let script = format!(
        "{} {FAULTS}; echo 65534:100000:65536 >/run/subuid; mount --bind /run/subuid /etc/subuid; start
         as() {{ id=$1; shift; (cd / && exec setpriv --reuid $id --regid $id --clear-groups --inh-caps=-all -- \"$@\"); }}
         for id in $(seq 100000 100017); do as $id \"$ATTACK\" held $SOCKET /run/faults before >/dev/null & done
         sleep 6; as 65533 \"$HONEST\" 1 {HONEST}; stop",
        prologue(&scene)
    );
    let ended = sandbox.run(&script);
    assert!(ended.succeeded().contains("stopped: 0"), "{}{}", ended.output, ended.errors);
    assert_honest(&recorded(&scene), 1);
}

/// Catalogues without an end, which change all the time, are not read for ever.
#[test]
fn catalogues_without_an_end_do_not_use_up_the_recorders_time() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    let script = format!(
        "{} start
         recorder=$(\"$SORDINO\" status s --json | tr ',{{' '\\n\\n' | grep '\"recorder\"' | tr -dc 0-9)
         used() {{ cut -d' ' -f14 /proc/$recorder/task/$recorder/stat; }}
         attack catalogues $SOCKET 8 $((16 << 20)); attack catalogues $SOCKET 8 $((1 << 20)); honest
         sleep 2; before=$(used); sleep 3; echo ticks: $(($(used) - before)); stop",
        prologue(&scene)
    );
    let ended = sandbox.run(&script);
    assert!(ended.succeeded().contains("stopped: 0"), "{}{}", ended.output, ended.errors);
    let summary = recorded(&scene);
    assert_honest(&summary, 1);
    // Of 300.
    let ticks = ended.output.lines().find_map(|line| line.strip_prefix("ticks: ")?.parse::<u32>().ok());
    assert!(ticks.is_some_and(|ticks| ticks < 60), "{}", ended.output);
    let attack = named(&summary, "attack");
    assert_eq!(attack.len(), 8, "{summary:#}");
    assert!(attack[0]["notes"].to_string().contains("too long"), "{:#}", attack[0]);
}

/// Row 11: a registration with another area's inode number is rejected, and the other program is recorded.
#[test]
fn an_inode_number_that_is_not_the_registering_program_s_is_refused() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    let steady = scene.program("steady.c");
    let script = format!(
        "{} {} 100000 >/dev/null & victim=$!
         sleep 0.3; attack claim $SOCKET number
         attacker=$(pgrep -nf \"attack claim\")
         start --pid $attacker
         for link in /proc/$victim/fd/*; do case $(readlink $link) in /memfd:sordino*) stat -Lc %i $link >\"$USER_HOME/number.new\";; esac; done
         mv \"$USER_HOME/number.new\" \"$USER_HOME/number\"; until_says claimed
         \"$SORDINO\" attach s $victim; sleep 0.3; kill $victim; sleep 0.3; stop",
        prologue(&scene),
        steady.display()
    );
    let ended = sandbox.run(&script);
    assert!(ended.succeeded().contains("stopped: 0"), "{}{}", ended.output, ended.errors);
    let summary = recorded(&scene);
    let victims = named(&summary, "steady");
    assert_eq!(victims.len(), 1, "{summary:#}");
    assert!(sordino_tests::recording::events_of(victims[0]) > 0, "{summary:#}");
    assert_noted(&summary, &["of user 65534", "not one that it has open"], 1);
}

/// Row 12: strangers, also of the recorder's own user, do not get into the recording of a command.
#[test]
fn strangers_do_not_get_into_the_recording_of_a_command() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    let script = format!(
        "{} \"$SORDINO\" record -o \"$SCENE/of-command\" -- sh -c \"touch $SCENE/begun
         i=0; while [ ! -e $SCENE/go-on ] && [ \\$i -lt 2000 ]; do sleep 0.01; i=\\$((i + 1)); done; $HONEST 1 {HONEST}\" >/dev/null & recorder=$!
         until_there \"$SCENE/begun\"
         attack strange; \"$ATTACK\" strange >\"$SCENE/other.log\" 2>&1 & i=0
         while ! grep -q ready \"$SCENE/other.log\" && [ $i -lt 2000 ]; do sleep 0.01; i=$((i + 1)); done
         touch \"$SCENE/go-on\"; wait $recorder; echo ended: $?",
        prologue(&scene)
    );
    let ended = sandbox.run(&script);
    assert!(ended.succeeded().contains("ended: 0"), "{}{}", ended.output, ended.errors);
    let summary = summary(&scene.path("of-command"));
    assert_honest(&summary, 1);
    assert_eq!(summary["programs"].as_array().map(Vec::len), Some(1), "{summary:#}");
    for user in ["of user 65534", "of user 0"] {
        assert_noted(&summary, &["refused 3 connections", user, "without the token", "attack"], 1);
    }
}

/// Row 7: the recorder's own limit of descriptors is raised, and the command has the one that it would have otherwise.
#[test]
fn a_recorder_has_more_descriptors_than_its_command() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    let ended = sandbox.run(
        "ulimit -Sn 300
         \"$SORDINO\" record -o \"$SCENE/of-command\" -- sh -c 'echo command: $(ulimit -Sn) $(ulimit -Hn)
             # The recorder has this limit, too, while it starts this.
             for try in $(seq 50); do grep -q \"files  *300 \" /proc/$PPID/limits || break; sleep 0.1; done
             grep files /proc/$PPID/limits'
         echo shell: $(ulimit -Sn) $(ulimit -Hn)",
    );
    let limit_of = |what: &str| {
        ended.succeeded().lines().find_map(|line| line.strip_prefix(what)).unwrap_or_default().trim()
    };
    assert!(
        limit_of("shell: ").starts_with("300 ") && limit_of("command: ") == limit_of("shell: "),
        "{}",
        ended.output
    );
    let soft = limit_of("Max open files").split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
    assert!(soft.is_some_and(|soft| soft > 300), "{}", ended.output);
}
