//! `sordino view`: Perfetto's own page with a recording, in a browser without a network.

use rustix::process::Signal;
use sordino_tests::browser::{Browser, kept};
use sordino_tests::{RunningProcess, Scene, last_cpu, perfetto, wait_until};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directory of Perfetto's page, which `scripts/lib/trace-processor` fetches.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/perfetto/ui");

/// Counts the program's events in the page by its own SQL, once the trace is loaded.
const EVENTS: &str = "(async () => {
    const trace = self.app?.trace;
    if (!trace) return null;
    const answer = await trace.engine.query(\"select count(*) as n from slice where name = 'npt:loop'\");
    return Number(answer.firstRow({ n: 1 }).n);
})()";
/// Begin and length of what the page shows, in nanoseconds of the trace, once it is a part: at first it shows all.
const SHOWN: &str = "(() => {
    const trace = self.app?.trace;
    const shown = trace?.timeline?.visibleWindow;
    const isPart = shown && Number(shown.duration) < Number(trace.traceInfo.end - trace.traceInfo.start) / 2;
    return isPart ? [String(shown.start.toTime()), String(shown.duration)] : null;
})()";

/// The files of Perfetto's page; `None`, reported as not measured, if they were not fetched.
fn page() -> Option<&'static str> {
    let is_there = Path::new(PAGE).join("index.html").exists();
    if !is_there {
        Scene::not_measured("Perfetto's page: fetch it with scripts/lib/trace-processor");
    }
    is_there.then_some(PAGE)
}

/// Starts the command, and returns it with the address that it prints.
fn view(scene: &Scene, arguments: &[&str]) -> (RunningProcess, String) {
    let mut command = scene.command(&["view", "--no-browser"]);
    let mut running = scene.start(command.args(arguments));
    running.says("\n");
    let address = running.output().trim().to_owned();
    assert!(address.starts_with("http"), "{address}");
    (running, address)
}

/// Has curl request `address` with more options. Returns the status of HTTP.
fn status(address: &str, options: &[&str]) -> String {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code}"])
        .args(options)
        .arg(address);
    String::from_utf8(curl.output().expect("curl").stdout).unwrap()
}

#[test]
fn perfetto_shows_the_peak_without_a_network() {
    let (Some(scene), Some(page)) = (Scene::checked().as_root(), page()) else { return };
    let cpu = last_cpu();
    let npt = format!("./sordino npt --cpu {cpu} --pace 1ms --duration 1s >npt.out");
    let recording = scene.record(&["--kernel", "sched,irq"], &["sh", "-c", &npt]);
    let (running, address) = view(&scene, &[recording.name(), "--ui", page, "--peak", "1"]);
    let trace = address.split("url=").nth(1).unwrap().split('&').next().unwrap();

    let Some(mut browser) = Browser::start(&scene) else { return };
    let opened = browser.open(&address);
    let events = browser.wait_for(&opened, EVENTS);
    let loops = scene.listed(&recording.path).iter().filter(|event| event["name"] == "npt:loop").count();
    assert!(loops > 100 && events.as_u64() == Some(loops as u64), "{events} of {loops}");
    let shown = browser.wait_for(&opened, SHOWN);
    browser.photograph(&opened, &kept("perfetto.png"));
    let number = |value: &serde_json::Value| value.as_str().unwrap().parse::<i64>().unwrap();
    let explained = scene.sordino(&["explain", recording.name(), "--top", "1", "--json"]);
    let explained: serde_json::Value = serde_json::from_str(explained.succeeded()).unwrap();
    let interval = &explained["intervals"][0];
    let (begin, end) = (interval["begin_ns"].as_i64().unwrap(), interval["end_ns"].as_i64().unwrap());
    let (first, length) = (number(&shown[0]), number(&shown[1]));
    assert!(first <= begin && end <= first + length, "{shown} of {begin}..{end}");
    assert!(length < 4 * (end - begin).max(20_000), "{length} ns are shown of a peak of {}", end - begin);

    // Nobody else reads the trace.
    assert_eq!(status(trace, &[]), "200");
    assert_eq!(status(trace, &["--header", "Origin: https://example.org"]), "404");
    assert_eq!(status(trace, &["--header", "Host: attacker.example"]), "404");
    let (server, _) = trace.rsplit_once("/trace").unwrap().0.rsplit_once('/').unwrap();
    assert_eq!(status(&format!("{server}/{}/trace", "0".repeat(32)), &[]), "404");
    running.signal(Signal::INT);
    let ended = running.end();
    assert_eq!(ended.status, 0, "{}", ended.errors);
    assert_eq!(status(trace, &[]), "000");
}

/// Returns the times of npt's loops in the trace that such a command serves, and the command's messages; `None` without
/// Perfetto's engine.
fn served_loops(scene: &Scene, arguments: &[&str]) -> Option<(Vec<i64>, String)> {
    let page = scene.fresh("page");
    std::fs::create_dir(&page).unwrap();
    std::fs::write(page.join("index.html"), "").unwrap();
    let (running, address) = view(scene, &[arguments, &["--ui", page.to_str().unwrap()]].concat());
    let trace = address.split("url=").nth(1).unwrap().split('&').next().unwrap();
    let file = scene.fresh("served");
    let fetched = Command::new("curl").args(["--silent", "--fail", "-o"]).arg(&file).arg(trace).status();
    assert!(fetched.unwrap().success());
    let ended = running.interrupt();
    assert_eq!(ended.status, 0, "{}", ended.errors);
    let queries = ["select ts from slice where name = 'npt:loop'"];
    let [rows] = perfetto::query(scene, &file, queries)?;
    let times = rows.iter().map(|row| row["ts"].as_str().and_then(|text| text.parse().ok()).expect("a time"));
    Some((times.collect(), ended.errors))
}

