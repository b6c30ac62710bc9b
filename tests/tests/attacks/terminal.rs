//! Programs that command root's terminal by their names and texts, forge lines of sordino's, or type into it.

use sordino_event::text::is_printable;
use sordino_tests::{Sandbox, Scene};
use std::fs;
use std::path::Path;

const ATTACK: &str = env!("CARGO_BIN_EXE_attack_terminal");

/// Runs a command and keeps its outputs as `NAME.out` and `NAME.err`, whatever its status is; on a terminal, as
/// `NAME.pty`. Then starts programs under each disguise, and a user's recorder whose session has such a name.
const PROLOGUE: &str = r#"
show() { name=$1; shift; "$@" >"$SCENE/$name.out" 2>"$SCENE/$name.err" </dev/null || true; }
show_on_pty() { name=$1; shift; script -qec "$*" "$SCENE/$name.pty" </dev/null >/dev/null 2>&1 || true; }
both() { show "$@"; show_on_pty "$@"; }
disguise() { export SORDINO_RESERVE=200000000; as_user "$ATTACK" disguise "$USER_HOME/names" 60 & until_so all_run; }
all_run() { [ "$(ls "$USER_HOME" | grep -c ready-)" = 8 ]; }
until_so() { i=0; until "$@" || [ $i -ge 500 ]; do sleep 0.02; i=$((i + 1)); done; }
"#;

/// Returns the faults of an output: characters that a terminal obeys or hides, and lines that only a program can have
/// written.
fn offences(text: &[u8]) -> Vec<String> {
    let Ok(text) = std::str::from_utf8(text) else { return vec!["invalid UTF-8".to_owned()] };
    let forged = text.lines().filter(|line| line.starts_with("FORGED"));
    let obeyed =
        text.chars().filter(|&character| !matches!(character, '\n' | '\t') && !is_printable(character));
    forged.map(str::to_owned).chain(obeyed.map(|character| character.escape_default().to_string())).collect()
}

/// Returns the faults of an output from a pty, where newlines have a carriage return, and colours and progress have
/// escape sequences of their own.
fn offences_on_pty(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text).replace('\r', "\n");
    let mut own = text.split("\x1b[");
    let mut rest = own.next().unwrap_or_default().to_owned();
    for part in own {
        let end =
            part.find(|character: char| !matches!(character, '0'..='9' | ';' | '?')).unwrap_or(part.len());
        let (parameters, text) = part.split_at(end);
        let is_own = text.starts_with(['m', 'K', 'A', 'G', 'h', 'l']) && parameters != "8";
        rest += if is_own { &text[1..] } else { "\x1b[" };
        rest += if is_own { "" } else { part };
    }
    offences(rest.as_bytes())
}

/// Asserts that these outputs contain no attack, and that those under `with_escapes` show it escaped.
#[track_caller]
fn assert_harmless(scene: &Scene, outputs: &[&str], with_escapes: &[&str]) {
    for output in outputs.iter().chain(with_escapes) {
        let bytes = fs::read(scene.path(output)).unwrap_or_else(|error| panic!("{output}: {error}"));
        let check = if Path::new(output).extension().is_some_and(|end| end == "pty") {
            offences_on_pty
        } else {
            offences
        };
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(check(&bytes), [""; 0], "{output}: {text:?}");
        assert!(!text.contains("panicked"), "{output}: {text}");
        assert!(
            !with_escapes.contains(output) || text.contains(r"]52;c;QUFB"),
            "{output} lacks the attack: {text}"
        );
    }
}

#[track_caller]
fn run(sandbox: &Sandbox<'_>, script: &str) {
    sandbox.run(&format!("{PROLOGUE}{script}")).succeeded();
}

