//! `sordino shield` on this machine: it is raised, holds, and is given back, whatever happens.

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;
use sordino_sched::{CpuList, ThreadIdentity};
use sordino_shield::{Machine, Store};
use sordino_tests::session::{ScopedSession, memory_of};
use sordino_tests::{NOBODY, Scene, wait_until};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// State that a shield may change: files, and the CPUs of threads.
#[derive(Debug)]
struct Snapshot {
    files: BTreeMap<PathBuf, Vec<u8>>,
    threads: BTreeMap<ThreadIdentity, CpuList>,
}

impl Snapshot {
    fn take() -> Self {
        let mut paths: Vec<PathBuf> = [
            "/proc/irq/default_smp_affinity",
            "/proc/sys/kernel/timer_migration",
            "/proc/sys/kernel/sched_rt_runtime_us",
            "/proc/sys/kernel/watchdog_cpumask",
            "/proc/sys/kernel/numa_balancing",
            "/proc/sys/vm/stat_interval",
            "/sys/kernel/rcu_normal",
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "/sys/kernel/mm/ksm/run",
            "/sys/devices/virtual/workqueue/cpumask",
            "/sys/devices/system/cpu/online",
        ]
        .map(PathBuf::from)
        .to_vec();
        for (directory, file) in [
            ("/proc/irq", "smp_affinity_list"),
            ("/sys/devices/virtual/workqueue", "cpumask"),
            ("/sys/devices/system/cpu", "power/pm_qos_resume_latency_us"),
            ("/sys/devices/system/cpu", "cpufreq/scaling_governor"),
        ] {
            paths.extend(below(Path::new(directory)).into_iter().map(|entry| entry.join(file)));
        }
        for group in below(Path::new("/sys/fs/cgroup")).into_iter().chain(["/sys/fs/cgroup".into()]) {
            for file in
                ["cpuset.cpus", "cpuset.sched_load_balance", "cpuset.cpu_exclusive", "cgroup.subtree_control"]
            {
                paths.push(group.join(file));
            }
            paths.extend(
                below(&group).into_iter().filter(|path| path.is_dir()).map(|path| path.join("cpuset.cpus")),
            );
        }
        let files = paths.into_iter().filter_map(|path| Some((path.clone(), fs::read(path).ok()?))).collect();
        // The kernel makes and moves its own workers as it likes.
        let machine = Machine::read().unwrap();
        let tasks = machine.tasks.into_iter().filter(|task| !task.name.starts_with("kworker/"));
        Self { files, threads: tasks.map(|task| (task.thread, task.affinity)).collect() }
    }

    /// Checks that everything is as it was; threads have come and gone meanwhile.
    #[track_caller]
    fn holds(&self, when: &str) {
        let now = Self::take();
        let text = |bytes: Option<&Vec<u8>>| bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        for path in self.files.keys().chain(now.files.keys()) {
            let [before, now] = [self, &now].map(|snapshot| text(snapshot.files.get(path)));
            assert_eq!(now, before, "{when}: {}", path.display());
        }
        for (thread, cpus) in &now.threads {
            if let Some(before) = self.threads.get(thread) {
                assert_eq!(cpus, before, "{when}: thread {thread}");
            }
        }
    }
}

