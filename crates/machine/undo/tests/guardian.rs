//! A parent that changes files, with a guardian, and ends in every way in which a process can end.
//!
//! The test program starts itself as the parent, and the parent starts it as the guardian: these roles are the two
//! ignored tests.

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid};
use sordino_proc::stat::Stat;
use sordino_undo::{Error, FailedStep, Guardian, UndoStep, guard};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Timeout of a test; reached only if something hangs.
const PATIENCE: Duration = Duration::from_secs(30);
const OLD: &str = "old\n";

/// Command that runs this program in another role.
fn role(name: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", name, "--ignored"]);
    command
}

/// Writes files as requested, and appends each file's path to the file `log` beside it.
#[test]
#[ignore = "a role, started by the other tests"]
fn as_guardian() {
    let carry_out = |step: &UndoStep| {
        let UndoStep::Write { file, text } = step else { return Err("not in this test".to_owned()) };
        let log = file.with_file_name("log");
        let before = fs::read_to_string(&log).unwrap_or_default();
        fs::write(log, before + &file.display().to_string() + "\n").unwrap();
        UndoStep::write(file, text).map_err(|error| error.to_string())
    };
    guard(carry_out).unwrap();
}

/// Changes `a` and `b` in the directory, and ends in the given way at the given point.
#[test]
#[ignore = "a role, started by the other tests"]
fn as_parent() {
    let variable = |name| std::env::var(name).unwrap();
    let (directory, ending) = (PathBuf::from(variable("UNDO_DIRECTORY")), variable("UNDO_ENDING"));
    // These signals terminate the parent, even if a shell that ignores them in the background started it.
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register_conditional_default(signal, Arc::new(true.into())).unwrap();
    }
    // Without close-on-exec, the guardian's process inherits this descriptor.
    let kept = fs::File::open(directory.join("a")).unwrap();
    rustix::io::fcntl_setfd(&kept, rustix::io::FdFlags::empty()).unwrap();
    let mut guardian = Guardian::start(&mut role("as_guardian")).unwrap();
    fs::write(directory.join("guardian"), guardian.id().to_string()).unwrap();
    let mut command = Command::new("sleep").arg("60").spawn().unwrap();
    fs::write(directory.join("command"), command.id().to_string()).unwrap();
    for name in ["a", "b"] {
        let file = directory.join(name);
        guardian.add(UndoStep::restore(&file).unwrap()).unwrap();
        end(&directory, &ending, &format!("before-{name}"));
        fs::write(&file, "a new and longer text\n").unwrap();
        end(&directory, &ending, &format!("after-{name}"));
    }
    if ending == "undo" {
        assert_eq!(guardian.undo().unwrap(), []);
        assert_eq!(contents(&directory), [OLD, OLD]);
    }
    command.kill().unwrap();
    command.wait().unwrap();
}

/// Ends this process if `ending` names this point.
fn end(directory: &Path, ending: &str, place: &str) {
    match ending.strip_suffix(place) {
        Some("panic-") => panic!("as told"),
        Some("abort-") => std::process::abort(),
        Some("wait-") => {
            fs::write(directory.join("waiting"), "").unwrap();
            std::thread::sleep(PATIENCE);
        }
        _ => {}
    }
}

struct Scene {
    directory: tempfile::TempDir,
    parent: Child,
}

