//! Sessions of users without rights, and programs in containers.

use rustix::process::Signal;
use sordino_tests::session::{ScopedSession, summary};
use sordino_tests::{DAEMON, NOBODY, Scene, wait_until};
use std::os::unix::process::CommandExt;
use std::process::Command;

#[test]
fn a_user_s_session_takes_that_user_s_programs_and_no_others() {
    let Some(scene) = Scene::new().as_root() else { return };
    let (program, home) = (scene.program("steady.c"), scene.directory_of(NOBODY, "home"));
    let (runtime, output) = (home.join("sessions"), home.join("out"));
    let ask = |arguments: &[&str]| {
        scene.run(scene.command_of(NOBODY, arguments).env("SORDINO_RUNTIME_DIR", &runtime).current_dir(&home))
    };
    ask(&["start", "mine", "-o", output.to_str().unwrap(), "--user", "steady"]).succeeded();
    let start = |user: u32| {
        let mut command = Command::new(&program);
        scene.start(command.uid(user).gid(user).env("SORDINO_RUNTIME_DIR", &runtime))
    };
    let (mut mine, other, roots) = (start(NOBODY), start(DAEMON), start(0));
    mine.says("recorded");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    for running in [mine, other, roots] {
        running.signal(Signal::TERM);
        let (pid, ended) = (running.pid(), running.end());
        assert_eq!(ended.status, 0, "{pid}");
    }
    ask(&["stop", "mine"]).succeeded();
    let summary = summary(&output.join("chunk-0001"));
    assert_eq!(summary["programs"].as_array().map(Vec::len), Some(1), "{summary}");
    ask(&["start", "kernel", "--kernel", "sched"]).failed(2, &["root"]);
    ask(&["destroy", "mine"]).succeeded();
}

#[test]
fn a_program_in_a_container_has_both_its_numbers() {
    let Some(scene) = Scene::new().as_root() else { return };
    let session = ScopedSession::start(&scene, "host", &["--user", "steady"]);
    let program = scene.program("steady.c");
    // Namespaces of its own for processes, mounts and the rest; no session is visible there.
    let mut command = Command::new("unshare");
    command.args(["--pid", "--mount", "--ipc", "--net", "--fork", "--mount-proc"]).arg(&program);
    let mut running = scene.start(command.env_remove("SORDINO_RUNTIME_DIR"));
    running.says("recorded");
    let status = session.status();
    let programs = status["status"]["programs"].as_array().unwrap();
    let inside = programs.iter().find(|program| program["own_pid"] == 1).expect("the program");
    let pid = inside["pid"].as_i64().unwrap();
    assert!(pid > 1 && pid != i64::from(running.pid()));
    let _ = Command::new("kill").arg(pid.to_string()).status();
    wait_until("it has ended", || !running.is_running());
    let recordings = session.stop();
    let events = scene.listed(&recordings[0]);
    assert!(events.iter().any(|event| event["name"] == "steady:step" && event["pid"] == pid));
    session.destroy();
}

#[test]
fn a_recorder_in_a_container_sees_the_programs_there() {
    let Some(scene) = Scene::new().as_root() else { return };
    let program = scene.program("steady.c");
    let outside = scene.start(&mut Command::new(&program));
    let script = format!(
        "cd {} && export SORDINO_RUNTIME_DIR=$PWD/inside && ./sordino start box --user steady -o recorded && \
         ({} & echo $! > pid; sleep 0.3; kill $!; wait) && ./sordino destroy box",
        scene.path("").display(),
        program.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--pid", "--mount", "--fork", "--mount-proc", "sh", "-c", &script]);
    let ended = scene.run(&mut command);
    assert_eq!(ended.status, 0, "{}", ended.errors);
    outside.signal(Signal::TERM);
    outside.end().succeeded();
    let summary = summary(&scene.path("recorded/chunk-0001"));
    let programs = summary["programs"].as_array().unwrap();
    assert_eq!(programs.len(), 1, "{summary}");
    let pid = std::fs::read_to_string(scene.path("pid")).unwrap();
    assert_eq!(programs[0]["pid"].to_string(), pid.trim());
}
