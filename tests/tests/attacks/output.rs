//! Files that a recorder writes: only to its own directory, even if the traced program replaces it, and unreadable for
//! other users.

use sordino_tests::recording::all_below;
use sordino_tests::{Sandbox, Scene};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const ATTACK: &str = env!("CARGO_BIN_EXE_attack_output");

/// Files of root's that no attack may change: a file, and a directory with a file.
struct Precious {
    file: PathBuf,
    directory: PathBuf,
}

impl Precious {
    fn new(scene: &Scene) -> Self {
        let (file, directory) = (scene.path("precious"), scene.path("precious.d"));
        fs::create_dir(&directory).unwrap();
        for file in [&file, &directory.join("inside")] {
            fs::write(file, "root's").unwrap();
            fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
        }
        Self { file, directory }
    }

    #[track_caller]
    fn assert_whole(&self, what: &str) {
        for file in [&self.file, &self.directory.join("inside")] {
            let metadata =
                fs::metadata(file).unwrap_or_else(|error| panic!("{what}: {}: {error}", file.display()));
            let is_same = fs::read(file).unwrap() == b"root's";
            assert!(
                is_same && metadata.uid() == 0 && metadata.mode() & 0o7777 == 0o600,
                "{what}: {}",
                file.display()
            );
        }
        assert_eq!(all_below(&self.directory).len(), 1, "{what}: {:?}", all_below(&self.directory));
    }
}

/// Shell commands that set the environment in which sudo starts a program for the unprivileged user.
const SUDO: &str = "export SUDO_UID=65534 SUDO_GID=65534 SUDO_USER=nobody; cd \"$USER_HOME\"; ";

/// README's own example: the command moves away the directory that root has made, and replaces it by links under every
/// name that a recorder writes.
#[test]
fn links_in_the_place_of_the_output_are_not_written_through() {
    let Some(scene) = Scene::new().as_root() else { return };
    let (sandbox, precious) = (Sandbox::new(&scene, ATTACK), Precious::new(&scene));
    let burst = scene.program("burst.c");
    let links = "recording.new recording.json .recording.json.new kernel user .raw";
    for (name, target) in [("file", &precious.file), ("directory", &precious.directory)] {
        let plant = format!(
            "mv {name} {name}.away; mkdir {name}; for link in {links}; do ln -s {} {name}/$link; done; {} 1 100",
            target.display(),
            burst.display()
        );
        let ended = sandbox.run(&format!("{SUDO} \"$SORDINO\" record -o {name} -- sh -c '{plant}'"));
        precious.assert_whole(&ended.errors);
        assert_eq!(ended.status, 0, "{}", ended.errors);
        assert!(ended.errors.contains("recorded 100 user"), "{}", ended.errors);
        // It is where it was moved to, complete, and its user's.
        let away = sandbox.home().join(format!("{name}.away"));
        assert!(fs::read_to_string(away.join("recording.json")).unwrap().contains("\"finished\""));
        assert!(all_below(&away).iter().all(|path| fs::symlink_metadata(path).unwrap().uid() == 65_534));
    }
}

/// The same attack on a session that begins a chunk every 100 ms, while its directory's name and one full of links are
/// exchanged as fast as possible.
#[test]
fn exchanging_names_beside_a_session_reaches_nothing() {
    let Some(scene) = Scene::new().as_root() else { return };
    let (sandbox, precious) = (Sandbox::new(&scene, ATTACK), Precious::new(&scene));
    let burst = scene.program("burst.c");
    let plant = format!(
        "as_user mkdir fake; for number in $(seq 1 60); do
           as_user ln -s {directory} $(printf fake/chunk-%04d $number); done
         as_user ln -s {file} fake/recording.json",
        directory = precious.directory.display(),
        file = precious.file.display()
    );
    let ended = sandbox.run(&format!(
        "{plant}; {SUDO} \"$SORDINO\" start box -o box --rotate-every 100ms --keep 3
         as_user \"$ATTACK\" exchange box fake 3 & as_user {burst} 20 2000 & sleep 2
         wait $! || true; \"$SORDINO\" stop box; wait",
        burst = burst.display()
    ));
    precious.assert_whole(&ended.errors);
    assert_eq!(ended.status, 0, "{}\n{}", ended.output, ended.errors);
    let exchanged =
        ended.output.lines().find_map(|line| line.strip_prefix("exchanged ")?.parse::<u64>().ok());
    assert!(exchanged.is_some_and(|count| count > 1000), "{}", ended.output);
}

