//! `sordino watch` in a real terminal: tmux shows a running session, beside another reader.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sordino_live::{GrowingRecording, ReadingProgress};
use sordino_tests::browser::kept;
use sordino_tests::listing::{items, named};
use sordino_tests::session::ScopedSession;
use sordino_tests::{RunningProcess, Scene, last_cpu, wait_until};
use sordino_watch::Tally;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A terminal of 80 columns and 24 rows with a shell in it. It ends with the test.
struct Tmux<'a> {
    scene: &'a Scene,
    socket: PathBuf,
}

impl<'a> Tmux<'a> {
    fn start(scene: &'a Scene) -> Self {
        let tmux = Self { scene, socket: scene.path("tmux") };
        tmux.tell(&["new-session", "-d", "-x", "80", "-y", "24", "bash --norc"]);
        tmux.types("PS1='ready> '; clear; echo as before");
        tmux.sees("as before\nready>");
        tmux
    }

    fn tell(&self, words: &[&str]) -> Output {
        let (variable, path) = ScopedSession::environment(self.scene);
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(["-f", "/dev/null"]).args(words);
        command.env(variable, path).env("LC_ALL", "C.UTF-8").env_remove("TMUX").env("TERM", "xterm-256color");
        command.current_dir(self.scene.path("")).output().expect("tmux runs")
    }

    /// Types a line into the terminal.
    fn types(&self, line: &str) {
        self.tell(&["send-keys", "-l", line]);
        self.press("Enter");
    }

    fn press(&self, key: &str) {
        self.tell(&["send-keys", key]);
    }

    fn screen(&self) -> String {
        String::from_utf8(self.tell(&["capture-pane", "-p"]).stdout).expect("text")
    }

    /// Waits until the screen has this text, and returns the screen.
    #[track_caller]
    fn sees(&self, text: &str) -> String {
        let mut screen = String::new();
        wait_until(&format!("the screen has '{text}'"), || {
            screen = self.screen();
            screen.contains(text)
        });
        screen
    }

    /// Returns the settings of the terminal, and the state of the screen.
    fn state(&self) -> [String; 2] {
        let print = |words: &[&str]| String::from_utf8(self.tell(words).stdout).unwrap();
        let device = print(&["display", "-p", "#{pane_tty}"]);
        let settings = Command::new("stty").arg("-aF").arg(device.trim()).output().unwrap();
        let screen = print(&["display", "-p", "#{alternate_on} #{cursor_flag} #{pane_current_command}"]);
        [String::from_utf8(settings.stdout).unwrap(), screen]
    }

    /// Returns the process id of the command in the terminal.
    fn child(&self) -> i32 {
        let shell = self.tell(&["display", "-p", "#{pane_pid}"]).stdout;
        let shell = String::from_utf8(shell).unwrap().trim().to_owned();
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        children.split_whitespace().next().expect("a child").parse().unwrap()
    }

    /// Waits until the shell has the terminal again, as it was.
    #[track_caller]
    fn is_as_before(&self, before: &[String; 2]) {
        wait_until("the terminal is as before", || self.state() == *before);
        self.sees("as before\nready>");
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.tell(&["kill-server"]);
        let _ = fs::remove_file(&self.socket);
    }
}

/// Returns the number of `steady:step` on the screen; it is exact below a thousand.
fn steps_shown(screen: &str) -> Option<&str> {
    let line = screen.lines().find(|line| line.contains("steady:step"))?;
    line.split_whitespace().last()
}

/// Starts a program that hits a tracepoint, waits until it was hit, and ends it. Returns the number of hits.
fn hit_some(scene: &Scene, reader: &RunningProcess) -> usize {
    let hits = |reader: &RunningProcess| {
        let output = reader.output();
        let lines = output.rfind('\n').map(|end| items(&output[..=end]));
        lines.map_or(0, |lines| named(&lines, "steady:step").len())
    };
    // Some hundred hits a second.
    let mut program = ScopedSession::join(scene, Command::new(scene.program("steady.c")).arg("3000000"));
    program.says("recorded");
    wait_until("it was hit", || hits(reader) > 50);
    program.signal(Signal::TERM);
    program.end().succeeded();
    let mut before = 0;
    wait_until("the other reader has all hits", || {
        std::thread::sleep(std::time::Duration::from_millis(700));
        let now = hits(reader);
        std::mem::replace(&mut before, now) == now
    });
    before
}

