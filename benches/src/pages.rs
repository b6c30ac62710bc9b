//! Pages of a large recording: their time, memory, size and first paint; and the CPU time of a view of a session.

use crate::Bench;
use crate::programs::{Tracer, output_of};
use crate::queries::count;
use crate::table::{Bar, Samples, Table};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Loops of npt, each of which is an event; at a pace at which none is lost.
const LOOPS: &str = "20000000";
/// Events a second of a session that is watched.
const RATE: &str = "10000";
/// A script that leaves the time of the page's first paint, in milliseconds, in the page.
const PAINT: &str = "<script>new PerformanceObserver((list) => { for (const entry of list.getEntries()) \
    document.body.dataset[entry.name.startsWith('first-contentful') ? 'paint' : 'other'] = entry.startTime; })\
    .observe({ type: 'paint', buffered: true });</script></body>";

pub(crate) fn measure(bench: &Bench, table: &mut Table) -> Result<(), String> {
    let place = tempfile::tempdir_in(".").map_err(|error| error.to_string())?;
    let (recording, page) = (place.path().join("recording"), place.path().join("report.html"));
    let sordino = &bench.programs.sordino;
    let mut record = Command::new(sordino);
    record.args(["record", "--kernel", "rt", "--kernel-buffer", "256M", "-o"]).arg(&recording).arg("--");
    record.arg(sordino).args(["npt", "-l", LOOPS, "--pace", "1us", "-a", "1"]);
    output_of(&mut record).map_err(|error| error.to_string())?;
    let events = count(bench, &recording)? / 1e6;
    let [mut seconds, mut memory] = [Samples::default(), Samples::default()];
    for _ in 0..bench.rounds {
        let mut report = Command::new(sordino);
        let (time, mebibytes) = finish(report.arg("report").arg(&recording).arg("-o").arg(&page))?;
        seconds.push(time);
        memory.push(mebibytes);
    }
    table.heading(&format!("A page of a recording of npt and of the kernel, {events:.1} million events"));
    table.figure("sordino report", &seconds, "s");
    table.difference("", seconds.median(), "s", Some((10.0, Bar::AtMost)));
    table.figure("its greatest resident memory", &memory, "MB");
    table.difference("", memory.greatest(), "MB", Some((500.0, Bar::AtMost)));
    let bytes = fs::metadata(&page).map_err(|error| error.to_string())?.len() as f64;
    table.difference("the page", bytes / 1e6, "MB", Some((2.0, Bar::AtMost)));
    match paint(bench, place.path(), &page) {
        Ok(paint) => {
            table.figure("its first paint in Chromium", &paint, "ms");
            table.difference("", paint.median(), "ms", Some((1000.0, Bar::AtMost)));
        }
        Err(reason) => table.missing("first paint", &reason),
    }
    watch(bench, table, place.path())
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
fn paint(bench: &Bench, place: &Path, page: &Path) -> Result<Samples, String> {
    let html = fs::read_to_string(page).map_err(|error| error.to_string())?.replace("</body>", PAINT);
    let measured = place.join("measured.html");
    fs::write(&measured, html).map_err(|error| error.to_string())?;
    let mut samples = Samples::default();
    for _ in 0..bench.rounds {
        let mut browser = Command::new("chromium");
        browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--timeout=5000", "--dump-dom"]);
        browser.arg(format!("--user-data-dir={}", place.join("browser").display()));
        browser.arg(format!(
            "file://{}",
            fs::canonicalize(&measured).map_err(|error| error.to_string())?.display()
        ));
        let dom = output_of(browser.stderr(Stdio::null())).map_err(|error| error.to_string())?;
        let time = dom.split_once("data-paint=\"").and_then(|(_, rest)| rest.split('"').next()?.parse().ok());
        samples.push(time.ok_or("the page has no time of its first paint")?);
    }
    Ok(samples)
}

/// Measures the CPU time of `sordino watch`, the kernel's part included, at ten thousand events a second.
fn watch(bench: &Bench, table: &mut Table, place: &Path) -> Result<(), String> {
    let sessions = place.join("sessions");
    let run = |program: &Path, words: &[&str]| {
        let mut command = Command::new(program);
        command.env("SORDINO_RUNTIME_DIR", &sessions).args(words);
        output_of(&mut command).map_err(|error| error.to_string())
    };
    let sordino = &bench.programs.sordino;
    let (output, socket) = (place.join("watched"), place.join("tmux").display().to_string());
    run(sordino, &["start", "watched", "-o", &output.to_string_lossy()])?;
    let seconds = bench.seconds + 5.0;
    let mut program = Command::new(bench.programs.path("rate", Tracer::Sordino));
    program
        .env("SORDINO_RUNTIME_DIR", &sessions)
        .args(["0", RATE, &seconds.to_string()])
        .stdout(Stdio::null());
    let mut program = program.spawn().map_err(|error| error.to_string())?;
    let view = format!("exec {} watch watched", sordino.display());
    let measure = || -> Result<f64, String> {
        run(Path::new("tmux"), &["-S", &socket, "new-session", "-d", "-x", "80", "-y", "24", &view])?;
        sleep(Duration::from_secs(3));
        let pid = run(Path::new("tmux"), &["-S", &socket, "display", "-p", "#{pane_pid}"])?;
        let cpu_time = || -> Option<f64> {
            let text = fs::read_to_string(format!("/proc/{}/schedstat", pid.trim())).ok()?;
            text.split_whitespace().next()?.parse().ok()
        };
        let (begin, before) = (Instant::now(), cpu_time().ok_or("the view has ended")?);
        sleep(Duration::from_secs_f64(bench.seconds));
        let spent = cpu_time().ok_or("the view has ended")? - before;
        Ok(spent / 1e9 / begin.elapsed().as_secs_f64() * 100.0)
    };
    let measured = measure();
    let _ = run(Path::new("tmux"), &["-S", &socket, "kill-server"]);
    let _ = program.wait();
    let _ = run(sordino, &["destroy", "watched"]);
    table.heading("A view of a session with 10 000 events a second");
    table.difference("CPU of sordino watch", measured?, "%", Some((2.0, Bar::AtMost)));
    Ok(())
}
