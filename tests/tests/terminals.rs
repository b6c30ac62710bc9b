//! sordino's output fits the terminal, uses colours and characters that it can show, and has the singular after one.

use rustix::process::Signal;
use sordino_tests::listing::{items, named};
use sordino_tests::session::ScopedSession;
use sordino_tests::terminal::{
    assert_fits, assert_numbers_agree, commands_in, has_colors, on_terminal, plain_lines,
};
use sordino_tests::{Scene, last_cpu};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// The commands below `above`, as its help lists them.
fn commands(scene: &Scene, above: &[&str]) -> Vec<String> {
    let help = scene.sordino(&[above, &["--help"]].concat());
    commands_in(help.succeeded()).into_iter().map(str::to_owned).collect()
}

#[test]
fn every_command_s_help_fits_the_terminal() {
    let scene = Scene::new();
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    for name in commands(&scene, &[]) {
        let below = commands(&scene, &[&name]).into_iter().map(|below| vec![name.clone(), below]);
        all.extend(below.collect::<Vec<_>>());
        all.push(vec![name]);
    }
    assert!(all.len() > 25, "{all:?}");
    for words in &all {
        for option in ["--help", "-h"] {
            let words: Vec<&str> = words.iter().map(String::as_str).chain([option]).collect();
            let what = words.join(" ");
            let help = scene.run(scene.command(&words).env_remove("COLUMNS"));
            assert_fits(help.succeeded(), 80, &what);
            let wide = scene.run(scene.command(&words).env("COLUMNS", "200"));
            assert_fits(wide.succeeded(), 100, &what);
        }
    }
    let help = |columns| on_terminal(&scene, columns, "./sordino npt --help", |_| {});
    assert_fits(help(60).succeeded(), 60, "npt --help");
    assert!(help(120).output.lines().any(|line| line.chars().count() > 80));
}

#[test]
fn reports_fit_the_terminal_and_count_in_words_that_agree() {
    let Some(scene) = Scene::new().as_root() else { return };
    let cpu = last_cpu();
    let mut steady = ScopedSession::join(&scene, &mut Command::new(scene.program("steady.c")));
    steady.says("ready");
    let session = ScopedSession::start(&scene, "motor", &[]);
    session.records(steady.pid());
    let once = scene.program("once.c");
    let once = once.to_str().unwrap();
    let record = format!(
        "./sordino record --kernel sched,irq -o kernel -- ./sordino npt -p 0 -l 20000 --pace 1us -a {cpu}"
    );
    let lines = [
        record.as_str(),
        &format!("./sordino record --user 'once:*' -o once -- {once}"),
        "./sordino list",
        "./sordino status",
        "./sordino status motor",
        "./sordino rotate motor",
        "./sordino events kernel",
        "./sordino events once",
        "./sordino explain --event npt:loop kernel",
        "./sordino explain --event once:hit once",
        "./sordino recover once",
        "./sordino stop motor",
        &format!("./sordino npt -p 0 -l 10000 -a {cpu}"),
        "./sordino npt -p 0 -l 10000 -a 0-1",
        "./sordino npt --compare untraced,sordino-timer --rounds 1 -d 50ms -p 0",
        &format!(
            "./sordino check --only system,npt,preemption --duration 1s --load none --cpus {cpu} -o a -v"
        ),
        &format!("./sordino check --only npt,preemption --duration 1s --load none --cpus {cpu} -o b"),
        "./sordino compare a b",
        &format!("./sordino shield plan --cpus {cpu} --level full -v"),
        "./sordino shield status",
        "./sordino grant --list",
    ];
    for line in lines {
        for columns in [80, 60] {
            if columns == 60
                && ["record", "check", "rotate", "stop", "compare "].iter().any(|once| line.contains(once))
            {
                continue;
            }
            let shown = on_terminal(&scene, columns, line, |command| {
                _ = command.envs([ScopedSession::environment(&scene)])
            });
            assert!(shown.status < 2, "{line}: {}", shown.output);
            assert!(!shown.output.trim().is_empty(), "{line}");
            assert_fits(&shown.output, columns, line);
            assert_numbers_agree(&plain_lines(&shown.output).join("\n"));
        }
    }
    steady.signal(Signal::TERM);
    steady.end().succeeded();
}

