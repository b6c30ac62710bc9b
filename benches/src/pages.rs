//! Pages: for a large recording, the time, memory, size and first paint of its page; for the demo's recording, the time
//! until Perfetto's page shows it.

use crate::Bench;
use crate::programs::output_of;
use crate::queries::count;
use crate::table::{FigureSamples, FigureTable, LimitSide};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Loops of npt, each of which is an event; at a pace at which none is lost.
const LOOPS: &str = "20000000";
/// A script that reports the time of the page's first paint, in milliseconds.
const PAINT: &str = "<script>new PerformanceObserver((list) => { for (const entry of list.getEntries()) \
    if (entry.name === 'first-contentful-paint') console.error(`painted ${Math.round(entry.startTime)}.`); })\
    .observe({ type: 'paint', buffered: true });</script></body>";
/// Time after which a page is given up.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    let place = tempfile::tempdir_in(".").map_err(|error| error.to_string())?;
    let (recording, page) = (place.path().join("recording"), place.path().join("report.html"));
    let sordino = &bench.programs.sordino;
    let mut record = Command::new(sordino);
    record.args(["record", "--kernel", "rt", "--kernel-buffer", "256M", "-o"]).arg(&recording).arg("--");
    record.arg(sordino).args(["npt", "-l", LOOPS, "--pace", "1us", "-a", "1"]);
    output_of(&mut record).map_err(|error| error.to_string())?;
    let events = count(bench, &recording)? / 1e6;
    let [mut seconds, mut memory] = [FigureSamples::default(), FigureSamples::default()];
    for _ in 0..bench.rounds {
        let mut report = Command::new(sordino);
        let (time, mebibytes) = finish(report.arg("report").arg(&recording).arg("-o").arg(&page))?;
        seconds.push(time);
        memory.push(mebibytes);
    }
    table.heading(&format!("A page of a recording of npt and of the kernel, {events:.1} million events"));
    table.figure("sordino report", &seconds, "s");
    table.difference("", seconds.median(), "s", Some((10.0, LimitSide::AtMost)));
    table.figure("its greatest resident memory", &memory, "MB");
    table.difference("", memory.greatest(), "MB", Some((500.0, LimitSide::AtMost)));
    let bytes = fs::metadata(&page).map_err(|error| error.to_string())?.len() as f64;
    table.difference("the page", bytes / 1e6, "MB", Some((2.0, LimitSide::AtMost)));
    match paint(bench, place.path(), &page) {
        Ok(paint) => {
            table.figure("its first paint in Chromium", &paint, "ms");
            table.difference("", paint.median(), "ms", Some((1000.0, LimitSide::AtMost)));
        }
        Err(reason) => table.missing("first paint", &reason),
    }
    perfetto(bench, table, place.path())
}

/// Runs a command. Returns its seconds, and the megabytes of its greatest resident memory.
fn finish(command: &mut Command) -> Result<(f64, f64), String> {
    let begin = Instant::now();
    let mut child = command.stdout(Stdio::null()).spawn().map_err(|error| error.to_string())?;
    let mut greatest = 0.0_f64;
    let status = loop {
        let text = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        greatest = greatest.max(kibibytes.unwrap_or(0.0) * 1024.0 / 1e6);
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break status;
        }
        sleep(Duration::from_millis(5));
    };
    if status.success() {
        Ok((begin.elapsed().as_secs_f64(), greatest))
    } else {
        Err(format!("{command:?}: {status}"))
    }
}

/// Measures the time from the begin of loading the page until it shows anything.
fn paint(bench: &Bench, place: &Path, page: &Path) -> Result<FigureSamples, String> {
    let html = fs::read_to_string(page).map_err(|error| error.to_string())?.replace("</body>", PAINT);
    let measured = place.join("measured.html");
    fs::write(&measured, html).map_err(|error| error.to_string())?;
    let address = fs::canonicalize(&measured).map_err(|error| error.to_string())?;
    let mut samples = FigureSamples::default();
    for round in 0..bench.rounds {
        let profile = place.join(format!("paint{round}"));
        let painted = reported(&format!("file://{}", address.display()), &profile, "painted ")?;
        samples.push(painted.parse().map_err(|_| format!("no number: {painted}"))?);
    }
    Ok(samples)
}

/// A script for Perfetto's page: it reports the page's own count of npt's loops, and the times of the first and the
/// last of them, once the trace is loaded.
const COUNT: &str = "<script>(async () => {
    while (!self.app?.trace) await new Promise((again) => setTimeout(again, 20));
    const answer = await self.app.trace.engine.query(
        \"select count(*) || ' ' || min(ts) || ' ' || max(ts) as n from slice where name = 'npt:loop'\");
    console.error(`counted ${answer.firstRow({ n: 'str' }).n}.`);
})()</script></head>";
/// Directory of Perfetto's page, which `scripts/lib/trace-processor` fetches.
const PERFETTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/perfetto/ui");