fn below(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// A test with a shield: a scene, the CPU to shield, and the machine as it was before, to which it returns even if the
/// test fails.
struct ShieldScene {
    scene: Scene,
    cpu: u32,
    before: Snapshot,
}

impl ShieldScene {
    fn new() -> Option<Self> {
        let scene = Scene::new().as_root()?;
        let online = CpuList::online().unwrap();
        if online.as_slice().len() < 2 {
            Scene::not_measured("a shield needs a second CPU");
            return None;
        }
        Some(Self { cpu: *online.as_slice().last()?, before: Snapshot::take(), scene })
    }

    fn cpus(&self) -> String {
        self.cpu.to_string()
    }

    /// `sordino shield` with these arguments; its JSON.
    #[track_caller]
    fn shield(&self, arguments: &[&str], status: i32) -> Value {
        let ended = self.scene.sordino(&[&["shield"], arguments, &["--json"]].concat());
        assert_eq!(ended.status, status, "{arguments:?}: {}{}", ended.output, ended.errors);
        serde_json::from_str(&ended.output).unwrap_or_else(|error| panic!("{error}: {}", ended.output))
    }

    #[track_caller]
    fn up(&self, level: &str) -> Value {
        self.shield(&["up", "--cpus", &self.cpus(), "--level", level, "--measure", "0s"], 0)
    }

    #[track_caller]
    fn down(&self) -> Value {
        let lowered = self.shield(&["down"], 0);
        self.before.holds("after down");
        assert!(!Path::new("/run/sordino").exists());
        lowered
    }
}

impl Drop for ShieldScene {
    fn drop(&mut self) {
        // State that a failed test has left.
        if std::thread::panicking() && geteuid().is_root() {
            let _ = Store::default().down();
        }
    }
}

#[test]
fn everything_leaves_the_cpus_and_is_given_back_to_the_byte() {
    let Some(stage) = ShieldScene::new() else { return };
    for level in ["basic", "full"] {
        let planned = stage.shield(&["plan", "--cpus", &stage.cpus(), "--level", level], 0);
        stage.before.holds("after plan");
        let raised = stage.up(level);
        assert_eq!(files(&raised["changes"]), files_of_plan(&planned), "what was planned is what was done");
        let machine = Machine::read().unwrap();
        let stays: Vec<&str> = texts(&raised["stays"]);
        for task in machine.tasks.iter().filter(|task| task.affinity.contains(stage.cpu)) {
            let named =
                stays.iter().any(|text| text.starts_with(&format!("{} ({})", task.name, task.thread.tid)));
            let is_kernels = task.bound && (named || task.name.starts_with("kworker/"));
            assert!(is_kernels, "{task:?} may run on the shielded CPU: {stays:?}");
        }
        let refused = texts_of(&raised["shield"]["refused"], "place");
        for interrupt in below(Path::new("/proc/irq")) {
            let file = interrupt.join("smp_affinity_list");
            let Ok(cpus) = fs::read_to_string(&file) else { continue };
            let cpus: CpuList = cpus.trim().parse().unwrap();
            assert!(
                !cpus.contains(stage.cpu) || refused.contains(&file.to_str().unwrap()),
                "{}",
                file.display()
            );
        }
        let status = stage.shield(&["status"], 0);
        assert_eq!(status["drift"].as_array().unwrap().len(), 0, "{}", status["drift"]);
        let lowered = stage.down();
        assert!(lowered["steps"].as_u64() > Some(0));
        assert!(texts(&lowered["failures"]).is_empty());
    }
    stage.shield(&["status"], 1);
}

/// The files and groups that changes are about; threads come and go.
fn files(changes: &Value) -> BTreeSet<String> {
    let changes = changes.as_array().unwrap().iter().filter(|change| change["to"].is_string());
    let places = changes.map(|change| change["place"].as_str().unwrap().to_owned());
    places.filter(|place| place.starts_with('/')).collect()
}

fn files_of_plan(planned: &Value) -> BTreeSet<String> {
    let knobs = planned["knobs"].as_array().unwrap().iter().filter(|knob| knob["left_out"] == false);
    knobs.flat_map(|knob| files(&knob["changes"])).collect()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

fn texts_of<'a>(value: &'a Value, key: &str) -> Vec<&'a str> {
    value.as_array().unwrap().iter().map(|item| item[key].as_str().unwrap()).collect()
}

#[test]
fn up_and_down_undo_what_a_killed_one_left_after_any_step_and_status_only_looks() {
    let Some(stage) = ShieldScene::new() else { return };
    let mut ways = ["down", "up"].into_iter().cycle();
    let mut moments = 0;
    loop {
        let raise = stage
            .scene
            .run(Command::new(env!("CARGO_BIN_EXE_raise")).args([stage.cpus(), moments.to_string()]));
        if raise.status == 0 {
            break;
        }
        assert_eq!(raise.status, 128 + Signal::KILL.as_raw(), "{}", raise.errors);
        assert!(Path::new("/run/sordino/shield.journal").exists());
        let left = Snapshot::take();
        let status = stage.shield(&["status"], 1);
        assert_eq!((&status["shield"], &status["unfinished"]), (&Value::Null, &"left".into()), "{status}");
        left.holds("status only looks");
        match ways.next().unwrap() {
            "down" => {
                let lowered = stage.shield(&["down"], 0);
                assert!(texts(&lowered["failures"]).is_empty() && lowered["steps"].is_u64(), "{lowered}");
            }
            _ => {
                stage.up("basic");
                stage.shield(&["down"], 0);
            }
        }
        stage.before.holds(&format!("killed at moment {moments}"));
        moments += 1;
    }
    assert!(moments > 40, "it was killed at {moments} moments only");
    stage.down();
}