fn follow(scene: &Scene, name: &str) -> RunningProcess {
    let (variable, path) = ScopedSession::environment(scene);
    scene.start(
        scene.command(&["events", "--follow", name, "--json", "--event", "steady"]).env(variable, path),
    )
}

#[test]
fn the_view_counts_every_event_beside_another_reader_and_obeys_its_keys() {
    let Some(scene) = Scene::new().as_root() else { return };
    let session = ScopedSession::start(&scene, "seen", &["--user", "steady", "--kernel", "sched,irq"]);
    let reader = follow(&scene, "seen");
    let tmux = Tmux::start(&scene);
    let before = tmux.state();
    tmux.types("./sordino watch seen");
    tmux.sees("sched_switch");
    let hits = hit_some(&scene, &reader);
    assert!(hits < 1000, "{hits} hits are too many to be shown exactly");
    let screen = tmux.screen();
    for part in
        ["seen: running", "recorder", "WAKE/S", "*WORST", "LATENCY below", "INTERRUPT", "BUSY", "q end"]
    {
        assert!(screen.contains(part), "'{part}' is not on the screen:\n{screen}");
    }
    fs::write(kept("watch.txt"), tmux.tell(&["capture-pane", "-p", "-e"]).stdout).unwrap();
    // The program's event is among many of the kernel's.
    tmux.tell(&["resize-window", "-x", "130", "-y", "120"]);
    wait_until("all hits are counted", || steps_shown(&tmux.screen()) == Some(&hits.to_string()));
    tmux.sees("PRIORITY");
    tmux.tell(&["resize-window", "-x", "80", "-y", "24"]);

    tmux.press("s");
    tmux.sees("*WAKE/S");
    tmux.press("?");
    tmux.sees("Waits of threads");
    tmux.press("x");
    tmux.sees("LATENCY below");
    tmux.press("t");
    let screen = tmux.sees("written: ");
    assert!(screen.contains("chunk-0001"), "{screen}");
    tmux.press("Enter");
    tmux.sees("any other key goes back");
    let screen = tmux.sees("what");
    assert!(screen.contains("Explanation") && screen.contains("woken"), "{screen}");
    tmux.press("x");
    tmux.press("w");
    tmux.tell(&["send-keys", "-l", "$cpu == 4096"]);
    tmux.press("Enter");
    let screen = tmux.sees("where $cpu == 4096");
    assert!(screen.contains("no wake-up so far"), "{screen}");
    tmux.tell(&["resize-window", "-x", "80", "-y", "24"]);
    tmux.press("q");
    tmux.is_as_before(&before);
    session.stop();
    reader.end().succeeded();
    session.destroy();
}

#[test]
fn the_terminal_is_as_before_after_signals_and_the_sessions_end() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "seen", &["--user", "steady"]);
    let tmux = Tmux::start(&scene);
    let before = tmux.state();
    let watch = || {
        tmux.types("./sordino watch seen");
        tmux.sees("seen: running");
        tmux.sees("q end");
    };
    watch();
    tmux.press("C-c");
    tmux.is_as_before(&before);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        watch();
        let pid = Pid::from_raw(tmux.child()).expect("a process");
        kill_process(pid, signal).unwrap();
        tmux.is_as_before(&before);
    }
    watch();
    session.stop();
    tmux.is_as_before(&before);
    tmux.sees("session 'seen' has ended");
    session.destroy();
}

#[test]
fn several_views_see_the_same_and_take_little_time_for_an_event() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "seen", &["--user", "steady"]);
    let tmux = [Tmux::start(&scene), Tmux { scene: &scene, socket: scene.path("tmux-2") }];
    tmux[1].tell(&["new-session", "-d", "-x", "80", "-y", "24", "bash --norc"]);
    tmux.iter().for_each(|tmux| tmux.types("./sordino watch seen"));
    tmux.iter().for_each(|tmux| _ = tmux.sees("seen: running"));
    // Some ten thousand hits a second.
    let mut program = ScopedSession::join(&scene, Command::new(scene.program("steady.c")).arg("50000"));
    program.says("recorded");
    let pids = tmux.each_ref().map(Tmux::child);
    let cpu_time = |pid: i32| -> u64 {
        let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
        text.split_whitespace().next().unwrap().parse().unwrap()
    };
    let before = pids.map(cpu_time);
    let begin = std::time::Instant::now();
    std::thread::sleep(std::time::Duration::from_secs(4));
    let elapsed = begin.elapsed().as_secs();
    let after = pids.map(cpu_time);
    program.signal(Signal::TERM);
    program.end().succeeded();
    let mut totals: [Option<String>; 2] = [None, None];
    wait_until("both views have the same total, and it stays", || {
        let now = tmux.each_ref().map(|tmux| steps_shown(&tmux.screen()).map(str::to_owned));
        std::thread::sleep(std::time::Duration::from_millis(2500));
        let is_settled = now[0].is_some() && now[0] == now[1] && now == totals;
        totals = now;
        is_settled
    });
    tmux.iter().for_each(|tmux| tmux.press("q"));
    let recordings = session.stop();
    let events: usize =
        recordings.iter().map(|recording| named(&scene.listed(recording), "steady:step").len()).sum();
    // A bar of 2 % of a CPU at ten thousand events a second is 2 us for each; this bound holds beside other tests, too.
    let bound = 20_000 * events as u64 + 100_000_000 * (elapsed + 1);
    for (before, after) in before.into_iter().zip(after) {
        assert!(after - before < bound, "{} ns for at most {events} events", after - before);
    }
    session.destroy();
}

