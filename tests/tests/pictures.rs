//! `sordino report` and `sordino peak`: pages and pictures of planted disturbances, opened in a browser.

use serde_json::Value;
use sordino_tests::active::number;
use sordino_tests::browser::{Browser, Medium, kept};
use sordino_tests::install::root;
use sordino_tests::{NativeCompiler, Scene, last_cpu};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Size that no page exceeds.
const LARGEST: u64 = 2_000_000;

/// A script that a test adds to the page. It zooms into the first timeline by dragging, points at a stretch, zooms out
/// again, and leaves the results in the page.
const USE: &str = r#"<script>
const svg = document.querySelector("svg.timeline");
const box = svg.getBoundingClientRect();
const drag = (type, part) => svg.dispatchEvent(new PointerEvent(type, { clientX: box.left + box.width * part, clientY: box.top + 40, bubbles: true }));
drag("pointerdown", 0.4);
drag("pointerup", 0.6);
document.body.dataset.zoomed = svg.dataset.view;
const stretch = [...svg.querySelectorAll("rect[data-f]")].find((one) => one.querySelector("title") && one.style.display === "");
stretch.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width / 2, clientY: box.top + 40, bubbles: true }));
document.body.dataset.readout = svg.closest("figure").querySelector(".readout").textContent;
document.body.dataset.from = (stretch.dataset.f - svg.dataset.origin).toLocaleString("en");
svg.dispatchEvent(new KeyboardEvent("keydown", { key: "0" }));
document.body.dataset.all = svg.dataset.view;
const press = (key) => svg.dispatchEvent(new KeyboardEvent("keydown", { key }));
["ArrowDown", "ArrowDown", "."].forEach(press);
document.body.dataset.picked = svg.closest("figure").querySelector(".readout").textContent;
document.body.dataset.lane = svg.querySelector(".picked").closest(".lane").querySelector("text").firstChild.data;
</script></body>"#;

/// Has a browser load the page and use it. Returns the page as it is then; `None` without a browser.
#[track_caller]
fn used(page: &Path) -> Option<String> {
    let file = page.with_file_name("used.html");
    fs::write(&file, fs::read_to_string(page).unwrap().replace("</body>", USE)).unwrap();
    let browser = Command::new("chromium")
        .arg(format!("--user-data-dir={}", page.with_file_name("browser").display()))
        .env("TMPDIR", page.with_file_name(""))
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--window-size=1200,900",
        ])
        .args(["--dump-dom", &format!("file://{}", file.display())])
        .output();
    let Ok(browser) = browser else {
        Scene::not_measured("chromium is not installed: the page was not opened");
        return None;
    };
    let log = String::from_utf8_lossy(&browser.stderr);
    assert!(browser.status.success() && !log.contains("CONSOLE"), "{log}");
    Some(String::from_utf8_lossy(&browser.stdout).into_owned())
}

/// Returns the value of an attribute of the page's body.
fn result<'a>(dom: &'a str, name: &str) -> &'a str {
    let body = dom.split_once("<body").unwrap().1;
    let value = body.split_once(&format!("data-{name}=\"")).unwrap_or_else(|| panic!("no {name}")).1;
    value.split('"').next().unwrap()
}

/// Checks that a page fits a screen, a phone and paper, in light and dark, and keeps a picture of each.
#[track_caller]
fn looks(scene: &Scene, name: &str, page: &Path) {
    let Some(mut browser) = Browser::start(scene) else { return };
    let opened = browser.open(&format!("file://{}", page.display()));
    // The browser begins with an empty page, which is complete.
    browser.wait_for(&opened, "location.protocol === 'file:' && document.readyState === 'complete' || null");
    let screen = Medium { width: 1280, is_dark: false, is_paper: false };
    let media = [
        ("light", screen),
        ("dark", Medium { is_dark: true, ..screen }),
        ("phone", Medium { width: 390, ..screen }),
        ("paper", Medium { width: 760, is_paper: true, ..screen }),
    ];
    for (of, medium) in media {
        browser.show(&opened, medium);
        let width = browser.evaluate(&opened, "document.documentElement.scrollWidth");
        assert!(width.as_u64().unwrap() <= medium.width.into(), "{name} on {of}: {width} wide");
        let paper = browser.evaluate(&opened, "getComputedStyle(document.body).backgroundColor");
        assert_eq!(paper == "rgb(255, 255, 255)", !medium.is_dark, "{name} on {of}: {paper}");
        // Elements that scroll would be cut on paper.
        let cut = "[...document.querySelectorAll('pre, .wide')].filter((one) => one.scrollWidth > one.clientWidth).length";
        assert!(!medium.is_paper || browser.evaluate(&opened, cut) == 0, "{name} is cut on paper");
        // Every picture has words for who does not see it.
        let silent = "[...document.querySelectorAll('svg')].filter((one) => !one.getAttribute('aria-label') && !one.ariaHidden).length";
        assert_eq!(browser.evaluate(&opened, silent), 0, "{name}: a picture without words");
        browser.photograph(&opened, &kept(&format!("{name}-{of}.png")));
    }
    assert!(browser.errors().is_empty(), "{name}: {:?}", browser.errors());
}