#[test]
fn an_up_that_measures_first_undoes_what_a_killed_one_left() {
    let Some(stage) = ShieldScene::new() else { return };
    let may_run_there = || sordino_sched::affinity().unwrap().contains(stage.cpu);
    for moment in (40..).step_by(20) {
        let moment = moment.to_string();
        let raise =
            Command::new(env!("CARGO_BIN_EXE_raise")).args([&stage.cpus(), &moment]).status().unwrap();
        assert_eq!(raise.signal(), Some(Signal::KILL.as_raw()));
        // A measurement that is started now could not run there.
        if !may_run_there() {
            break;
        }
        stage.shield(&["down"], 0);
    }
    let up = ["shield", "up", "--cpus", &stage.cpus(), "--measure", "50ms"];
    let ended = stage.scene.sordino(&up);
    assert!(ended.succeeded().contains("a real-time loop"), "{}", ended.output);
    assert!(ended.errors.contains("Its shield is undone now:\nEverything is given back"), "{}", ended.errors);
    stage.down();
}

#[test]
fn a_step_that_fails_is_kept_and_said_until_somebody_settles_it() {
    let Some(stage) = ShieldScene::new() else { return };
    stage.up("basic");
    let journal = Path::new("/run/sordino/shield.journal");
    let steps = fs::read_to_string(journal).unwrap();
    let failing = "write\t/proc/version\tx\n";
    fs::write(journal, steps + failing).unwrap();
    for _ in 0..2 {
        let lowered = stage.shield(&["down"], 1);
        assert!(texts(&lowered["failures"])[0].contains("/proc/version"), "{lowered}");
        assert!(fs::read_to_string(journal).unwrap().ends_with(failing));
        stage.before.holds("after down");
        let again = ["shield", "up", "--cpus", &stage.cpus(), "--measure", "0s"];
        stage.scene.refuses(2, &["an earlier shield could not be lowered", "/proc/version"], &again);
    }
    fs::remove_dir_all("/run/sordino").unwrap();
    stage.shield(&["status"], 1);
    // If its group exists, too, there is no record of how to undo it.
    let Some(group) = Machine::read().unwrap().cpusets.shield() else { return };
    fs::create_dir(&group).unwrap();
    stage.scene.refuses(2, &["nothing says how to undo"], &["shield", "up", "--cpus", &stage.cpus()]);
    fs::remove_dir(&group).unwrap();
}

#[test]
fn what_cannot_be_is_said_before_anything_is_changed() {
    let Some(stage) = ShieldScene::new() else { return };
    let (scene, cpus) = (&stage.scene, stage.cpus());
    let all = CpuList::online().unwrap().to_string();
    for command in ["plan", "up"] {
        scene.refuses(2, &["none left for everything else"], &["shield", command, "--cpus", &all]);
        scene.refuses(2, &["CPU 4000 is not online"], &["shield", command, "--cpus", "4000"]);
        scene.refuses(2, &["no CPU"], &["shield", command, "--cpus", "one"]);
        scene.refuses(2, &["basic or full"], &["shield", command, "--cpus", &cpus, "--level", "half"]);
    }
    scene.refuses(2, &["no shield is up"], &["shield", "down"]);
    scene.refuses(2, &["no shield is up"], &["shield", "run", "--", "true"]);
    let up = scene.command_of(NOBODY, &["shield", "up", "--cpus", &cpus]);
    scene.run(&mut { up }).failed(2, &["needs root"]);
    scene.run(&mut scene.command_of(NOBODY, &["shield", "plan", "--cpus", &cpus])).succeeded();
    stage.before.holds("after what was refused");
    stage.up("basic");
    // A process that could open it could lock it for ever.
    assert_eq!(fs::metadata("/run/sordino").unwrap().mode() & 0o777, 0o711);
    for command in ["plan", "up"] {
        for other in ["0", &cpus] {
            scene.refuses(
                2,
                &[&format!("a shield is up, on CPU {cpus}")],
                &["shield", command, "--cpus", other],
            );
        }
    }
    scene.refuses(2, &["CPU 0 is not shielded"], &["shield", "run", "--cpus", "0", "--", "true"]);
    scene.refuses(127, &["no-such-command"], &["shield", "run", "--", "no-such-command"]);
    scene.run(&mut scene.command_of(NOBODY, &["shield", "status"])).succeeded();
    scene.run(&mut scene.command_of(NOBODY, &["shield", "down"])).failed(2, &["needs root"]);
    scene.refuses(2, &["is shielded", "sordino shield down"], &["demo"]);
    stage.down();
}