/// Measures the time from the browser's start until Perfetto's page has counted the events of the demo's recording.
fn perfetto(bench: &Bench, table: &mut FigureTable, place: &Path) -> Result<(), String> {
    table.heading("Perfetto's page from local files, with the recording of `sordino demo`");
    if !Path::new(PERFETTO).join("index.html").exists() {
        table.missing("the page", "its files are fetched by scripts/lib/trace-processor");
        return Ok(());
    }
    let (page, recording) = (place.join("perfetto"), place.join("demo"));
    let copied = output_of(Command::new("cp").arg("-r").arg(PERFETTO).arg(&page));
    copied.map_err(|error| error.to_string())?;
    let index = page.join("index.html");
    let html = fs::read_to_string(&index).map_err(|error| error.to_string())?.replacen("</head>", COUNT, 1);
    fs::write(&index, html).map_err(|error| error.to_string())?;
    let sordino = &bench.programs.sordino;
    // A planted disturbance that is not found as the cause of its gap is a result of the demo's, and none here.
    let demo = Command::new(sordino).args(["demo", "-o"]).arg(&recording).output();
    demo.map_err(|error| error.to_string())?;
    let (mut seconds, mut events) = (FigureSamples::default(), 0);
    for round in 0..bench.rounds {
        let mut view = Command::new(sordino);
        view.args(["view", "--no-browser", "--peak", "1", "--ui"]).arg(&page).arg(&recording);
        let mut view =
            view.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(|error| error.to_string())?;
        let shown = opened(&mut view, &place.join(format!("profile{round}")));
        let _ = view.kill();
        let _ = view.wait();
        let (time, counted) = shown?;
        let mut numbers = counted.split(' ');
        let [count, first, last] = [(); 3].map(|()| numbers.next().unwrap_or_default());
        events = loops(bench, &recording, first, last)?;
        if count.parse() != Ok(events) {
            return Err(format!("the page has {count} events of {events}"));
        }
        seconds.push(time);
    }
    table.figure(&format!("until its SQL has counted {events} events around the longest gap"), &seconds, "s");
    table.difference("", seconds.greatest(), "s", Some((5.0, LimitSide::AtMost)));
    Ok(())
}

/// Returns the number of npt's loops from one time to another, in nanoseconds since 1970.
fn loops(bench: &Bench, recording: &Path, first: &str, last: &str) -> Result<u64, String> {
    let seconds = |time: &str| match time.split_at_checked(time.len().saturating_sub(9)) {
        Some((seconds, nanos)) => format!("{seconds}.{nanos}"),
        None => time.to_owned(),
    };
    let mut query = Command::new(&bench.programs.sordino);
    query.arg("query").arg(recording).args(["count", "--per", "event", "--json"]);
    query.args(["--from", &seconds(first), "--until", &seconds(last)]);
    let json = &output_of(&mut query).map_err(|error| error.to_string())?;
    let document: serde_json::Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let rows = document["tables"][0]["rows"].as_array().into_iter().flatten();
    let of_npt = rows.filter(|row| row["labels"][0] == "npt:loop");
    let counts: Option<Vec<u64>> = of_npt.map(|row| row["summary"]["count"].as_u64()).collect();
    counts.map(|counts| counts.iter().sum()).ok_or_else(|| format!("no count of npt:loop: {json}"))
}

/// Opens the address that the command prints. Returns the seconds from then until the page's report, and the report.
fn opened(view: &mut Child, profile: &Path) -> Result<(f64, String), String> {
    let output = view.stdout.take().ok_or("no output")?;
    let mut address = String::new();
    BufReader::new(output).read_line(&mut address).map_err(|error| error.to_string())?;
    let begin = Instant::now();
    let counted = reported(address.trim(), profile, "counted ")?;
    Ok((begin.elapsed().as_secs_f64(), counted))
}

/// Opens an address in a browser. Returns what the page reports behind `mark`, and ends the browser then.
fn reported(address: &str, profile: &Path, mark: &str) -> Result<String, String> {
    let mut browser = Command::new("timeout");
    browser.args([
        &PATIENCE.as_secs().to_string(),
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
    ]);
    browser.args(["--enable-logging=stderr", "--remote-debugging-port=0", "--window-size=1400,900"]);
    browser.arg(format!("--user-data-dir={}", profile.display())).arg(address);
    let browser = browser.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut browser = browser.map_err(|error| format!("chromium: {error}"))?;
    let mut log = BufReader::new(browser.stderr.take().ok_or("no log")?).lines();
    let report = log.find_map(|line| Some(line.ok()?.split_once(mark)?.1.split_once('.')?.0.to_owned()));
    // The signal of timeout's ends the browser, too.
    let _ = output_of(Command::new("kill").arg(browser.id().to_string()));
    let _ = browser.wait();
    report.ok_or_else(|| format!("the page reported nothing with '{}'", mark.trim_end()))
}