/// Names of threads, programs, files and other users' sessions; with and without a terminal.
#[test]
fn list_shows_names_that_command_a_terminal_in_escapes() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    run(
        &sandbox,
        r#"disguise
        name=$(printf '\033]52;c;QUFB\007\nFORGED session')
        as_user "$SORDINO" record --name "$name" --subbuf-size 64K --num-subbuf 4 -o "$USER_HOME/recording" --duration 60s >/dev/null 2>&1 &
        recorded() { "$SORDINO" list | grep -q "is being recorded by"; }; until_so recorded
        both list "$SORDINO" list; show json "$SORDINO" list --json"#,
    );
    assert_harmless(&scene, &["list.err"], &["list.out", "list.pty", "json.out"]);
    let list = fs::read_to_string(scene.path("list.out")).unwrap();
    assert!(list.contains(r"is being recorded by '\x1b]52;c;QUFB\x07\nFORGED session'"), "{list}");
    assert!(list.contains(r"\nFORGED line"), "{list}");
    // Files and JSON keep the original.
    let json: serde_json::Value = serde_json::from_slice(&fs::read(scene.path("json.out")).unwrap()).unwrap();
    let names: Vec<_> = json["programs"].as_array().unwrap().iter().map(|program| &program["name"]).collect();
    for original in ["\x1b]52;c;QUFB\x07", "c1\u{9b}2J\u{9d}0;\u{9c}", "\nFORGED line"] {
        assert!(names.iter().any(|name| *name == original), "{original:?} is not in {names:?}");
    }
}

/// A recorder's summary, with notes on invalid areas, and the listing of the recording.
#[test]
fn summaries_and_listings_show_texts_that_command_a_terminal_in_escapes() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    run(
        &sandbox,
        r#"disguise
        D="$SCENE/recording"
        show record "$SORDINO" record --context all --subbuf-size 64K --num-subbuf 4 --duration 1s -o "$D"
        show_on_pty record "$SORDINO" record --context all --subbuf-size 64K --num-subbuf 4 --duration 1s -o "$SCENE/other"
        both events "$SORDINO" events "$D"; both json "$SORDINO" events --json "$D"
        both explain "$SORDINO" explain --top 100 --event attack:text "$D"
        both unknown "$SORDINO" explain --event nothing "$D"
        show again "$SORDINO" recover "$D""#,
    );
    let plain = ["record.out", "events.err", "explain.err", "unknown.err", "again.out"];
    let mut shown = vec!["record.err", "record.pty"];
    shown.extend(["events.out", "events.pty", "json.out", "json.pty"]);
    shown.extend(["explain.out", "explain.pty"]);
    assert_harmless(&scene, &plain, &shown);
    let summary = fs::read_to_string(scene.path("record.err")).unwrap();
    assert!(summary.contains(r"\x1b]52;c;QUFB\x07 (") && summary.contains("makes no sense"), "{summary}");
    let events = fs::read_to_string(scene.path("events.pty")).unwrap();
    assert!(events.contains("\x1b[32mattack:text\x1b[0m"), "the listing has no colours: {events}");
    let first = fs::read_to_string(scene.path("json.out")).unwrap();
    assert!(first.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{first}");
}

/// A session's status; and why it did not start, with a log that its command wrote.
#[test]
fn sessions_show_texts_that_command_a_terminal_in_escapes() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    run(
        &sandbox,
        r#"disguise
        "$SORDINO" start motor --subbuf-size 64K --num-subbuf 4 -o "$SCENE/session"
        recorded() { "$SORDINO" status motor | grep -q "QUFB.* ("; }; until_so recorded
        both status "$SORDINO" status motor
        show stop "$SORDINO" stop motor
        "$SORDINO" start logged -o "$SCENE/logged" --as nobody -- "$ATTACK" say
        until_so grep -q FORGED /run/sordino/sessions/logged/log
        "$SORDINO" stop logged 2>/dev/null || true
        # As another version of sordino could have written it: the recorder ends before it answers.
        definition=/run/sordino/sessions/logged/session.json
        sed -i 's/"logged",/"logged", "--unknown",/' $definition; grep -q unknown $definition
        both start "$SORDINO" start logged"#,
    );
    assert_harmless(
        &scene,
        &["status.err", "stop.out", "stop.err", "start.out"],
        &["status.out", "status.pty", "start.err", "start.pty"],
    );
    let start = fs::read_to_string(scene.path("start.err")).unwrap();
    assert!(start.contains("sordino: its recorder ended: ") && start.contains("  | FORGED line"), "{start}");
    assert!(start.lines().skip(1).all(|line| line.starts_with("  | ")), "{start}");
}