/// Returns the number of times that a process waited in the kernel, or gave up its CPU.
fn waits(pid: i32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"));
    line.expect("a count of switches").to_owned()
}

#[test]
fn a_view_neither_wakes_nor_delays_the_program_and_costs_it_no_record() {
    let Some(scene) = Scene::new().as_root() else { return };
    let session = ScopedSession::start(&scene, "seen", &["--user", "steady", "--kernel", "sched"]);
    // Some thousand hits a second.
    let mut program = ScopedSession::join(&scene, Command::new(scene.program("steady.c")).arg("300000"));
    program.says("recorded");
    let tmux = Tmux::start(&scene);
    let before = waits(program.pid());
    // The program's event is among many of the kernel's.
    tmux.tell(&["resize-window", "-x", "130", "-y", "120"]);
    tmux.types("./sordino watch seen");
    let mut shown = steps_shown(&tmux.sees("steady:step")).map(str::to_owned);
    let view = tmux.child();
    for _ in 0..3 {
        wait_until("the view counts more hits", || {
            let now = steps_shown(&tmux.screen()).map(str::to_owned);
            now.is_some() && std::mem::replace(&mut shown, now.clone()) != now
        });
    }
    let traced = program.pid();
    assert_eq!(waits(traced), before, "the program waited");
    tmux.press("q");
    tmux.sees("ready>");
    program.signal(Signal::TERM);
    program.end().succeeded();
    let recordings = session.stop();
    let listed: Vec<Value> = recordings.iter().flat_map(|recording| scene.listed(recording)).collect();
    let hits = named(&listed, "steady:step");
    let number = |hit: &&Value| hit["fields"]["number"].as_u64().unwrap();
    assert!(hits.len() > 500, "{} hits", hits.len());
    assert!(hits.windows(2).all(|pair| number(&pair[1]) == number(&pair[0]) + 1), "a hit is missing");
    assert!(listed.iter().all(|item| item["type"] == "event"), "records are lost");
    let wake_ups = named(&listed, "sched_waking");
    let by_view = wake_ups.iter().filter(|event| event["tid"] == view || event["pid"] == view);
    assert!(by_view.clone().count() > 0, "the kernel's events do not have the view");
    let of_program = by_view.filter(|event| event["fields"]["tid"] == traced);
    assert_eq!(of_program.count(), 0, "the view woke the program");
    session.destroy();
}

#[test]
fn a_finished_recording_is_shown_whole_and_mistakes_are_named() {
    let scene = Scene::new();
    let recording = scene.record(&["--user", "once:*"], &[scene.program("once.c").to_str().unwrap()]);
    let path = recording.path.to_str().unwrap();
    let ended = scene.sordino(&["watch", path, "--json"]);
    let state: Value = serde_json::from_str(ended.succeeded()).expect("JSON");
    let listed = scene.listed(&recording.path);
    let once: usize =
        listed.iter().filter(|item| item["name"].as_str().is_some_and(|it| it.starts_with("once:"))).count();
    assert_eq!((&state["schema"], &state["state"]), (&1.into(), &"complete".into()));
    assert!(once > 0);
    assert_eq!(state["events_total"], once, "{state}");
    assert_eq!(state["losses"]["count"], 0);
    let shown = scene.sordino(&["watch", path, "--once"]);
    assert!(shown.succeeded().contains("complete") && shown.output.contains("once:"), "{}", shown.output);
    scene.refuses(2, &["no terminal", "--once", "sordino query", "events --follow"], &["watch", path]);
    scene.refuses(2, &["no session and no directory 'nowhere'", "sordino status"], &["watch", "nowhere"]);
    scene.refuses(2, &["--where"], &["watch", path, "--json", "--where", "$cpu =="]);
    let session = ScopedSession::start(&scene, "over", &[]);
    session.stop();
    session
        .ask(&["watch", "over", "--json"])
        .failed(2, &["session 'over' is not running", "sordino start over"]);
    session.destroy();
}