/// An existing directory is rejected if it belongs to another user, is open to others, or is a link; its files are
/// left.
#[test]
fn a_directory_of_somebody_else_is_refused() {
    let Some(scene) = Scene::new().as_root() else { return };
    let (sandbox, precious) = (Sandbox::new(&scene, ATTACK), Precious::new(&scene));
    let ended = sandbox.run(&format!(
        "as_user mkdir theirs; mkdir -m 777 open; as_user ln -s {precious} link; as_user ln -s open/new linked; {SUDO}
         for output in theirs \"$SCENE/open\" link; do
             for command in 'record -o' 'start refused -o' 'check --duration 100ms --only system -o'; do
                 last='-- true'; case $command in check*) last=;; esac
                 \"$SORDINO\" $command $output $last && echo \"accepted: $command $output\"
             done
         done; ls -A theirs \"$SCENE/open\"; true",
        precious = precious.directory.display()
    ));
    precious.assert_whole(&ended.errors);
    assert!(!ended.output.contains("accepted"), "{}\n{}", ended.output, ended.errors);
    assert!(ended.errors.contains("it belongs to user 65534"), "{}", ended.errors);
    assert!(ended.errors.contains("mode 777"), "{}", ended.errors);
    assert!(ended.errors.contains("it is no directory, or a link"), "{}", ended.errors);
    assert_eq!(all_below(&sandbox.home().join("theirs")).len(), 0);
}

/// A recording that the user made looks unfinished, and has links in the place of the files to be completed.
#[test]
fn a_planted_recording_is_not_completed() {
    let Some(scene) = Scene::new().as_root() else { return };
    let (sandbox, precious) = (Sandbox::new(&scene, ATTACK), Precious::new(&scene));
    let burst = scene.program("burst.c");
    let plant = format!(
        "as_user \"$SORDINO\" record -o one -- {burst} 1 100 2>/dev/null
         as_user sed -i 's/\"finished\"/\"recording\"/; s/\"recorder\": [0-9]*/\"recorder\": 999999/' one/recording.json
         as_user sh -c 'cd one/user/0*; rm cpu* shared 2>/dev/null; for file in cpu0 cpu1 shared; do ln -s {precious} $file; done'
         as_user cp -a one linked; as_user mkdir -p series; as_user cp -a one series/chunk-0001",
        burst = burst.display(),
        precious = precious.file.display()
    );
    let ended = sandbox.run(&format!(
        "{plant}; {SUDO}
         \"$SORDINO\" recover one && echo 'accepted: recover'
         \"$SORDINO\" start box -o series --rotate-every 1h && sleep 0.5 && \"$SORDINO\" status box
         \"$SORDINO\" stop box && \"$SORDINO\" start box && \"$SORDINO\" stop box
         chown -R 0:0 \"$USER_HOME/linked\"; \"$SORDINO\" recover linked && echo 'accepted: roots'; true"
    ));
    precious.assert_whole(&ended.errors);
    assert!(!ended.output.contains("accepted"), "{}\n{}", ended.output, ended.errors);
    assert!(ended.errors.contains("one is not ours alone (it belongs to user 65534"), "{}", ended.errors);
}

/// Recordings of root's hold names, addresses and data of all users, so only root may read them; recordings through
/// sudo belong to the calling user.
#[test]
fn nobody_else_reads_a_recording() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    let burst = scene.program("burst.c").display().to_string();
    let ended = sandbox.run(&format!(
        "umask 0; cd \"$SCENE\"; \"$SORDINO\" record -o roots --kernel sched_switch -- {burst} 1 100
         \"$SORDINO\" start box --overwrite -o snapshots; {burst} 1 100; \"$SORDINO\" snapshot box; \"$SORDINO\" stop box
         {SUDO} \"$SORDINO\" record -o given -- {burst} 1 100"
    ));
    assert_eq!(ended.status, 0, "{}\n{}", ended.output, ended.errors);
    let open = |path: &Path| {
        let all = all_below(path).into_iter().chain([path.to_owned()]);
        let open: Vec<_> =
            all.filter(|path| fs::symlink_metadata(path).unwrap().mode() & 0o077 != 0).collect();
        assert_eq!(open, Vec::<PathBuf>::new());
    };
    open(&scene.path("roots"));
    open(&scene.path("snapshots"));
    open(&sandbox.home().join("given"));
    assert_eq!(fs::metadata(sandbox.home().join("given/recording.json")).unwrap().uid(), 65_534);
}