#[test]
fn the_checks_page_fits_a_phone_and_paper() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let results = scene.path("results");
    scene.sordino(&["check", "--duration", "1s", "--only", "system,npt", "-o", results.to_str().unwrap()]);
    looks(&scene, "check", &results.join("report.html"));
}

fn numbers(text: &str) -> Vec<f64> {
    text.split(' ').map(|number| number.parse().unwrap()).collect()
}

/// Has Python read the picture as XML.
#[track_caller]
fn is_xml(file: &Path) {
    let script = "import sys, xml.etree.ElementTree as tree; print(tree.parse(sys.argv[1]).getroot().tag)";
    let read = Command::new("python3").args(["-c", script]).arg(file).output().unwrap();
    let tag = String::from_utf8_lossy(&read.stdout);
    assert!(tag.trim().ends_with("}svg"), "{}", String::from_utf8_lossy(&read.stderr));
}

#[test]
fn a_planted_thread_is_in_its_lanes_and_the_page_can_be_zoomed() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let cpu = last_cpu();
    let recording = scene.record_hog(&cpu);
    let trace = recording.name();
    let (page, picture) = (scene.path("report.html"), scene.path("peak.svg"));
    let ended = scene.sordino(&["report", trace, "--top", "3", "-o", page.to_str().unwrap()]);
    assert!(ended.succeeded().contains("npt:loop: "), "{}", ended.output);
    let html = fs::read_to_string(&page).unwrap();
    assert!(fs::metadata(&page).unwrap().len() < LARGEST);
    assert!(
        !html.contains("http:") && !html.contains("https:") && !html.contains("src="),
        "it loads something"
    );

    // The picture has the hog where npt waited for it, on both lanes, for as long as it was planted.
    let planted = |line: &&str| line.contains(&format!("cpu{cpu}: hog/")) && line.contains(": 20.");
    assert!(html.lines().any(|line| planted(&line)), "no hog of 20 ms on cpu{cpu}");
    let waits = |line: &&str| line.contains("npt/") && line.contains("waits for a CPU: 20.");
    assert!(html.lines().any(|line| waits(&line)), "npt does not wait for 20 ms");

    // The tables of the whole recording have a thread that wakes up in each, and the CPU's own interrupts.
    for (title, row) in
        [("Wake-up latencies by thread", "latency per thread: "), ("Interrupts by CPU", "local_timer")]
    {
        let table = html.split_once(title).unwrap_or_else(|| panic!("no {title}")).1;
        let table = table.split_once("</pre>").unwrap().0;
        assert!(table.contains(row), "{title}: {table}");
    }

    if let Some(dom) = used(&page) {
        let (zoomed, all) = (numbers(result(&dom, "zoomed")), numbers(result(&dom, "all")));
        let (part, whole) = (zoomed[1] - zoomed[0], all[1] - all[0]);
        assert!(all[0] == 0.0 && zoomed[0] > 0.0 && part < whole * 0.3, "{zoomed:?} of {all:?}");
        let readout = result(&dom, "readout");
        assert!(readout.contains(" from +") || readout.contains(" from -"), "{readout}");
        assert!(readout.contains(&format!("({} ns to ", result(&dom, "from"))), "no exact time: {readout}");
        // Without a mouse: two steps down, the second stretch there.
        let (lane, picked) = (result(&dom, "lane"), result(&dom, "picked"));
        assert!(lane == "cpu1" && picked.starts_with("cpu1: "), "{lane}: {picked}");
    }
    looks(&scene, "report", &page);

    // Another program may have made a longer gap, so the hog's is one of the longest three.
    let captions = ["1", "2", "3"].map(|rank| {
        let ended = scene.sordino(&["peak", trace, "--rank", rank, "-o", picture.to_str().unwrap()]);
        is_xml(&picture);
        ended.succeeded().to_owned()
    });
    let is_planted = |caption: &String| caption.contains("by hog/") && caption.contains(": 2");
    assert!(captions.iter().any(is_planted), "{captions:?}");
    scene.refuses(
        2,
        &["there is no interval #999"],
        &["peak", trace, "--event", "disturb:begin", "--rank", "999"],
    );
    scene.refuses(2, &["can't write --output", "it is a directory"], &["report", trace, "-o", "."]);
    scene.refuses(2, &["can't write --output /dev/full", "No space"], &["peak", trace, "-o", "/dev/full"]);
}