impl Scene {
    fn start(ending: &str) -> Self {
        // This process waits for the parent's children, which outlive the parent.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
        let directory = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            fs::write(directory.path().join(name), OLD).unwrap();
        }
        let parent = role("as_parent")
            .env("UNDO_DIRECTORY", directory.path())
            .env("UNDO_ENDING", ending)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { directory, parent }
    }

    /// Reads the process id that the parent wrote to the file `name`.
    fn id(&self, name: &str) -> Pid {
        let text = fs::read_to_string(self.directory.path().join(name)).unwrap();
        Pid::from_raw(text.parse().unwrap()).unwrap()
    }

    fn wait_for(&self, name: &str) {
        let since = Instant::now();
        while !self.directory.path().join(name).exists() {
            assert!(since.elapsed() < PATIENCE, "{name} never came");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Checks that the files have their old content after parent and guardian have ended. Returns the order of undoing.
    fn verify(mut self) -> Vec<String> {
        self.parent.wait().unwrap();
        adopt(self.id("guardian"));
        let _ = kill_process(self.id("command"), Signal::KILL);
        adopt(self.id("command"));
        assert_eq!(contents(self.directory.path()), [OLD, OLD]);
        let log = fs::read_to_string(self.directory.path().join("log")).unwrap();
        log.lines().map(|line| line.rsplit('/').next().unwrap().to_owned()).collect()
    }
}

fn contents(directory: &Path) -> [String; 2] {
    ["a", "b"].map(|name| fs::read_to_string(directory.join(name)).unwrap())
}

/// Waits for the end of a process that this one inherited from its dead parent.
fn adopt(id: Pid) {
    let Ok(process) = pidfd_open(id, PidfdFlags::empty()) else { return };
    let timeout = rustix::time::Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let mut ended = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
    assert_eq!(rustix::event::poll(&mut ended, Some(&timeout)).unwrap(), 1, "process {id:?} lives on");
    waitpid(Some(id), WaitOptions::empty()).unwrap();
}

#[test]
fn an_ordinary_end_undoes_in_reverse_order() {
    assert_eq!(Scene::start("undo").verify(), ["b", "a"]);
    assert_eq!(Scene::start("drop").verify(), ["b", "a"]);
}

#[test]
fn a_panic_and_an_abort_undo() {
    for place in ["before-a", "after-a"] {
        assert_eq!(Scene::start(&format!("panic-{place}")).verify(), ["a"]);
        assert_eq!(Scene::start(&format!("abort-{place}")).verify(), ["a"]);
    }
    for place in ["before-b", "after-b"] {
        assert_eq!(Scene::start(&format!("panic-{place}")).verify(), ["b", "a"]);
        assert_eq!(Scene::start(&format!("abort-{place}")).verify(), ["b", "a"]);
    }
}

#[test]
fn a_signal_at_any_place_undoes() {
    for signal in [Signal::KILL, Signal::INT, Signal::TERM, Signal::HUP] {
        for (place, undone) in [
            ("before-a", &["a"][..]),
            ("after-a", &["a"]),
            ("before-b", &["b", "a"]),
            ("after-b", &["b", "a"]),
        ] {
            let scene = Scene::start(&format!("wait-{place}"));
            scene.wait_for("waiting");
            kill_process(Pid::from_child(&scene.parent), signal).unwrap();
            assert_eq!(scene.verify(), undone, "{signal:?} {place}");
        }
    }
}

#[test]
fn the_guardian_stands_apart_from_everyone() {
    let scene = Scene::start("wait-after-a");
    scene.wait_for("waiting");
    let (guardian, command) = (scene.id("guardian"), scene.id("command"));
    let proc = |id: Pid, what: &str| PathBuf::from(format!("/proc/{}/{what}", id.as_raw_nonzero()));
    assert_eq!(fs::read_to_string(proc(guardian, "comm")).unwrap(), "sordino-undo\n");
    // The fields are parent, process group, session, terminal.
    let stat = fs::read_to_string(proc(guardian, "stat")).unwrap();
    let stat = Stat::parse(&stat).unwrap();
    let id = guardian.as_raw_nonzero().get();
    let parent = Pid::from_child(&scene.parent).as_raw_nonzero().get();
    assert_eq!([4, 5, 6, 7].map(|field| stat.number(field)), [parent, id, id, 0].map(Some));
    let open = |id| -> Vec<PathBuf> {
        let entries = fs::read_dir(proc(id, "fd")).unwrap();
        let files = entries.map(|entry| fs::read_link(entry.unwrap().path()));
        // A process closes descriptors while they are listed.
        let is_there =
            |file: &io::Result<_>| !file.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound);
        files.filter(is_there).map(Result::unwrap).collect()
    };
    let held = open(guardian);
    assert!(held.iter().all(|file| !file.starts_with(scene.directory.path())), "{held:?}");
    let socket = held.iter().find(|file| file.to_str().unwrap().starts_with("socket")).unwrap();
    // The descriptors are the socket three times (standard input, commands, replies), the two standard outputs, and the
    // parent's pidfd.
    assert_eq!(held.len(), 6, "{held:?}");
    assert!(!open(command).contains(socket), "the command holds the guardian's socket");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        kill_process(guardian, signal).unwrap();
    }
    kill_process(Pid::from_child(&scene.parent), Signal::KILL).unwrap();
    assert_eq!(scene.verify(), ["a"]);
}

#[test]
fn a_failing_step_is_reported_and_the_others_are_done() {
    let directory = tempfile::tempdir().unwrap();
    let [first, gone, last] = ["first", "gone", "last"].map(|name| directory.path().join(name));
    let mut guardian = Guardian::start(&mut role("as_guardian")).unwrap();
    for file in [&first, &gone, &last] {
        fs::write(file, OLD).unwrap();
        guardian.add(UndoStep::restore(file).unwrap()).unwrap();
        fs::write(file, "new").unwrap();
    }
    fs::remove_file(&gone).unwrap();
    let failures = guardian.undo().unwrap();
    let [FailedStep { step, reason }] = &failures[..] else { panic!("{failures:?}") };
    assert_eq!(step, &UndoStep::Write { file: gone, text: OLD.into() });
    assert!(reason.contains("No such file"), "{reason}");
    assert_eq!([&first, &last].map(|file| fs::read_to_string(file).unwrap()), [OLD, OLD]);
}

#[test]
fn a_forgotten_change_stays() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, OLD).unwrap();
    let mut guardian = Guardian::start(&mut role("as_guardian")).unwrap();
    let change = guardian.add(UndoStep::restore(&file).unwrap()).unwrap();
    fs::write(&file, "new").unwrap();
    guardian.forget(change).unwrap();
    assert_eq!(guardian.undo().unwrap(), []);
    assert_eq!(fs::read_to_string(&file).unwrap(), "new");
}

#[test]
fn a_killed_guardian_is_noticed_before_the_next_change() {
    let mut guardian = Guardian::start(&mut role("as_guardian")).unwrap();
    let step = |name: &str| UndoStep::RemoveInstance { name: name.to_owned() };
    guardian.add(step("a")).unwrap();
    guardian.add(step("b")).unwrap();
    let id = Pid::from_raw(guardian.id().try_into().unwrap()).unwrap();
    kill_process(id, Signal::KILL).unwrap();
    let Err(Error::Gone { steps, .. }) = guardian.add(step("c")) else { panic!("added") };
    assert_eq!(steps, [step("b"), step("a")]);
    let Err(Error::Gone { steps, .. }) = guardian.undo() else { panic!("undone") };
    assert_eq!(steps, [step("b"), step("a")]);
}

#[test]
fn a_program_that_is_no_guardian_is_refused() {
    assert!(matches!(Guardian::start(&mut Command::new("/nonexistent")), Err(Error::Start(_))));
    assert!(matches!(Guardian::start(&mut Command::new("true")), Err(Error::Start(_))));
}
