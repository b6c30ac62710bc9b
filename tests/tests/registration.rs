//! Programs register at their start with existing sessions: they discover recorders in directories.

use sordino_event::catalogue;
use sordino_event::{Cpu, Ticks};
use sordino_intake::{Listener, Registration};
use sordino_ring::area::control::{AttachOptions, Attached, EnableMode, Program};
use sordino_ring::layout::{Geometry, PACKET_HEADER, RECORD_HEADER, SHARED_EXTRA};
use sordino_ring::number::{PointId, Seqno};
use sordino_ring::read::Packet;
use sordino_tests::{NOBODY, NativeCompiler, RunningProcess, Scene, wait_until};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A directory of sessions in the test's directory.
struct SessionsDirectory<'a> {
    scene: &'a Scene,
    path: PathBuf,
}

impl<'a> SessionsDirectory<'a> {
    fn new(scene: &'a Scene) -> Self {
        let path = scene.fresh("sessions");
        fs::create_dir(&path).unwrap();
        Self { scene, path }
    }

    fn listener(&self, name: &str) -> Listener {
        let directory = self.path.join(name);
        fs::create_dir(&directory).unwrap();
        Listener::at(&directory).unwrap()
    }

    /// A program that no recorder starts.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_remove("SORDINO_SESSION").env("SORDINO_RUNTIME_DIR", &self.path);
        command
    }

    fn start(&self, program: &Path, arguments: &[&str]) -> RunningProcess {
        self.scene.start(self.command(program).args(arguments))
    }
}

/// A program that has registered with a session and waits, and the session's hold on it.
struct Joined {
    registration: Registration,
    program: Program,
    attached: Attached,
}

/// Returns the first registration with each listener of a program with a tracepoint called `name`, which is then
/// enabled. A program registers once for each of its modules.
fn join<const N: usize>(listeners: [&mut Listener; N], name: &str) -> [Joined; N] {
    let mut joined = [const { None }; N];
    let mut listeners = listeners;
    wait_until("a program registers", || {
        for (listener, joined) in listeners.iter_mut().zip(&mut joined) {
            for registration in listener.accept() {
                *joined = enable(registration, name).or(joined.take());
            }
        }
        joined.iter().all(Option::is_some)
    });
    joined.map(Option::unwrap)
}

/// Enables the tracepoint called `name` in a program that waits, if it has one.
fn enable(registration: Registration, name: &str) -> Option<Joined> {
    let program = Program::open(&registration.area().unwrap().file).unwrap();
    assert_eq!(program.own_pid() as i32, registration.pid);
    let (points, _) = catalogue::parse(&program.catalogue(0)).unwrap();
    let (id, _) = points.iter().find(|(_, schema)| schema.full_name() == name)?;
    let cpus: Vec<Cpu> = (0..program.cpus()).map(Cpu).collect();
    let options = AttachOptions::new("registration", Geometry::new(16 << 10, 2).unwrap(), &cpus, Seqno(7));
    let attached = program.attach(&options).unwrap();
    program.enable(attached.slot, PointId(*id), EnableMode::Always);
    Some(Joined { registration, program, attached })
}

impl Joined {
    /// Lets the program continue to its end, and returns the numbers in its records.
    fn recorded(self, running: RunningProcess) -> Vec<u32> {
        drop(self.registration);
        assert_eq!(running.end().status, 0);
        let mut attached = self.attached;
        let numbers = numbers(&mut attached);
        self.program.detach(&attached).unwrap();
        numbers
    }
}

/// The fields of the records that a program left: each has one, of four bytes.
fn numbers(attached: &mut Attached) -> Vec<u32> {
    let mut numbers = Vec::new();
    for reader in &mut attached.readers {
        let record = RECORD_HEADER + if reader.cpu().is_none() { SHARED_EXTRA } else { 0 };
        let read = |packet: Packet| {
            let bytes = packet.bytes;
            for record_at in (PACKET_HEADER..bytes.len()).step_by((record + 4).next_multiple_of(8)) {
                let number = &bytes[record_at + record..][..4];
                numbers.push(u32::from_ne_bytes(number.try_into().unwrap()));
            }
        };
        reader.salvage(Ticks(i64::MAX as u64), read).unwrap();
    }
    numbers
}

/// A program that no recorder started waits for those that accept registrations, and is recorded from its first event
/// on, before `main`.
#[test]
fn a_program_joins_at_its_first_event() {
    let scene = Scene::new();
    let sessions = SessionsDirectory::new(&scene);
    let [mut one, mut other] = ["one", "another.1"].map(|name| sessions.listener(name));
    for program in [scene.program("early.c"), scene.compile(NativeCompiler::Clang, "early.c", &["-static"])] {
        let running = sessions.start(&program, &[]);
        let [one, other] = join([&mut one, &mut other], "early:step");
        drop(one.registration);
        let mut numbers = [other.recorded(running), numbers(&mut { one.attached })];
        numbers.iter_mut().for_each(|numbers| numbers.sort_unstable());
        assert_eq!(numbers, [[1, 2, 3, 4, 5]; 2]);
    }
}