/// Runs the view in a terminal that does not control it, and hangs the terminal up once it shows the session.
const HANG_UP: &str = "
import fcntl, os, pty, struct, subprocess, termios
for _ in range(5):
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
    null = subprocess.DEVNULL
    view = subprocess.Popen(['./sordino', 'watch', 'seen'], stdin=inside, stdout=inside, stderr=null, start_new_session=True)
    os.close(inside)
    shown = b''
    # Drawn in one piece, as nothing of it was there before.
    while b'seen:' not in shown:
        shown += os.read(terminal, 65536)
    os.close(terminal)
    view.wait(60)
";

#[test]
fn a_view_ends_when_its_terminal_is_hung_up_without_a_signal() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "seen", &["--user", "steady"]);
    let (variable, path) = ScopedSession::environment(&scene);
    let mut python = Command::new("python3");
    python.args(["-c", HANG_UP]).env(variable, path).env("TERM", "xterm").current_dir(scene.path(""));
    scene.run(&mut python).succeeded();
    session.stop();
    session.destroy();
}

#[test]
fn a_recorder_that_is_stopped_does_not_stop_the_view_which_takes_the_time_for_a_gap() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "seen", &["--user", "steady"]);
    // Some thousand hits a second.
    let mut program = ScopedSession::join(&scene, Command::new(scene.program("steady.c")).arg("300000"));
    program.says("recorded");
    let tmux = Tmux::start(&scene);
    tmux.types("./sordino watch seen");
    tmux.sees("steady:step");
    let recorder = Pid::from_raw(session.recorder()).expect("a process");
    kill_process(recorder, Signal::STOP).unwrap();
    tmux.sees("seen: no answer");
    tmux.press("?");
    tmux.sees("Waits of threads");
    tmux.press("x");
    // It keeps records for a reader that sends no request for ten seconds.
    std::thread::sleep(std::time::Duration::from_secs(12));
    kill_process(recorder, Signal::CONT).unwrap();
    tmux.sees("seen: running");
    tmux.sees("1 gap");
    tmux.press("q");
    tmux.sees("ready>");
    program.signal(Signal::TERM);
    program.end().succeeded();
    session.stop();
    session.destroy();
}

#[test]
fn reading_a_large_recording_ends_when_it_is_stopped() {
    let scene = Scene::new();
    let npt = ["./sordino", "npt", "-p", "0", "-l", "100000", "--pace", "1us", "-a", &last_cpu()];
    let recording = scene.record(&["--user", "npt:*"], &npt);
    let read = |is_stopped: &mut dyn FnMut(u64, u64) -> bool| {
        let mut growing = GrowingRecording::open(recording.path.to_str().unwrap()).unwrap();
        growing.advance(&mut Tally::default(), None, is_stopped).unwrap()
    };
    assert_eq!(read(&mut |_, _| true), ReadingProgress::Interrupted);
    let mut shares = Vec::new();
    let mut note = |done, total| {
        shares.push((done, total));
        false
    };
    assert_eq!(read(&mut note), ReadingProgress::Complete);
    let is_part = |(done, total): &(u64, u64)| *done > 0 && done < total;
    assert!(!shares.is_empty() && shares.is_sorted() && shares.iter().all(is_part), "{shares:?}");
}

#[test]
fn events_of_the_future_are_left_out_and_said_to_be() {
    let scene = Scene::new();
    let recording = scene.record(&["--user", "once:*"], &[scene.program("once.c").to_str().unwrap()]);
    // An hour earlier: to the recording, its program's clock is an hour ahead.
    let file = recording.path.join("recording.json");
    let mut summary: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    summary["begin_ns"] = (summary["begin_ns"].as_u64().unwrap() - 3_600_000_000_000).into();
    fs::write(&file, summary.to_string()).unwrap();
    let ended = scene.sordino(&["watch", recording.path.to_str().unwrap(), "--json"]);
    let state: Value = serde_json::from_str(ended.succeeded()).expect("JSON");
    assert_eq!((&state["events_total"], &state["last_ns"]), (&0.into(), &Value::Null), "{state}");
    assert!(state["notes"].to_string().contains("lie in the future"), "{state}");
}