/// A session that is refused, or can't begin, gives nothing away that was there: `-o /etc` is one typing error away.
#[test]
fn a_session_that_does_not_begin_gives_away_nothing_that_was_there() {
    let Some(scene) = Scene::new().as_root() else { return };
    let (sandbox, precious) = (Sandbox::new(&scene, ATTACK), Precious::new(&scene));
    let ended = sandbox.run(&format!(
        "mkdir \"$SCENE/empty\"; {SUDO}
         for flight in '' --overwrite; do
             \"$SORDINO\" start box $flight -o {precious} && echo accepted
         done
         \"$SORDINO\" start box -o \"$SCENE/empty\" -- ./none && echo accepted
         \"$SORDINO\" start box -o \"$SCENE/empty\" -- \"$USER_HOME\" && echo accepted
         SORDINO_RUNTIME_DIR=relative \"$SORDINO\" start box -o \"$SCENE/empty\" && echo accepted
         ls -A \"$SCENE/empty\"; true",
        precious = precious.directory.display()
    ));
    precious.assert_whole(&ended.errors);
    assert_eq!(ended.succeeded(), "", "{}", ended.errors);
    assert!(ended.errors.contains("is not empty"), "{}", ended.errors);
    assert_eq!(fs::metadata(&precious.directory).unwrap().uid(), 0);
    assert_eq!(fs::metadata(scene.path("empty")).unwrap().uid(), 0);
}

/// Between two sessions, their directory's owner moves files and a directory of root's, and mounts, to the names of
/// recordings. The second session neither gives them to the user nor removes them.
#[test]
fn what_a_user_moves_among_recordings_is_neither_given_away_nor_removed() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    let ended = sandbox.run(&format!(
        r#"{SUDO}
        session() {{ "$SORDINO" start box -o series "$@" >/dev/null && "$SORDINO" stop box >/dev/null; }}
        roots() {{ umask 077; mkdir $1; echo secret >$1/key; umask 022; }}
        session; stat -c 'given %u' series series/chunk-0001
        # What root keeps in the user's directories.
        roots series/keys; (umask 077; echo secret >log); as_user mkdir work; roots work/roots
        mkdir -m 777 work/mounted; mount -t tmpfs -o mode=777 tmpfs work/mounted; echo mounted >work/mounted/file
        # The user moves it.
        as_user cp series/chunk-0001/recording.json work
        as_user rm -r series/chunk-0001
        as_user mv series/keys series/chunk-0003; as_user mv log series/chunk-0004
        as_user mv work series/chunk-0002
        session --keep 1
        stat -c 'kept %u %n' series/chunk-0003 series/chunk-0003/key series/chunk-0004             series/chunk-0002/roots/key series/chunk-0002/mounted/file
        stat -c 'given %u' series series/chunk-0005 series/chunk-0005/recording.json
        # A session that can't begin gives back the directory alone.
        "$SORDINO" start other -o series -- "$USER_HOME" || true
        "$SORDINO" start other -o series --kernel nothing:nowhere || true
        stat -c 'kept %u %n' series/chunk-0003/key series/chunk-0004
        stat -c 'given %u' series
        umount series/chunk-0002/mounted
        # What its user could remove is removed.
        rm -rf series/chunk-0002 series/chunk-0003 series/chunk-0004
        session --keep 1; ls series
        # No number comes behind this one.
        as_user mkdir series/chunk-4294967295; session || true
        "#
    ));
    let lines = |word: &str| -> Vec<&str> {
        ended.output.lines().filter_map(|line| line.strip_prefix(word)).map(str::trim).collect()
    };
    let kept = lines("kept");
    assert!(
        kept.len() == 7 && kept.iter().all(|line| line.starts_with("0 ")),
        "{}\n{}",
        ended.output,
        ended.errors
    );
    let given = lines("given");
    assert!(
        given.len() == 6 && given.iter().all(|line| *line == "65534"),
        "{}\n{}",
        ended.output,
        ended.errors
    );
    assert_eq!(lines("chunk-"), ["0006"], "{}\n{}", ended.output, ended.errors);
    assert!(!ended.errors.contains("panicked") && ended.errors.contains("is not empty"), "{}", ended.errors);
}

/// The next session of a directory reads files that its user has put there, and replies all the same.
#[test]
fn recordings_that_a_user_puts_into_a_directory_do_not_stall_its_session() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    let ended = sandbox.run(&format!(
        r#"{SUDO} "$SORDINO" start box -o series >/dev/null; "$SORDINO" stop box >/dev/null
        for number in $(seq 101 350); do
            as_user mkdir series/chunk-$number; as_user truncate -s 60M series/chunk-$number/recording.json
        done
        timeout -s KILL 30 "$SORDINO" start box >/dev/null && "$SORDINO" stop box >/dev/null && echo stopped"#
    ));
    assert_eq!(ended.succeeded(), "stopped\n", "{}", ended.errors);
}