#[test]
fn what_somebody_changes_afterwards_is_seen_and_said() {
    let Some(stage) = ShieldScene::new() else { return };
    stage.up("full");
    let changes = [("/proc/irq/default_smp_affinity", "3", "1"), ("/proc/sys/vm/stat_interval", "1", "120")];
    for (file, other, own) in changes {
        fs::write(file, other).unwrap();
        let status = stage.shield(&["status"], 1);
        let drift = status["drift"].as_array().unwrap();
        assert_eq!(drift.len(), 1, "{status}");
        assert_eq!(drift[0]["place"], file);
        fs::write(file, own).unwrap();
    }
    stage.shield(&["status"], 0);
    let text = stage.scene.sordino(&["shield", "status"]);
    assert!(text.succeeded().contains("Everything that it set holds."), "{}", text.output);
    stage.down();
}

#[test]
fn a_command_runs_in_the_shield_and_goes_on_when_that_is_lowered() {
    let Some(stage) = ShieldScene::new() else { return };
    stage.up("basic");
    let cpus = stage.cpus();
    let mut sleep =
        stage.scene.start(&mut stage.scene.command(&["shield", "run", "--prio", "7", "--", "sleep", "60"]));
    let pid = sleep.pid();
    let name = || fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    wait_until("the command runs", || name() == "sleep\n");
    let task = || Machine::read().unwrap().tasks.into_iter().find(|task| task.thread.tid == pid).unwrap();
    assert_eq!((task().affinity.to_string(), task().policy), (cpus.clone(), sordino_sched::Policy::Fifo(7)));
    assert_eq!(stage.shield(&["status"], 0)["threads"], 1);
    let status = stage.scene.sordino(&["shield", "run", "--", "sh", "-c", "exit 7"]);
    assert_eq!(status.status, 7);
    let lowered = stage.shield(&["down"], 0);
    assert_eq!(lowered["threads"], 1);
    assert!(sleep.is_running());
    assert_eq!(task().affinity, CpuList::online().unwrap());
    sleep.signal(Signal::KILL);
    sleep.end();
    stage.before.holds("after down");
}

#[test]
fn a_recorder_keeps_off_shielded_cpus_wherever_it_is_started() {
    let Some(stage) = ShieldScene::new() else { return };
    stage.up("basic");
    let (scene, cpus) = (&stage.scene, stage.cpus());
    scene.refuses(2, &["is shielded"], &["record", "--collector-cpu", &cpus, "--", "true"]);
    let program = scene.program("idle.c");
    for inside in [false, true] {
        let (recorder, output) = scene.recorder(&["--", program.to_str().unwrap()]);
        let mut command = if inside { scene.command(&["shield", "run", "--"]) } else { scene.command(&[]) };
        if inside {
            command.arg(recorder.get_program());
        }
        command.args(recorder.get_args());
        let running = scene.start(&mut command);
        let of =
            |name: &str| Machine::read().unwrap().tasks.into_iter().find(|task| name.starts_with(&task.name));
        let name = program.file_name().unwrap().to_str().unwrap();
        wait_until("the program runs", || of(name).is_some() && of("sordino-collect").is_some());
        assert!(
            running.errors().contains(&format!("CPU {cpus} is shielded: the collector keeps to CPU")),
            "{}",
            running.errors()
        );
        for thread in ["sordino", "sordino-collect"] {
            let task = of(thread).unwrap();
            assert!(!task.affinity.contains(stage.cpu), "{task:?}");
        }
        assert_eq!(of(name).unwrap().affinity.contains(stage.cpu), inside);
        running.interrupt();
        // The recorder leaves it alone.
        let pid = Pid::from_raw(of(name).unwrap().thread.tid).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        wait_until("the program has ended", || of(name).is_none());
        assert!(output.join("recording.json").exists());
    }
    stage.down();
}

