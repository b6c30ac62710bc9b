//! Users record their own programs and no others; the user who called sudo gets the recording, and nothing else.

use rustix::process::Signal;
use serde_json::Value;
use sordino_tests::listing::babeltrace;
use sordino_tests::recording::{all_below, events_of};
use sordino_tests::{CompletedRecording, DAEMON, NOBODY, RunningProcess, Scene};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The users and groups that own `path` and everything below it.
fn owners(path: &Path) -> Vec<(u32, u32)> {
    let files = all_below(path).into_iter().chain([path.to_owned()]);
    let metadata = files.map(|file| fs::symlink_metadata(file).unwrap());
    let mut owners: Vec<(u32, u32)> = metadata.map(|file| (file.uid(), file.gid())).collect();
    owners.sort_unstable();
    owners.dedup();
    owners
}

/// Starts `program`, run by `user`.
fn start_as(scene: &Scene, user: u32, program: &Path) -> RunningProcess {
    let mut running = scene.start(Command::new(program).uid(user).gid(user));
    running.says("ready");
    running
}

fn stop(running: RunningProcess) {
    running.signal(Signal::TERM);
    running.end().succeeded();
}

/// "An ordinary user records their own program, without kernel events", started or running.
#[test]
fn an_ordinary_user_records_their_own_programs() {
    let Some(scene) = Scene::new().as_root() else { return };
    let home = scene.directory_of(NOBODY, "home");
    let burst = format!("{} 2 5000", scene.program("burst.c").display());
    let mut recorder = scene.command_of(NOBODY, &["record", "--json", "-o", "one", "--", "sh", "-c", &burst]);
    let ended = scene.run(recorder.current_dir(&home));
    ended.succeeded();
    let recording = CompletedRecording::of(ended, home.join("one"));
    recording.assert_count(10_000);
    assert_eq!((recording.lost(), recording.notes()), (0, String::new()));
    assert_eq!(owners(&recording.path), [(NOBODY, NOBODY)]);
    let (lines, complaints) = babeltrace(&recording.path);
    assert_eq!(complaints, "");
    let events = scene.run(scene.command_of(NOBODY, &["events", "--statedump", "one"]).current_dir(&home));
    assert_eq!(events.succeeded().lines().count(), lines.len());

    let program = start_as(&scene, NOBODY, &scene.program("steady.c"));
    let pid = program.pid().to_string();
    let small = ["--subbuf-size", "64K", "--num-subbuf", "4", "--duration", "200ms"];
    let record = [&["record", "--json", "-o", "two", "--pid", &pid], &small[..]].concat();
    let ended = scene.run(scene.command_of(NOBODY, &record).current_dir(&home));
    let recording = CompletedRecording::of(ended, home.join("two"));
    assert!(recording.user_events() > 0, "{}", recording.summary);
    stop(program);
}

/// The programs in a listing, or in a recorder's summary.
fn pids(listing: &Value) -> Vec<i32> {
    let programs = listing["programs"].as_array().unwrap().iter();
    programs.map(|program| program["pid"].as_i64().unwrap() as i32).collect()
}