/// Returns the width and the height of a PNG file.
#[track_caller]
fn size(file: &Path) -> (u32, u32) {
    let bytes = fs::read(file).unwrap();
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.ends_with(b"IEND\xaeB`\x82"), "no PNG");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[test]
fn each_command_draws_to_the_format_that_the_ending_says() {
    let scene = Scene::new();
    let program = scene.program("pairs.c");
    let recordings = ["first", "second"].map(|_| scene.record(&[], &[program.to_str().unwrap()]));
    let [first, second] = recordings.each_ref().map(|recording| recording.name());
    let duration = ["--begin", "work:begin", "--end", "work:end"];
    let commands: [(&str, Vec<&str>); 4] = [
        ("npt", vec!["npt", "-p", "0", "-l", "3000", "--plot"]),
        ("query", [&["query", first, "duration"], &duration[..], &["--plot"]].concat()),
        ("compare", [&["compare", first, second, "-m", "duration"], &duration[..], &["--plot"]].concat()),
        ("peak", [&["peak", first], &duration[..], &["-o"]].concat()),
    ];
    for (name, words) in commands {
        let file = |ending: &str| scene.path(&format!("{name}.{ending}"));
        let draw = |file: &Path| scene.sordino(&[&words[..], &[file.to_str().unwrap()]].concat());
        for ending in ["svg", "PNG"] {
            let drawn = draw(&file(ending));
            // The exit status of a comparison is its answer.
            assert!(drawn.status == 0 || name == "compare" && drawn.status == 1, "{name}: {}", drawn.errors);
        }
        is_xml(&file("svg"));
        let (width, height) = size(&file("PNG"));
        assert!(width == 2200 && height > 100, "{name}: {width} x {height}");
        fs::copy(file("PNG"), kept(&format!("{name}.png"))).unwrap();
        draw(&file("jpg")).failed(2, &[&format!("{name}.jpg"), "ends with .svg or .png"]);
        draw(Path::new("/nowhere/x.svg")).failed(2, &["/nowhere/x.svg"]);
        draw(Path::new("/dev/full")).failed(2, &["/dev/full", "No space"]);
        assert!(!file("jpg").exists());
    }
    scene.refuses(2, &["nothing to draw: count"], &["query", first, "count", "--plot", "x.svg"]);
    scene.refuses(2, &["two recordings"], &["compare", "a", "b", "c", "--plot", "x.svg"]);
    assert!(!scene.path("x.svg").exists());
}

#[test]
fn a_page_has_the_settings_of_the_machine_and_the_command_of_the_recording() {
    let scene = Scene::new();
    let program = scene.program("pairs.c");
    let recording = scene.record(&["--user", "work:*"], &[program.to_str().unwrap()]);
    let page = scene.path("report.html");
    let report = || {
        scene.sordino(&["report", recording.name(), "-o", page.to_str().unwrap()]).succeeded();
        let html = fs::read_to_string(&page).unwrap();
        move |name: &str| {
            let cell =
                html.split_once(&format!("<th>{name}</th><td>")).unwrap_or_else(|| panic!("no {name}")).1;
            cell.split_once("</td>").unwrap().0.to_owned()
        }
    };
    let value = report();
    let command_line = fs::read_to_string("/proc/cmdline").unwrap();
    assert_eq!(value("command line"), command_line.trim().replace('&', "&amp;").replace('"', "&quot;"));
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    assert_eq!(value("CPUs online"), online.trim());
    let recorded = value("recorded with");
    assert!(recorded.starts_with("sordino record ") && recorded.contains("work:*"), "{recorded}");

    // A recording of an earlier sordino has neither.
    let file = recording.path.join("recording.json");
    let mut summary: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    for field in ["settings", "command"] {
        summary.as_object_mut().unwrap().remove(field).expect(field);
    }
    fs::write(&file, summary.to_string()).unwrap();
    let value = report();
    for name in ["command line", "CPUs online", "C-states", "recorded with"] {
        assert_eq!(value(name), "not recorded", "{name}");
    }
}

#[test]
fn a_recording_without_the_kernel_says_which_lanes_are_missing() {
    let scene = Scene::new();
    let program = scene.program("pairs.c");
    let recording = scene.record(&[], &[program.to_str().unwrap()]);
    let picture = scene.path("peak.svg");
    let name = picture.to_str().unwrap();
    scene.sordino(&["peak", recording.name(), "-o", name]).succeeded();
    is_xml(&picture);
    let text = fs::read_to_string(&picture).unwrap();
    assert!(text.contains("sordino record --kernel rt"), "{text}");
}