/// The kernel interrupts each CPU that a program runs on when pages of its rings are removed.
#[test]
fn a_program_on_a_shielded_cpu_keeps_its_pages_and_another_gives_them_back() {
    let Some(stage) = ShieldScene::new() else { return };
    stage.up("basic");
    let scene = &stage.scene;
    let session = ScopedSession::start(scene, "kept", &[]);
    let program = scene.program("steady.c");
    let start = |command: &mut Command| {
        let mut program = ScopedSession::join(scene, command);
        program.says("recorded");
        wait_until("it has a whole ring", || memory_of(program.pid()) > 20 << 20);
        program.signal(Signal::STOP);
        program
    };
    let inside = start(scene.command(&["shield", "run", "--"]).arg(&program).arg("0"));
    let outside = start(Command::new(&program).arg("0"));
    let held = memory_of(inside.pid());
    // Both are idle now, the one inside for longer.
    let idle = 14 << 20;
    wait_until("the one outside has given memory back", || memory_of(outside.pid()) < idle);
    assert_eq!(memory_of(inside.pid()), held);
    stage.shield(&["down"], 0);
    wait_until("no CPU is shielded any more", || memory_of(inside.pid()) < idle);
    for program in [inside, outside] {
        program.signal(Signal::CONT);
        program.signal(Signal::TERM);
        assert_eq!(program.end().status, 0);
    }
    drop(session);
    stage.before.holds("after the session");
}

/// Interrupts are better than losses: where there is no memory for more, pages come from behind the writers.
#[test]
fn a_program_on_a_shielded_cpu_goes_on_when_memory_is_used_up() {
    const MIB: u64 = 1 << 20;
    let Some(stage) = ShieldScene::new() else { return };
    stage.up("basic");
    let scene = &stage.scene;
    let session = ScopedSession::start(scene, "little", &["--max-memory", "4M"]);
    let program = scene.program("steady.c");
    let mut program =
        ScopedSession::join(scene, scene.command(&["shield", "run", "--"]).arg(&program).arg("1000"));
    program.says("recorded");
    let recorded = || {
        let rings = session.records(program.pid())["rings"].as_array().unwrap().clone();
        rings.iter().map(|ring| ring["bytes"].as_u64().unwrap()).sum::<u64>()
    };
    wait_until("it has recorded much more than its rings have", || recorded() > 32 * MIB);
    assert!(memory_of(program.pid()) < 8 * MIB);
    program.signal(Signal::TERM);
    assert_eq!(program.end().status, 0);
    drop(session);
    stage.down();
}

#[test]
fn npt_measures_inside_the_shield_and_all_that_interrupts_it_is_named() {
    let Some(stage) = ShieldScene::new() else { return };
    let raised = stage.shield(&["up", "--cpus", &stage.cpus(), "--level", "full", "--measure", "500ms"], 0);
    for measured in ["before", "after"] {
        let of_cpu = &raised[measured]["cpus"][0];
        assert_eq!(of_cpu["cpu"], stage.cpu);
        assert!(of_cpu["gaps"]["loops"].as_u64() > Some(1000));
        let names = texts_of(&of_cpu["interrupters"], "name");
        assert!(names.iter().any(|name| name.contains("(LOC)")), "{names:?}");
        assert!(raised[measured]["switches_unknown"].is_null());
    }
    let named =
        [texts(&raised["stays"]), texts_of(&raised["after"]["cpus"][0]["interrupters"], "name")].concat();
    let events = ["--kernel", "sched_switch,irq", "--cpus", &stage.cpus(), "--as", "root"];
    let npt = [stage.scene.path("sordino").to_str().unwrap(), "npt", "--duration", "1s", "--no-tracepoint"]
        .map(str::to_owned);
    let recording = stage.scene.record(&events, &npt.each_ref().map(String::as_str));
    assert_eq!(recording.ended.status, 0, "{}", recording.ended.errors);
    assert!(recording.ended.errors.contains("measuring inside the shield"), "{}", recording.ended.errors);
    let loops: Vec<_> =
        recording.events().into_iter().filter(|event| event.name.starts_with("npt:")).collect();
    let span = loops[0].time..=loops.last().unwrap().time;
    let mut threads = BTreeSet::new();
    for event in recording.events_of_kernel().iter().filter(|event| span.contains(&event.time)) {
        if event.name == "sched_switch" {
            threads.insert(event.texts[1].clone());
        }
        if event.name == "irq_handler_entry" {
            let device = &event.texts[0];
            assert!(
                named.iter().any(|text| text.contains(device)),
                "{device} interrupts, and is not named: {named:?}"
            );
        }
    }
    for thread in threads.iter().filter(|thread| *thread != "npt") {
        // A CPU's own worker goes by another number each time.
        let stem = thread.split(':').next().unwrap();
        assert!(named.iter().any(|text| text.contains(stem)), "{thread} runs, and is not named: {named:?}");
    }
    stage.down();
}
