//! A group that root lets trace the kernel, exactly as docs/sessions.md says.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sordino_tests::{DAEMON, EndedProcess, NOBODY, RunningProcess, Scene, wait_until};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The group that is let in, which every machine has. Of the users here, none is in it but for the test's time.
const GROUP: (&str, u32) = ("sys", 3);

/// Mounts the tracer where users find it, and has a `/run` of its own.
const ROOM: &str = "mount --make-rprivate / && mount -t tmpfs nodev /run || exit 1
    test -d /sys/kernel/tracing/instances || mount -t tracefs nodev /sys/kernel/tracing || exit 1
    echo ready && exec sleep 1000";

/// A mount namespace. It contains the machine's tracer, so the test revokes its grant.
struct MountNamespace<'a> {
    scene: &'a Scene,
    holder: RunningProcess,
}

impl<'a> MountNamespace<'a> {
    fn new(scene: &'a Scene) -> Self {
        let mut holder = scene.start(Command::new("unshare").args(["--mount", "sh", "-c", ROOM]));
        holder.says("ready");
        Self { scene, holder }
    }

    /// Runs in the namespace.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--target", &self.holder.pid().to_string(), "--"]).args(words);
        command.current_dir(self.scene.path("."));
        command
    }

    fn sordino(&self, arguments: &[&str]) -> EndedProcess {
        let sordino = self.scene.path("sordino");
        self.scene.run(&mut self.command(&[&[sordino.to_str().unwrap()], arguments].concat()))
    }

    /// Runs in the namespace as a user in these groups.
    fn command_of(&self, user: u32, groups: &str, words: &[&str]) -> Command {
        let user = user.to_string();
        let who = ["setpriv", "--reuid", &user, "--regid", &user, "--groups", groups];
        let mut command = self.command(&[&who, words].concat());
        command.env("SORDINO_RUNTIME_DIR", self.scene.path("none"));
        command
    }

    /// `sordino record` as that user.
    fn record(&self, user: u32, groups: &str, output: &Path, arguments: &[&str]) -> Command {
        let (sordino, output) = (self.scene.path("sordino"), output.to_str().unwrap());
        let words = [sordino.to_str().unwrap(), "record", "-o", output];
        self.command_of(user, groups, &[&words, arguments].concat())
    }

    /// Returns true if the user has the right to a tracer's file that the option `what` of test(1) checks.
    fn may(&self, user: u32, groups: &str, what: &str, file: &str) -> bool {
        let path = format!("/sys/kernel/tracing/{file}");
        self.scene.run(&mut self.command_of(user, groups, &["test", what, &path])).status == 0
    }

    /// Returns a file of the tracer's, or of the record of the grant.
    fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.holder.pid())).join(path)
    }

    /// A setting of instance `number`.
    fn setting(&self, number: u32, name: &str) -> String {
        let instance = format!("sys/kernel/tracing/instances/sordino.{}.{number}/{name}", GROUP.0);
        fs::read_to_string(self.path(&instance)).unwrap().trim().to_owned()
    }

    /// A new instance is on, but without an event.
    fn records(&self, number: u32) -> bool {
        self.setting(number, "events/sched/sched_switch/enable") == "1"
            && self.setting(number, "tracing_on") == "1"
    }

    fn is_clean(&self, number: u32) -> bool {
        let setting = |name| self.setting(number, name);
        setting("tracing_on") == "0"
            && setting("events/enable") == "0"
            && setting("events/sched/sched_switch/filter") == "none"
            && setting("trace_clock").starts_with("[local]")
            && setting("buffer_size_kb").parse::<u32>().unwrap() < 64
    }

    /// Mode, owner, group and path of all that the tracer has, but for the instances of other recorders.
    fn access(&self) -> Vec<String> {
        let (mut found, mut waiting) = (Vec::new(), vec![self.path("sys/kernel/tracing")]);
        while let Some(path) = waiting.pop() {
            let Ok(status) = fs::symlink_metadata(&path) else { continue };
            let about = (status.mode(), status.uid(), status.gid());
            found.push(format!("{about:?} {}", path.display()));
            let entries = fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path());
            waiting.extend(entries.filter(|path| !path.to_string_lossy().contains("/instances/sordino-")));
        }
        found.sort_unstable();
        found
    }
}

impl Drop for MountNamespace<'_> {
    fn drop(&mut self) {
        // Instances that a failed test left behind.
        if self.path("run/sordino/grant.journal").exists() {
            // Guardians are still at work.
            wait_until("it is taken back", || self.sordino(&["revoke", GROUP.0]).status == 0);
        }
    }
}