/// Lines are broken on a terminal only, and keep their contents.
#[test]
fn events_are_one_a_line_for_programs_and_whole_on_a_terminal() {
    let Some(scene) = Scene::new().as_root() else { return };
    let recording =
        scene.record(&["--kernel", "sched_switch"], &["./sordino", "npt", "-p", "0", "-l", "100"]);
    let listed = scene.run(scene.command(&["events", recording.name()]).env("COLUMNS", "40"));
    let longest = listed.succeeded().lines().map(str::len).max();
    assert!(longest > Some(100), "{longest:?}");
    let shown = on_terminal(&scene, 80, &format!("./sordino events {}", recording.name()), |_| {});
    assert_fits(shown.succeeded(), 80, "events");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&plain_lines(&shown.output).join("\n")), words(&listed.output));
    let json = on_terminal(&scene, 80, &format!("./sordino events --json {}", recording.name()), |_| {});
    assert_eq!(items(json.succeeded()).len(), listed.output.lines().count());
}

#[test]
fn colours_are_where_they_are_wanted() {
    let scene = Scene::new();
    let recording = scene.record(&[], &["./sordino", "npt", "-p", "0", "-l", "1000"]);
    let name = recording.name();
    for words in [
        format!("events {name}"),
        format!("explain --event npt:loop {name}"),
        "npt --help".to_owned(),
        "--no-such-option".to_owned(),
    ] {
        let piped = |options: &str| {
            let words = format!("{options} {words}");
            let ended = scene.sordino(&words.split_whitespace().collect::<Vec<_>>());
            has_colors(&(ended.output + &ended.errors))
        };
        assert_eq!(
            [piped(""), piped("--color never"), piped("--color always")],
            [false, false, true],
            "{words}"
        );
        let shown = |options: &str, no_color: &str| {
            let line = format!("./sordino {options} {words}");
            has_colors(
                &on_terminal(&scene, 80, &line, |command| _ = command.env("NO_COLOR", no_color)).output,
            )
        };
        assert_eq!(
            [shown("", ""), shown("--color=never", ""), shown("", "1")],
            [true, false, false],
            "{words}"
        );
        assert!(shown("--color always", "1"), "{words}");
    }
    scene.refuses(2, &["--color", "sometimes", "always"], &["--color", "sometimes", "list"]);
    for line in ["./sordino shield status", "./sordino check --only system -v", "./sordino npt -p 0 -d 300ms"]
    {
        let shown = on_terminal(&scene, 80, line, |command| _ = command.env("NO_COLOR", "1"));
        assert!(!has_colors(&shown.output), "{line}: {}", shown.output);
    }
}

#[test]
fn progress_says_rate_and_time_left_once_they_are_known_and_only_on_a_terminal() {
    let scene = Scene::new();
    let recording = scene.record(&[], &["./sordino", "npt", "-p", "0", "-l", "2000000"]);
    let command = format!("./sordino export {} --to csv -o shown.csv", recording.name());
    let shown = on_terminal(&scene, 80, &command, |_| {});
    let lines: Vec<&str> = shown.succeeded().split(['\r', '\n']).filter(|line| line.contains('%')).collect();
    let (known, unknown): (Vec<&str>, Vec<_>) = lines.into_iter().partition(|line| line.contains(" left"));
    assert!(known.iter().any(|line| line.contains("%/s, ")), "{known:?}");
    assert!(!known.iter().any(|line| line.contains(" 0.0%/s")), "{known:?}");
    assert!(unknown.iter().all(|line| line.contains(" 0%")), "{unknown:?}");
    let piped = scene.sordino(&["export", recording.name(), "--to", "csv", "-o", "piped.csv"]);
    assert!(!(piped.succeeded().contains('%') || piped.errors.contains('%')), "{}", piped.errors);
}

#[test]
fn a_locale_without_utf_8_gets_ascii_alone_and_json_holds_the_same() {
    let scene = Scene::new();
    let program = scene.path("Zürich");
    fs::copy(scene.program("once.c"), &program).unwrap();
    let record = |columns: &str, output: &str| format!("./sordino record {columns} -o {output} -- ./Zürich");
    let shown = |locale: &str, line: &str| {
        let change = |command: &mut Command| {
            command.env_remove("LC_ALL").env("LANG", "C.UTF-8").env("LC_CTYPE", locale);
        };
        on_terminal(&scene, 80, line, change).output
    };
    let ascii = shown("C", &record("", "a"));
    assert!(ascii.is_ascii() && ascii.contains(r"Z\u00fcrich ("), "{ascii}");
    let whole = shown("de_DE.UTF-8", &record("", "b"));
    assert!(whole.contains("Zürich ("), "{whole}");
    for (line, escaped) in
        [("events a", true), ("explain --event once:hit a", false), ("list", false), ("npt ü", true)]
    {
        let line = format!("./sordino {line}");
        let ascii = shown("POSIX", &line);
        assert!(ascii.is_ascii() && ascii.contains("\\u00fc") == escaped, "{line}: {ascii}");
        assert!(!escaped || shown("C.UTF-8", &line).contains('ü'), "{line}");
    }
    // Progress turns, in characters that there are.
    let (ascii, whole) =
        (shown("C", "./sordino record -d 1s -o c"), shown("C.utf8", "./sordino record -d 1s -o d"));
    assert!(ascii.is_ascii() && ascii.contains("Ctrl-C ends it"), "{ascii}");
    assert!(!whole.is_ascii() && whole.contains("Ctrl-C ends it"), "{whole}");
    let json = |locale| {
        scene.run(scene.command(&["events", "--json", "a"]).env("LC_ALL", locale)).succeeded().to_owned()
    };
    let [ascii, whole] = ["C", "C.UTF-8"].map(json);
    assert!(ascii.is_ascii() && !whole.is_ascii());
    assert_eq!(items(&ascii), items(&whole));
    assert_eq!(named(&items(&ascii), "once:hit")[0]["fields"]["text"], "Zürich");
}