/// Errors quote paths, names and metadata of directories that any user can make.
#[test]
fn errors_show_what_they_quote_in_escapes() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    run(
        &sandbox,
        r#"as_user "$ATTACK" plant "$USER_HOME/planted"
        for kind in whole broken; do
            D="$USER_HOME/planted/$kind"
            both $kind-events "$SORDINO" events "$D"; both $kind-explain "$SORDINO" explain --event nothing "$D"
            show $kind-recover "$SORDINO" recover "$D"
        done"#,
    );
    let plain = [
        "whole-events.out",
        "whole-events.err",
        "whole-recover.err",
        "broken-recover.err",
        "broken-explain.err",
    ];
    assert_harmless(
        &scene,
        &plain,
        &["broken-events.err", "broken-events.pty", "whole-explain.err", "whole-explain.pty"],
    );
}

/// A command of another user tries to type into the terminal that it shares with root's shell, which would execute the
/// text.
#[test]
fn a_command_of_another_user_cannot_type_into_the_terminal() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    let legacy = Legacy::set();
    run(
        &sandbox,
        r#"chmod 755 "$ATTACK"
        show_on_pty named "$SORDINO record -o $SCENE/named --as nobody -- $ATTACK type"
        show_on_pty sudo "SUDO_UID=65534 SUDO_GID=65534 SUDO_USER=nobody $SORDINO record -o $SCENE/sudo -- $ATTACK type"
        show_on_pty root "$SORDINO record -o $SCENE/root -- $ATTACK type"
        show_on_pty warned "setpriv --bounding-set=-sys_admin $SORDINO record -o $SCENE/warned --as nobody -- true"
        show none "$SORDINO" record -o "$SCENE/none" --as nobody -- setsid grep Seccomp: /proc/self/status"#,
    );
    for way in ["named", "sudo"] {
        let text = fs::read_to_string(scene.path(&format!("{way}.pty"))).unwrap();
        for attempt in ["native", "more bits", "paste", "x32"] {
            let is_here = attempt != "x32" || cfg!(target_arch = "x86_64");
            assert!(
                !is_here || text.contains(&format!("{attempt}: errno 1\r\n")),
                "{attempt} of {way}: {text}"
            );
        }
        // A kernel without i386's ABI kills the caller.
        let is_denied = text.contains("i386: errno 1\r\n") || text.contains("i386: signal");
        assert!(is_denied || cfg!(not(target_arch = "x86_64")), "{way}: {text}");
        assert!(text.contains("Seccomp:\t2") && text.contains("input: 0\r\n"), "{way}: {text}");
        assert!(!text.contains("cannot be filtered"), "{way}: {text}");
    }
    let text = fs::read_to_string(scene.path("root.pty")).unwrap();
    assert!(text.contains("Seccomp:\t0"), "root's own command is left as it is: {text}");
    assert!(
        !legacy.is_set || text.contains("native: done"),
        "this terminal can't be typed into at all: {text}"
    );
    let text = fs::read_to_string(scene.path("warned.pty")).unwrap();
    assert!(text.contains("cannot be filtered") && text.contains("sordino start"), "{text}");
    let text = fs::read_to_string(scene.path("none.out")).unwrap();
    assert!(text.contains("Seccomp:\t0"), "without a terminal there is nothing to deny: {text}");
}

/// Lets every process type into its terminal while this lives, which is the kernel's default.
struct Legacy {
    before: Option<String>,
    is_set: bool,
}

impl Legacy {
    const FILE: &str = "/proc/sys/dev/tty/legacy_tiocsti";

    fn set() -> Self {
        let before = fs::read_to_string(Self::FILE).ok();
        // The setting is missing before Linux 6.2, where every process may do it.
        let is_set = before.is_none() || fs::write(Self::FILE, "1").is_ok();
        if !is_set {
            Scene::not_measured(
                "whether one could type without the filter: the kernel does not take legacy_tiocsti=1",
            );
        }
        Self { before, is_set }
    }
}

impl Drop for Legacy {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = fs::write(Self::FILE, before);
        }
    }
}
