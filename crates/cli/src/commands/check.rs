//! The command `sordino check`.

mod culprit;
mod keep;
mod options;

pub(crate) use keep::{Options as KeepOptions, run as keep};
pub(crate) use options::Options;

use crate::Failure;
use crate::failure::NO;
use crate::privilege::target;
use crate::progress::Progress;
use crate::signals::Stop;
use crate::terminal::{print, remark, show};
use sordino_check::write::{step_text, summary_text};
use sordino_check::{Check, CheckObserver, Explained, Limits, Report, ReportDirectory};
use sordino_event::Nanos;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let request = options.request()?;
    let limits = request.limits.clone();
    let mut watch = CheckProgress { progress: Progress::new(false), stop: Stop::new()? };
    let mut check = Check::new(request, &mut watch)?;
    if !options.json {
        show(&check.announcement())?;
    }
    while let Some(step) = check.next_step() {
        if !options.json {
            show(&step_text(step, options.verbose))?;
        }
    }
    let (report, output) = check.finish();
    finish(options, &report, &limits, output.as_ref())
}

fn finish(
    options: &Options,
    report: &Report,
    limits: &Limits,
    output: Option<&ReportDirectory>,
) -> Result<ExitCode, Failure> {
    match options.json {
        true => print(serde_json::to_string(report)? + "\n")?,
        false => show(&format!("\n{}", summary_text(report)))?,
    }
    if let Some(output) = output {
        output.write(report, limits)?;
        if let Some(owner) = target(None)? {
            output.dir().give(owner.uid, owner.gid);
        }
        message!("report: {}", output.path().join("report.html").display());
    }
    Ok(if report.has_failed() { ExitCode::from(NO) } else { ExitCode::SUCCESS })
}

/// Shows progress, receives Ctrl-C, and explains traces.
struct CheckProgress {
    progress: Progress,
    stop: Stop,
}

impl CheckObserver for CheckProgress {
    fn doing(&mut self, what: String) {
        self.progress.doing(what);
    }

    fn clear(&mut self) {
        self.progress.clear();
        self.progress = Progress::new(false);
    }

    fn is_interrupted(&self) -> bool {
        self.stop.is_requested()
    }

    fn remark(&self, text: &str) {
        remark(text);
    }

    fn longest_wake_up(&mut self, trace: &Path) -> Result<Option<(Nanos, Explained)>, String> {
        culprit::longest(trace).map_err(|failure| failure.text().to_owned())
    }
}