#[test]
fn the_programs_are_listed_last_and_the_kernel_s_groups_in_columns() {
    let Some(scene) = Scene::new().as_root() else { return };
    let mut steady = scene.start(&mut Command::new(scene.program("steady.c")));
    steady.says("ready");
    for line in ["./sordino list", "./sordino list -v"] {
        let shown = on_terminal(&scene, 80, line, |_| {});
        let lines: Vec<&str> = shown.succeeded().lines().collect();
        let last = &lines[lines.len() - 20.min(lines.len())..];
        assert!(last.iter().any(|line| line.contains("steady:step [info] number: u64")), "{}", shown.output);
        assert!(lines[0].starts_with("Kernel"), "{}", shown.output);
    }
    let groups = on_terminal(&scene, 80, "./sordino list", |_| {});
    let kernel: Vec<&str> = groups.output.lines().take_while(|line| !line.is_empty()).skip(1).collect();
    assert!(kernel.iter().all(|line| line.split_whitespace().count() >= 4) || kernel.len() < 3, "{kernel:?}");
    let piped = scene.sordino(&["list"]);
    let of_pipe = piped.succeeded().lines().take_while(|line| !line.is_empty()).skip(1);
    let cells: BTreeSet<String> = of_pipe.map(|line| line.trim().to_owned()).collect();
    let words = |text: String| text.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(words(kernel.join(" ")), words(cells.into_iter().collect::<Vec<_>>().join(" ")));
    steady.signal(Signal::TERM);
    steady.end().succeeded();
}

#[test]
fn a_directory_with_several_recordings_is_not_read_as_one() {
    let scene = Scene::new();
    let once = scene.program("once.c");
    let command = [once.to_str().unwrap()];
    for name in ["several/one", "several/two"] {
        fs::create_dir_all(scene.path("several")).unwrap();
        scene.sordino(&[&["record", "-o", name, "--"][..], &command].concat()).succeeded();
    }
    for words in [&["events"][..], &["explain", "--event", "once:hit"]] {
        let words = [words, &["several"]].concat();
        scene.refuses(2, &["several holds 2 recordings: name one", "several/one", "several/two"], &words);
    }
    let hits =
        |path: &str| named(&items(scene.sordino(&["events", "--json", path]).succeeded()), "once:hit").len();
    assert_eq!(["several/one", "several/one/user"].map(hits), [1, 1]);
    // Of others, each trace is one.
    fs::remove_dir_all(scene.path("several/two")).unwrap();
    let part = fs::read_dir(scene.path("several/one/user")).unwrap().next().unwrap().unwrap().path();
    fs::rename(part, scene.path("several/foreign")).unwrap();
    fs::remove_dir_all(scene.path("several/one")).unwrap();
    assert_eq!(hits("several"), 1);
}

/// Chunks of a session follow each other, and are read together; snapshots can hold the same events.
#[test]
fn a_session_s_chunks_are_read_as_one_and_its_snapshots_one_by_one() {
    let scene = Scene::new();
    let once = scene.program("once.c");
    let hit =
        || scene.run(Command::new(&once).envs([ScopedSession::environment(&scene)])).succeeded().to_owned();
    for (name, options) in [("chunks", &[][..]), ("box", &["--overwrite"][..])] {
        let session = ScopedSession::start(&scene, name, options);
        for _ in 0..2 {
            hit();
            if options.is_empty() {
                session.rotate()
            } else {
                session.snapshot(&[])
            };
        }
        session.stop();
    }
    let of_chunks = scene.path("of-chunks");
    assert_eq!(named(&scene.listed(&of_chunks), "once:hit").len(), 2);
    scene.refuses(2, &["of-box holds", "recordings: name one", "snapshot-0002"], &["events", "of-box"]);
    assert!(!scene.listed(&scene.path("of-box/snapshot-0001")).is_empty());
}