/// Returns the part of a text between two others.
#[track_caller]
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let rest = text.split_once(begin).unwrap_or_else(|| panic!("no {begin} in {text}")).1;
    rest.split_once(end).unwrap_or_else(|| panic!("no {end} in {rest}")).0
}

/// Returns the number in an attribute of an element.
#[track_caller]
fn attribute(element: &str, name: &str) -> i64 {
    between(element, &format!("{name}=\""), "\"").parse().unwrap()
}

/// Adds a stretch, to the last one if they touch.
fn join(stretches: &mut Vec<(i64, i64)>, (from, to): (i64, i64)) {
    match stretches.last_mut() {
        Some(last) if last.1 == from => last.1 = to,
        _ => stretches.push((from, to)),
    }
}

/// Returns the stretches of a picture's lane in which the fiber is on a thread; `begin` is the time of the picture's
/// begin.
fn drawn_on_a_thread(lane: &str, begin: i64) -> Vec<(i64, i64)> {
    let mut stretches = Vec::new();
    for stretch in lane.split("<rect ").skip(1) {
        let title = between(stretch, "<title>", "</title>");
        if title.contains(" runs on ") || title.contains(" is on ") {
            let [from, to] = ["data-f", "data-t"].map(|end| begin + attribute(stretch, end));
            join(&mut stretches, (from, to));
        }
    }
    stretches
}

/// Returns the stretches in which a thread has the fiber by the listing's switches, as far as they lie in this time.
fn switched_to(events: &[Value], fiber: i64, (begin, end): (i64, i64)) -> Vec<(i64, i64)> {
    let (mut since, mut stretches) = (HashMap::new(), Vec::new());
    for event in events.iter().filter(|event| event["name"] == "sordino_fiber:switch") {
        let (tid, now) = (number(&event["tid"]), number(&event["time_ns"]));
        let [from, to] = ["from", "to"].map(|end| number(&event["fields"][end]));
        if let Some(since) = since.remove(&tid).filter(|_| from == fiber) {
            let (from, to) = (begin.max(since), end.min(now));
            if from < to {
                join(&mut stretches, (from, to));
            }
        }
        if to == fiber {
            since.insert(tid, now);
        }
    }
    stretches
}

#[test]
fn the_lane_of_a_fiber_has_its_time_on_threads_by_the_programs_switches() {
    let scene = Scene::checked();
    let source = root().join("adapters/boost-fiber/fibers.cpp");
    let libraries = ["-lboost_fiber", "-lboost_context"];
    let program = scene.compile(NativeCompiler::Gxx, source.to_str().unwrap(), &libraries);
    let is_root = rustix::process::geteuid().is_root();
    let kernel: &[&str] = if is_root { &["--kernel", "sched"] } else { &[] };
    let shell = format!("exec {} 60 >/dev/null", program.display());
    let recording = scene.record(kernel, &["sh", "-c", &shell]);
    assert_eq!(recording.lost(), 0);
    let page = scene.path("fibers.html");
    let rule = ["--event", "work:step", "--top", "1"];
    let report = ["report", recording.name(), "-o", page.to_str().unwrap()];
    scene.sordino(&[&report[..], &rule].concat()).succeeded();
    let explained = scene.sordino(&[&["explain", recording.name(), "--json"][..], &rule].concat());
    let explained: Value = serde_json::from_str(explained.succeeded()).unwrap();
    let interval = &explained["intervals"][0];
    let fiber = number(&interval["fiber"]["number"]);

    let html = fs::read_to_string(&page).unwrap();
    let picture = between(&html, "<svg class=\"timeline\"", "</svg>");
    let begin = number(&interval["begin_ns"]) - attribute(picture, "data-origin");
    let within = (begin, begin + attribute(picture, "data-length"));
    let lanes: Vec<&str> =
        picture.split("<g class=\"lane\">").filter(|lane| lane.contains("<title>fiber ")).collect();
    assert!(lanes.len() > 1, "{} fibers", lanes.len());
    let events = scene.listed(&recording.path);
    let mut has_own = false;
    for lane in lanes {
        let id: i64 = between(lane, "<title>fiber ", "(").parse().unwrap();
        let lane = lane.split("</g>").next().unwrap();
        let (drawn, expected) = (drawn_on_a_thread(lane, begin), switched_to(&events, id, within));
        assert_eq!(drawn, expected, "fiber {id}");
        if id == fiber {
            has_own = lane.contains("<text class=\"own\"") && !drawn.is_empty();
            assert_eq!(lane.contains(" runs on "), is_root, "whether its thread has a CPU: {lane}");
        }
    }
    assert!(has_own, "fiber {fiber} has no lane of its own");
    looks(&scene, "fibers", &page);
}