/// "Another user's program can't be attached to, with a clear reason": not to record it, not to list it.
#[test]
fn another_users_program_is_nobodys_business() {
    let Some(scene) = Scene::new().as_root() else { return };
    let home = scene.directory_of(NOBODY, "home");
    let steady = scene.program("steady.c");
    let [own, daemons, roots] = [NOBODY, DAEMON, 0].map(|user| start_as(&scene, user, &steady));
    let by_nobody = |arguments: &[&str]| scene.run(scene.command_of(NOBODY, arguments).current_dir(&home));
    for other in [&daemons, &roots] {
        let pid = other.pid().to_string();
        let words = [&pid, "another user's", "needs the right to trace it (run as root)"];
        by_nobody(&["record", "-o", "stolen", "--pid", &pid]).failed(2, &words);
        assert_eq!(all_below(&home).len(), 0);
    }
    let only_own = |pids: Vec<i32>| {
        assert!(pids.contains(&own.pid()), "{pids:?}");
        assert!(!pids.contains(&daemons.pid()) && !pids.contains(&roots.pid()), "{pids:?}");
    };
    let json = |ended: &str| serde_json::from_str::<Value>(ended).unwrap();

    // All that can be recorded: what is theirs, and has room for the rings: an ordinary program reserves little.
    let all = ["record", "--json", "-o", "all", "--duration", "300ms"];
    let ended = by_nobody(&[&all[..], &["--subbuf-size", "64K", "--num-subbuf", "4"]].concat());
    let recording = CompletedRecording::of(ended, home.join("all"));
    only_own(pids(&recording.summary));
    let name = steady.file_name().unwrap().to_str().unwrap();
    assert_eq!((recording.ended.status, events_of(recording.program(name)) > 0), (0, true));

    let listing = json(by_nobody(&["list", "--json"]).succeeded());
    assert!(listing["hidden_processes"].as_u64().unwrap() > 0);
    only_own(pids(&listing));
    assert!(by_nobody(&["list"]).succeeded().contains("processes of other users"));
    let all = pids(&json(scene.sordino(&["list", "--json"]).succeeded()));
    assert!([&own, &daemons, &roots].iter().all(|running| all.contains(&running.pid())), "{all:?}");
    [own, daemons, roots].into_iter().for_each(stop);
}

/// Sets the environment in which sudo would start the recorder for `nobody`.
fn sudo(recorder: &mut Command) {
    recorder.envs([("SUDO_UID", "65534"), ("SUDO_GID", "65534"), ("SUDO_USER", "nobody")]);
}

/// "COMMAND runs as the user who called sudo, the trace belongs to that user; --as", which takes precedence over the
/// user who called sudo.
#[test]
fn the_command_runs_as_the_user_who_called_sudo() {
    let Some(scene) = Scene::new().as_root() else { return };
    let burst = scene.program("burst.c");
    let kernel = ["--kernel", "sched_switch"];
    for (options, by_sudo, user, owner) in [
        (&[][..], true, NOBODY, NOBODY),
        (&kernel[..], true, NOBODY, NOBODY),
        (&[&kernel[..], &["--as", "daemon"]].concat(), true, DAEMON, NOBODY),
        (&[&kernel[..], &["--as", "1"]].concat(), true, DAEMON, NOBODY),
        (&["--as", "root"], true, 0, NOBODY),
        (&["--as", "nobody"], false, NOBODY, NOBODY),
        (&["--as", "65534"], false, NOBODY, NOBODY),
        (&[], false, 0, 0),
    ] {
        let script = format!("id -u; id -g; id -G; {} 1 3000", burst.display());
        let recording = scene.record_with(options, &["sh", "-c", &script], |recorder| {
            if by_sudo {
                sudo(recorder);
            }
        });
        assert_eq!((recording.ended.status, recording.lost()), (0, 0), "{}", recording.ended.errors);
        let printed: Vec<&str> = recording.ended.output.lines().take(3).collect();
        // The groups of root are the machine's affair.
        let known = if user == 0 { 1 } else { 3 };
        assert_eq!(
            printed[..known],
            vec![user.to_string(); known],
            "{options:?}: a user or a group too many"
        );
        recording.assert_count(3000);
        // A process that has changed its user on the way is not recorded: it is sordino itself.
        let programs = recording.programs();
        assert!(programs.iter().all(|program| program["name"] != "sordino"), "{}", recording.summary);
        assert_eq!(owners(&recording.path), [(owner, owner)], "{options:?}");
    }
    scene.refuses(2, &["no user 'nobody-at-all'"], &["record", "--as", "nobody-at-all", "--", "true"]);
}

/// The user who called sudo gets the recording and nothing else, even if the program replaces its files meanwhile.
#[test]
fn giving_a_recording_to_its_user_gives_nothing_else() {
    let Some(scene) = Scene::new().as_root() else { return };
    let home = scene.directory_of(NOBODY, "home");
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
    let mut recorder = scene.command(&["record", "-o", "trace", "--", "sh", "-c", &script]);
    sudo(&mut recorder);
    let ended = scene.run(recorder.current_dir(&home));
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