/// A recording for a stream lies in a temporary directory for a while. In a directory of another user, that user could
/// replace it by links to root's files, which would then be sent.
#[test]
fn a_temporary_directory_of_somebody_else_is_refused() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    let ended = sandbox.run(&format!(
        r#"as_user mkdir temporary; {SUDO}
        TMPDIR=$USER_HOME/temporary "$SORDINO" record -o - -- true >"$SCENE/stream" && echo accepted
        TMPDIR=$SCENE "$SORDINO" record -o - -- true >"$SCENE/stream" && echo sent
        ls -A temporary"#
    ));
    assert_eq!(ended.succeeded(), "sent\n", "{}", ended.errors);
    assert!(ended.errors.contains("it belongs to user 65534"), "{}", ended.errors);
}

/// A user replaces the directories in which a session was started and in which sordino is called by links: nothing is
/// created at the links' targets or given to the user.
#[test]
fn a_working_directory_that_is_exchanged_leads_nowhere_else() {
    let Some(scene) = Scene::new().as_root() else { return };
    let (sandbox, precious) = (Sandbox::new(&scene, ATTACK), Precious::new(&scene));
    let ended = sandbox.run(&format!(
        r#"{SUDO} as_user mkdir work; cd work
        "$SORDINO" start box >/dev/null; "$SORDINO" stop box >/dev/null; cd ..
        as_user mv work away; as_user ln -s {precious} work
        "$SORDINO" start box && echo accepted
        as_user rm work; as_user mv away work; as_user ln -s {precious} fake; cd work
        as_user "$ATTACK" exchange work fake 4 &
        for i in $(seq 1 20); do "$SORDINO" record -o out$i -- true 2>/dev/null; done; wait"#,
        precious = precious.directory.display()
    ));
    precious.assert_whole(&ended.errors);
    assert!(!ended.output.contains("accepted"), "{}\n{}", ended.output, ended.errors);
    assert!(ended.errors.contains("which does not exist any more"), "{}", ended.errors);
}

/// Everyday uses are still accepted: with the umask of many distributions, and through sudo.
#[test]
fn everyday_directories_and_files_are_taken() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    let ended = sandbox.run(&format!(
        r#"umask 002; cd "$USER_HOME"; as_user mkdir out out.session out.check
        as_user "$SORDINO" record -o out -- true
        for i in 1 2; do
            as_user "$SORDINO" start box -o out.session >/dev/null; as_user "$SORDINO" stop box >/dev/null
        done
        as_user "$SORDINO" check --duration 100ms --only system -o out.check >/dev/null
        as_user "$SORDINO" record -o new/one/../other -- true
        stat -c '%n %a' out out.session out.check new/other
        ls out.session
        {SUDO} "$SORDINO" npt -p 0 -l 10 -n 0 --output report >/dev/null
        stat -c '%n %u %a' report
        for output in killed "$SCENE/roots"; do
            "$SORDINO" record -o "$output" --as root -- sh -c 'kill -9 $PPID' || true
        done
        stat -c '%n %u' killed; "$SORDINO" recover killed >/dev/null; stat -c '%n %u' killed killed/recording.json
        as_user ln -s "$SCENE/roots" sordino-9; "$SORDINO" recover >/dev/null; stat -c 'roots %u' "$SCENE"/roots"#
    ));
    let expected = "out 755\nout.session 755\nout.check 755\nnew/other 700\nchunk-0001\nchunk-0002\nreport 65534 600\nkilled 0\n\
                    killed 65534\nkilled/recording.json 65534\nroots 0\n";
    assert_eq!(ended.output, expected, "{}", ended.errors);
}

/// In a container, directories and files of the same place name different devices.
#[test]
fn a_recording_on_overlayfs_is_given_whole() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sandbox = Sandbox::new(&scene, ATTACK);
    let ended = sandbox.run(&format!(
        r#"mkdir "$SCENE/lower" "$SCENE/layers" "$SCENE/merged"; mount -t tmpfs tmpfs "$SCENE/layers"; cd "$SCENE/layers"
        mkdir upper work; mount -t overlay overlay -o lowerdir=../lower,upperdir=upper,workdir=work "$SCENE/merged" 2>/dev/null ||
            {{ echo 'not measured'; exit; }}
        {SUDO} "$SORDINO" record -o "$SCENE/merged/one" -- true
        find "$SCENE/merged/one" -printf '%U\n' | sort | uniq"#
    ));
    if ended.output.starts_with("not measured") {
        return Scene::not_measured("no overlayfs can be mounted");
    }
    assert_eq!(ended.succeeded(), "65534\n", "{}", ended.errors);
}