/// The command of the page, for this group.
fn documented() -> Vec<String> {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/sessions.md")).unwrap();
    let line = page.lines().find_map(|line| line.strip_prefix("sudo sordino grant ")).expect("a command");
    let words = line.split('#').next().unwrap().split_whitespace();
    ["grant"].into_iter().chain(words).map(|word| word.replace("tracing", GROUP.0)).collect()
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// The process that undoes what a recorder changed.
fn guardian_of(recorder: i32) -> i32 {
    let children = fs::read_to_string(format!("/proc/{recorder}/task/{recorder}/children")).unwrap();
    let name = |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    let guardian = children.split_whitespace().find(|pid| name(pid).trim() == "sordino-undo");
    guardian.expect("a guardian").parse().unwrap()
}

fn switches(events: &[Value]) -> usize {
    events.iter().filter(|event| event["name"] == "sched_switch").count()
}

#[test]
fn members_of_a_group_that_root_lets_trace_the_kernel_do() {
    let Some(scene) = Scene::new().as_root() else { return };
    let room = MountNamespace::new(&scene);
    if room.sordino(&["grant", "--list"]).output.contains("sordino.") {
        return Scene::not_measured("a group of this machine's was let trace the kernel");
    }
    let (one, other) = (scene.directory_of(NOBODY, "one"), scene.directory_of(DAEMON, "other"));
    let group = GROUP.1.to_string();
    let member = |output: &str, arguments: &[&str]| room.record(NOBODY, &group, &one.join(output), arguments);
    let refused_with = |options: &[&str], words: &[&str]| {
        scene.run(&mut member("refused", &[options, &["--", "true"]].concat())).failed(2, words)
    };
    let refused = |words: &[&str]| refused_with(&["--kernel", "sched"], words);

    let before = room.access();
    refused(&["no permission", "sudo sordino grant GROUP"]);
    let words = documented();
    let granted = room.sordino(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(granted.succeeded().contains("the activity of all users in the kernel"));
    // Modes and owners stay when the kernel drops the unused files' inodes.
    fs::write("/proc/sys/vm/drop_caches", "2").unwrap();

    // Other users have no access to root's own instance, and a further instance belongs to its group.
    for (what, file) in
        [("-r", "trace"), ("-r", "trace_pipe"), ("-w", "trace_marker"), ("-w", "events/enable")]
    {
        assert!(!room.may(NOBODY, &group, what, file), "{what} {file}");
    }
    for (what, file) in [("-w", "current_tracer"), ("-w", "events/sched/sched_switch/trigger")] {
        assert!(!room.may(NOBODY, &group, what, &format!("instances/sordino.sys.1/{file}")), "{what} {file}");
    }
    assert!(!room.may(DAEMON, "1", "-r", "instances/sordino.sys.1"));

    let long = ["--duration", "90s", "--kernel"];
    let first = scene.start(&mut member("first", &[&long[..], &["sched_switch if prev_prio < 0"]].concat()));
    wait_until("the first one records", || room.records(1));
    let second = scene.start(&mut room.record(
        DAEMON,
        &group,
        &other.join("b"),
        &[&long[..], &["sched,irq"]].concat(),
    ));
    wait_until("the second one records", || room.records(2));
    refused(&["of the 2 tracing instances", "none is free", "--instances 3"]);
    let outsider =
        scene.run(&mut room.record(DAEMON, "1", &other.join("c"), &["--kernel", "sched", "--", "true"]));
    outsider.failed(2, &["no permission"]);
    assert_eq!(
        room.sordino(&["grant", "--list"]).succeeded(),
        "sordino.sys.1  in use\nsordino.sys.2  in use\n"
    );
    room.sordino(&["revoke", GROUP.0]).failed(1, &["sordino.sys.1, sordino.sys.2 in use"]);

    // One whose guardian dies, too, leaves its events and its filter; the next one to come does not have them.
    kill(guardian_of(first.pid()));
    kill(first.pid());
    first.end();
    assert!(room.records(1));
    scene.run(&mut member("after", &["--kernel", "sched_switch", "--duration", "300ms"])).succeeded();
    assert!(switches(&scene.listed(&one.join("after"))) > 0);
    assert!(room.is_clean(1));

    // The set `rt` leaves out events that are not granted, unless their group is named.
    scene.run(&mut member("rt", &["--kernel", "rt", "--duration", "300ms"])).succeeded();
    let all = scene.listed(&one.join("rt"));
    let is_of_files = |event: &&Value| event["name"].as_str().unwrap().starts_with("mm_filemap");
    assert!(switches(&all) > 0 && !all.iter().any(|event| is_of_files(&event)));
    refused_with(&["--kernel", "rt,filemap"], &["filemap", "--all-events"]);

    kill(second.pid());
    second.end();
    wait_until("the guardian has given it back", || room.is_clean(2));
    // Root completes only its own recordings; another user's are completed by that user.
    scene.run(scene.command(&["recover"]).arg(other.join("b"))).failed(2, &["it belongs to user 1"]);
    scene.run(scene.command_of(DAEMON, &["recover"]).arg(other.join("b"))).succeeded();
    assert!(switches(&scene.listed(&other.join("b"))) > 0);

    wait_until("all are free", || !room.sordino(&["grant", "--list"]).output.contains("in use"));
    room.sordino(&["revoke", GROUP.0]).succeeded();
    assert!(!room.path("run/sordino").exists());
    let after = room.access();
    let differs = before.iter().zip(&after).find(|(before, after)| before != after);
    assert!(differs.is_none() && before.len() == after.len(), "{differs:?}");
    refused(&["no permission"]);
}