#[test]
fn a_page_gets_the_chosen_part_and_of_many_events_those_around_the_peak() {
    let scene = Scene::new();
    let npt = ["./sordino", "npt", "--cpu", &last_cpu(), "--pace", "1us", "--duration", "1s"];
    let recording = scene.record(&["--subbuf-size", "1M", "--num-subbuf", "32"], &npt);
    let explained = scene.sordino(&["explain", recording.name(), "--top", "1", "--json"]);
    let explained: serde_json::Value = serde_json::from_str(explained.succeeded()).unwrap();
    let interval = &explained["intervals"][0];
    let (begin, end) = (interval["begin_ns"].as_i64().unwrap(), interval["end_ns"].as_i64().unwrap());
    let Some((peak, notes)) = served_loops(&scene, &[recording.name(), "--peak", "1"]) else { return };
    assert!(notes.contains("around the interval"), "{notes}");
    assert!(peak.contains(&begin) && peak.contains(&end), "{begin} to {end} of {} loops", peak.len());
    assert!((10_000..=300_000).contains(&peak.len()), "{}", peak.len());

    let part = ["--from", "-0.3s", "--until", "-0.2s"];
    let (chosen, notes) = served_loops(&scene, &[&[recording.name()], &part[..]].concat()).unwrap();
    let listed =
        scene.sordino(&[&["events", recording.name(), "--event", "npt:loop", "--json"], &part[..]].concat());
    let loops = listed.succeeded().lines().filter(|line| line.contains("\"npt:loop\"")).count();
    assert!(loops > 10_000 && chosen.len() == loops, "{} of {loops}: {notes}", chosen.len());
    assert!(!notes.contains("events"), "{notes}");
}

#[test]
fn a_browser_that_is_not_there_is_said() {
    let scene = Scene::new();
    let program = scene.program("pairs.c");
    let recording = scene.record(&[], &[program.to_str().unwrap()]);
    let page = scene.path("page");
    std::fs::create_dir(&page).unwrap();
    std::fs::write(page.join("index.html"), "").unwrap();
    let mut command = scene.command(&["view", recording.name(), "--ui", page.to_str().unwrap()]);
    command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    let mut running = scene.start(&mut command);
    running.says("http://");
    let by_hand = "open the address in a browser of this machine";
    wait_until("the message", || running.errors().contains(by_hand));
    let is_reported =
        ["root has no browser", "there is no display"].iter().any(|why| running.errors().contains(why));
    assert!(is_reported, "{}", running.errors());
    assert_eq!(running.interrupt().status, 0);
}

/// Returns the process of a KernelShark that shows a file with this name.
fn viewer_of(name: &str) -> Option<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.find(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        line.starts_with("kernelshark\0") && line.contains(name)
    })
}

#[test]
fn kernelshark_gets_the_kernels_events() {
    let Some(scene) = Scene::checked().as_root() else { return };
    if sordino_sched::find_program(Path::new("kernelshark")).is_err() {
        return Scene::not_measured("kernelshark is not installed: no trace was opened in it");
    }
    let recording = scene.record(&["--kernel", "sched"], &["sleep", "0.1"]);
    let mut command = scene.command(&["view", recording.name(), "--with", "kernelshark"]);
    // A platform of Qt's without a screen.
    let running = scene.start(command.env("QT_QPA_PLATFORM", "offscreen").env("TMPDIR", scene.path("")));
    let mut viewer = None;
    wait_until("KernelShark has the trace", || {
        viewer = viewer_of("/trace.dat");
        viewer.is_some()
    });
    let viewer = viewer.unwrap();
    let line = std::fs::read(format!("/proc/{viewer}/cmdline")).unwrap();
    let file = String::from_utf8(line).unwrap().split('\0').nth(1).unwrap().to_owned();
    let shown = Command::new("trace-cmd").args(["report", "-i", &file]).output().expect("trace-cmd");
    assert!(String::from_utf8_lossy(&shown.stdout).contains("sched_switch"));
    rustix::process::kill_process(rustix::process::Pid::from_raw(viewer).unwrap(), Signal::TERM).unwrap();
    let ended = running.end();
    assert!(ended.errors.contains("kernelshark"), "{}", ended.errors);
    assert!(!Path::new(&file).exists());
}

#[test]
fn what_is_missing_is_said() {
    let scene = Scene::new();
    let program = scene.program("pairs.c");
    let recording = scene.record(&[], &[program.to_str().unwrap()]);
    let trace = recording.name();
    scene.refuses(2, &["--ui .: index.html", "--fetch-ui"], &["view", trace, "--ui", "."]);
    scene.refuses(2, &["port 9001 alone"], &["view", trace, "--port", "9002"]);
    scene.refuses(2, &["there is no interval #1000"], &["view", trace, "--peak", "1000"]);
    scene.refuses(127, &["vite is not installed", "apt install vite"], &["view", trace, "--with", "vite"]);
    scene.refuses(2, &["KernelShark", "--kernel rt"], &["view", trace, "--with", "kernelshark"]);
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port().to_string();
    let page = scene.path("page");
    std::fs::create_dir(&page).unwrap();
    std::fs::write(page.join("index.html"), "").unwrap();
    let page: PathBuf = page;
    let arguments = ["view", trace, "--ui", page.to_str().unwrap(), "--port", &port];
    scene.refuses(2, &[&format!("port {port}"), "is taken"], &arguments);
}