/// A program registers with the recorder that started it and with those that it discovers.
#[test]
fn a_program_that_a_recorder_started_joins_others_too() {
    let scene = Scene::new();
    let sessions = SessionsDirectory::new(&scene);
    let mut listener = sessions.listener("other");
    let program = scene.program("ends.c");
    let (mut recorder, output) = scene.recorder(&["--", program.to_str().unwrap()]);
    let running = scene.start(recorder.env("SORDINO_RUNTIME_DIR", &sessions.path));
    let [Joined { registration, program, mut attached }] = join([&mut listener], "ends:soon");
    drop(registration);
    sordino_tests::CompletedRecording::of(running.end(), output).assert_count(1);
    assert_eq!(numbers(&mut attached), [0]);
    program.detach(&attached).unwrap();
}

/// A fork's child is a program of its own; a plug-in's tracepoints are shown before its code runs.
#[test]
fn children_and_plug_ins_register() {
    let scene = Scene::new();
    let sessions = SessionsDirectory::new(&scene);
    let mut listener = sessions.listener("one");
    let running = sessions.start(&scene.program("family.c"), &["fork"]);
    let [parent] = join([&mut listener], "family:parent");
    let (pid, inode) = (parent.registration.pid, parent.registration.inode);
    drop(parent);
    let [child] = join([&mut listener], "family:child");
    assert!(child.registration.pid != pid && child.registration.inode != inode);
    assert_eq!(child.recorded(running), (0..20).collect::<Vec<_>>());

    let plugin = scene.compile(NativeCompiler::Gcc, "plugin.c", &["-shared", "-fPIC"]);
    let running = sessions.start(&scene.program("host.c"), &[plugin.to_str().unwrap(), "3"]);
    let [host] = join([&mut listener], "host:loads");
    let (pid, inode) = (host.registration.pid, host.registration.inode);
    drop(host);
    let [loaded] = join([&mut listener], "plugin:hit");
    assert_eq!((loaded.registration.pid, loaded.registration.inode), (pid, inode));
    assert_eq!(loaded.recorded(running), [0, 1, 2]);
}

/// Only root and the program's user can make it wait: directories that others own or can write to are skipped.
#[test]
fn directories_that_others_could_have_made_are_not_trusted() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sessions = SessionsDirectory::new(&scene);
    let mut listener = sessions.listener("one");
    let session = sessions.path.join("one");
    let program = scene.program("ends.c");
    let mut registers = |user: u32| {
        let mut running = scene.start(sessions.command(&program).uid(user).gid(user));
        let mut count = 0;
        while running.is_running() {
            count += listener.accept().len();
            std::thread::sleep(Duration::from_millis(1));
        }
        running.end().succeeded();
        count + listener.accept().len() > 0
    };
    assert!(registers(0) && registers(NOBODY));
    for path in [&sessions.path, &session] {
        for mode in [0o775, 0o757, 0o1777] {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
            assert!(!registers(0) && !registers(NOBODY), "{mode:o}");
        }
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        assert!(!registers(0) && registers(NOBODY));
        chown(path, Some(0), Some(0)).unwrap();
        // A directory of that name, but not the one that was made.
        let moved = scene.path("moved");
        fs::rename(path, &moved).unwrap();
        symlink(&moved, path).unwrap();
        assert!(!registers(0));
        fs::remove_file(path).unwrap();
        fs::rename(&moved, path).unwrap();
    }
    assert!(registers(0));
    // Names that are none.
    for name in [".one", "-one", &"n".repeat(49), "o ne"] {
        let renamed = sessions.path.join(name);
        fs::rename(&session, &renamed).unwrap();
        assert!(!registers(0), "{name}");
        fs::rename(&renamed, &session).unwrap();
    }
}

/// A program that runs with more rights than its caller ignores the caller's environment.
#[test]
fn a_set_uid_program_looks_only_where_its_own_user_would() {
    let Some(scene) = Scene::new().as_root() else { return };
    let sessions = SessionsDirectory::new(&scene);
    let mut listener = sessions.listener("one");
    let program = scene.compile(NativeCompiler::Gcc, "ends.c", &["-static"]);
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    let ended = scene.run(sessions.command(&program).uid(NOBODY).gid(NOBODY));
    ended.succeeded();
    assert_eq!(listener.accept().len(), 0);
}

/// Killed recorders cost no time, and all recorders without an answer together cost one pause: with a pause for each,
/// this program would not end in time.
#[test]
fn dead_and_silent_recorders_keep_no_program_for_long() {
    let scene = Scene::new();
    let sessions = SessionsDirectory::new(&scene);
    for number in 0..3 {
        let dead = sessions.listener(&format!("dead{number}"));
        // Only its socket is left.
        let path = sessions.path.join(format!("dead{number}"));
        fs::rename(path.join("programs"), path.join("kept")).unwrap();
        drop(dead);
        fs::rename(path.join("kept"), path.join("programs")).unwrap();
        assert!(path.join("programs").exists());
    }
    let program = scene.program("ends.c");
    assert_eq!(sessions.start(&program, &[]).end().status, 0);

    let mut silent: Vec<Listener> =
        (0..60).map(|number| sessions.listener(&format!("silent{number}"))).collect();
    let running = sessions.start(&program, &[]);
    let mut registered: Vec<Vec<Registration>> = silent.iter().map(|_| Vec::new()).collect();
    wait_until("it has registered with all", || {
        for (listener, registered) in silent.iter_mut().zip(&mut registered) {
            registered.extend(listener.accept());
        }
        registered.iter().all(|registered| !registered.is_empty())
    });
    let pid = running.pid();
    assert_eq!(running.end().status, 0);
    assert!(registered.iter().flatten().all(|registration| registration.pid == pid));
}
