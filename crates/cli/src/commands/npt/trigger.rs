//! The flight recorder of `sordino npt --trigger`, which explains the gap that ended the loop.

use super::options::Options;
use crate::Failure;
use crate::commands::demo::KERNEL;
use crate::commands::explain::{explain, format};
use crate::commands::record;
use crate::failure::{NO, UNUSABLE};
use crate::recording::Recording;
use crate::terminal::{print, show};
use clap::{Args, FromArgMatches};
use sordino_analyze::ExplainOptions;
use sordino_intervals::IntervalRule;
use sordino_npt::{LoopPart, Sink};
use sordino_report::{write_findings, write_findings_json};
use sordino_sched::is_root;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Records the loop until its first gap of at least `gap`, and explains that. Exit status 1 if there was one.
pub(super) fn run(options: &Options, gap: Duration) -> Result<ExitCode, Failure> {
    let hits_all =
        options.sink == Sink::Sordino && options.max_frequency.is_none() && options.trace_window.is_none();
    if options.no_tracepoint || !options.body.contains(&LoopPart::Tracepoint) || !hits_all {
        let text = "--trigger explains the gap between two hits of sordino's tracepoint, which each loop has to hit: leave \
                    --no-tracepoint, --sink, --max-frequency and --trace-window out, and 'tracepoint' in --body";
        return Err(Failure::new(UNUSABLE, text));
    }
    let output = options.trigger_output.clone().unwrap_or_else(record::default_output);
    let status = record::run(&recorder(&output, gap)?)?;
    if status != ExitCode::SUCCESS {
        return Ok(status);
    }
    let mut recording = Recording::open(Some(&output))?;
    let chosen = ExplainOptions { longest: 1, limit: Some(gap.into()), ..ExplainOptions::default() };
    let findings = explain(&mut recording, IntervalRule::between("npt:loop"), chosen, None)?;
    let mut text = Vec::new();
    if options.json {
        write_findings_json(&findings, &mut text)?;
        print(&text)?;
    } else if findings.ranked == 0 {
        show(&format!("no gap of {}\n", sordino_quantity::typed(gap)))?;
    } else {
        text.extend_from_slice(b"\nThe gap that ended it\n");
        write_findings(&findings, format(&recording), &mut text)?;
        show(&String::from_utf8_lossy(&text))?;
    }
    recording.close()?;
    Ok(if findings.ranked > 0 { ExitCode::from(NO) } else { ExitCode::SUCCESS })
}

/// Returns the options of `sordino record --overwrite` for this command line without its trigger.
fn recorder(output: &Path, gap: Duration) -> Result<record::Options, Failure> {
    let mut words: Vec<OsString> =
        ["record", "--overwrite", "--user", "npt", "-o"].map(OsString::from).to_vec();
    words.push(output.into());
    if is_root() {
        words.extend(["--as", "root", "--kernel", KERNEL].map(OsString::from));
    } else {
        message!("sordino: not root: without the kernel's events little can be explained");
    }
    words.push("--".into());
    words.push(std::env::current_exe()?.into());
    words.extend(without_trigger(std::env::args_os().skip(1)));
    words.push(format!("--end-at={}ns", gap.as_nanos()).into());
    let matches = record::Options::augment_args(clap::Command::new("record")).try_get_matches_from(words)?;
    Ok(record::Options::from_arg_matches(&matches)?)
}

/// Returns the arguments without the trigger's own.
fn without_trigger(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut kept, mut is_value) = (Vec::new(), false);
    for argument in arguments {
        let text = argument.to_string_lossy();
        let is_ours = ["--trigger", "--trigger-output"].iter().any(|name| text == *name);
        let has_value = ["--trigger=", "--trigger-output="].iter().any(|name| text.starts_with(name));
        if !is_value && !is_ours && !has_value {
            kept.push(argument.clone());
        }
        is_value = is_ours;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_gets_its_own_arguments_alone() {
        let all = [
            "npt",
            "--cpu",
            "1",
            "--trigger",
            "50us",
            "--trigger-output",
            "x",
            "-n",
            "7",
            "--trigger-output=y",
            "--trigger=1ms",
        ];
        let kept = without_trigger(all.map(OsString::from).into_iter());
        assert_eq!(kept, ["npt", "--cpu", "1", "-n", "7"]);
    }
}
