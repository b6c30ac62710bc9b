//! Users: everybody records their own programs, nobody others'; who called sudo gets the recording, and nothing else.

use rustix::process::Signal;
use serde_json::Value;
use sordino_tests::install::installed;
use sordino_tests::{Recording, Scene};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user `nobody`, and `daemon`, another one.
const NOBODY: u32 = 65534;
const DAEMON: u32 = 1;

/// A directory of `nobody`'s own; sordino and its library where everybody reaches them.
fn home(scene: &Scene) -> PathBuf {
    fs::copy(installed().join("bin/sordino"), scene.path("sordino")).unwrap();
    fs::copy(installed().join("lib/libsordino.so.0"), scene.path("libsordino.so.0")).unwrap();
    let home = scene.path("home");
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
    home
}

/// A command that runs as `user`, with no group but the user's.
fn as_user(scene: &Scene, user: u32, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    let ids =
        [format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned(), "--".to_owned()];
    command.args(ids).arg(program).env("LD_LIBRARY_PATH", scene.path("")).current_dir(scene.path("home"));
    command
}

/// All that lies below `path`, and `path`.
fn tree(path: &Path) -> Vec<PathBuf> {
    let below = fs::read_dir(path).into_iter().flatten().flatten().flat_map(|entry| tree(&entry.path()));
    std::iter::once(path.to_owned()).chain(below).collect()
}

/// "An ordinary user records their own program, without kernel events", started or running.
#[test]
fn an_ordinary_user_records_their_own_programs() {
    let scene = Scene::new();
    let home = home(&scene);
    let (burst, steady) = (scene.program("burst.c"), scene.program("steady.c"));
    let mut recorder = as_user(&scene, NOBODY, &scene.path("sordino"));
    let ended =
        scene.run(recorder.args(["record", "--json", "-o", "one", "--"]).arg(burst).args(["2", "5000"]));
    let recording = Recording::of(ended, home.join("one"));
    assert_eq!(recording.ended.status, 0);
    recording.assert_count(10_000);
    assert!(tree(&recording.path).iter().all(|path| fs::metadata(path).unwrap().uid() == NOBODY));

    let mut program = scene.start(&mut as_user(&scene, NOBODY, &steady));
    program.says("ready");
    let pid = program.pid().to_string();
    let mut recorder = as_user(&scene, NOBODY, &scene.path("sordino"));
    let small = ["--subbuf-size", "64K", "--num-subbuf", "4", "--duration", "200ms"];
    let ended = scene.run(recorder.args(["record", "--json", "-o", "two", "--pid", &pid]).args(small));
    let recording = Recording::of(ended, home.join("two"));
    assert!(recording.user_events() > 0, "{}", recording.summary);
    program.signal(Signal::TERM);
    program.end();
}

/// "Another user's program can't be attached to, with a clear reason": not to record it, not to list it.
#[test]
fn another_users_program_is_nobodys_business() {
    let scene = Scene::new();
    home(&scene);
    let steady = scene.program("steady.c");
    let mut program = scene.start(&mut as_user(&scene, DAEMON, &steady));
    program.says("ready");
    let pid = program.pid().to_string();
    let sordino =
        |arguments: &[&str]| scene.run(as_user(&scene, NOBODY, &scene.path("sordino")).args(arguments));
    let refused = sordino(&["record", "-o", "stolen", "--pid", &pid]);
    assert_eq!(refused.status, 2);
    assert!(refused.errors.contains("needs the right to trace it (run as root)"), "{}", refused.errors);
    assert!(!scene.path("home/stolen").exists());
    let listing: Value = serde_json::from_str(&sordino(&["list", "--json"]).output).unwrap();
    assert!(listing["hidden_processes"].as_u64().unwrap() > 0);
    assert!(listing["programs"].as_array().unwrap().iter().all(|other| other["pid"] != program.pid()));
    program.signal(Signal::TERM);
    program.end();
}

/// As sudo would start it for `nobody`.
fn sudo<'a>(scene: &Scene, recorder: &'a mut Command) -> &'a mut Command {
    recorder.envs([("SUDO_UID", "65534"), ("SUDO_GID", "65534"), ("SUDO_USER", "nobody")]);
    recorder.env("LD_LIBRARY_PATH", scene.path("")).current_dir(scene.path("home"))
}

/// "COMMAND runs as the user who called sudo, the trace belongs to that user; --as."
#[test]
fn the_command_runs_as_the_user_who_called_sudo() {
    let scene = Scene::new();
    home(&scene);
    let burst = scene.program("burst.c");
    for (options, expected) in [(&[][..], NOBODY), (&["--as", "daemon"], DAEMON), (&["--as", "1"], DAEMON)] {
        let (mut recorder, output) = scene.recorder(&["--kernel", "sched_switch"]);
        let script = format!("id -u; id -G; {} 1 3000", burst.display());
        sudo(&scene, recorder.args(options).args(["--", "sh", "-c", &script]));
        let recording = Recording::of(scene.run(&mut recorder), output);
        assert_eq!(recording.ended.status, 0, "{}", recording.ended.errors);
        let said: Vec<&str> = recording.ended.output.lines().take(2).collect();
        assert_eq!(said, [expected.to_string(), expected.to_string()], "a user or a group too many");
        recording.assert_count(3000);
        // What became another user on the way is not recorded: it is sordino itself.
        assert!(
            recording.programs().iter().all(|program| program["name"] != "sordino"),
            "{}",
            recording.summary
        );
        for path in tree(&recording.path) {
            let metadata = fs::symlink_metadata(&path).unwrap();
            assert_eq!((metadata.uid(), metadata.gid()), (NOBODY, NOBODY), "{}", path.display());
        }
    }
}

/// Who called sudo gets the recording and nothing else, whatever their program puts in its place meanwhile.
#[test]
fn giving_a_recording_to_its_user_gives_nothing_else() {
    let scene = Scene::new();
    let home = home(&scene);
    let (victim, directory) = (scene.path("precious"), scene.path("precious.d"));
    fs::write(&victim, "root's").unwrap();
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("inside"), "root's").unwrap();
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o600)).unwrap();
    symlink(&victim, scene.path("link")).unwrap();
    // The user owns the directory that the recording lies in, so may move it away and put something else there.
    let script = format!(
        "mv trace away && mkdir trace && ln -s {} trace/link && ln -s {} trace/user",
        victim.display(),
        directory.display()
    );
    let mut recorder = Command::new(scene.path("sordino"));
    sudo(&scene, recorder.args(["record", "-o", "trace", "--", "sh", "-c", &script]));
    let ended = scene.run(&mut recorder);
    assert!(home.join("away").exists(), "{}", ended.errors);
    for path in [&victim, &directory, &directory.join("inside")] {
        assert_eq!(
            fs::metadata(path).unwrap().uid(),
            0,
            "{} was given away; {}",
            path.display(),
            ended.errors
        );
    }
}
