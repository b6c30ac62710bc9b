//! The command `sordino npt`.

mod arguments;
mod compare;
mod options;
mod plot;
mod trigger;

pub(crate) use options::Options;

use crate::Failure;
use crate::failure::NO;
use crate::output::OutputFile;
use crate::picture::PictureFile;
use crate::progress::Progress;
use crate::signals;
use crate::terminal::{answer, has_terminal_for_errors, layout_columns, remark};
use options::contradiction;
use sordino_npt::{LoopObserver, NptReport, Plan, ROW_TITLES, Trial, lift_throttle_for};
use sordino_report::table;
use sordino_sched::{CpuList, Policy};
use std::os::fd::AsFd;
use std::process::ExitCode;

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if options.bound {
        sordino_guard::bind()?;
    }
    for (is_given, option, reason) in [
        (options.eval_cpu_speed, "--eval-cpu-speed", "the cycle counter's frequency is always measured"),
        (
            options.allow_interrupts,
            "--allow-interrupts",
            "interrupts are enabled unless --interrupts-off is given",
        ),
    ] {
        if is_given {
            message!("sordino: {option} has no effect: {reason}");
        }
    }
    // clap's `requires` does not do it: it is ignored if the required option conflicts with another one that is given.
    if options.trigger.is_none() && options.trigger_output.is_some() {
        return Err(contradiction("--trigger-output is the directory of --trigger: give both"));
    }
    if options.compare.is_empty() && options.rounds.is_some() {
        return Err(contradiction("--rounds is an option of --compare: give that, too"));
    }
    if options.plot.is_some() && options.plot == options.output {
        return Err(contradiction("--plot and --output name the same file"));
    }
    if let Some(gap) = options.trigger {
        return trigger::run(options, gap);
    }
    if !options.compare.is_empty() {
        return compare::run(options, &options.compare);
    }
    if options.find_max_rate {
        return compare::find_max_rate(options);
    }
    let mut output = OutputFile::of("--output", options.output.as_ref())?;
    let mut plot = PictureFile::of("--plot", options.plot.as_ref())?;
    let (cpus, plan) = arguments::plan(options)?;
    let report = measure(options, &cpus, &plan)?;
    let table = |rows: &[_]| table(&ROW_TITLES, rows, layout_columns());
    let text = if options.json { report.json() } else { report.text(options.unit(), &table) };
    answer(&text, options.json)?;
    if let Some(output) = &mut output {
        output.write_copy(&if options.json { text } else { report.file(options.unit(), &table) })?;
    }
    if let Some(plot) = &mut plot {
        plot.write(&plot::gaps(&report))?;
    }
    Ok(verdict(options, &report))
}

/// Measures `cpus` as planned, until the end or Ctrl-C.
fn measure(options: &Options, cpus: &CpuList, plan: &Plan) -> Result<NptReport, Failure> {
    let stop = signals::stop()?;
    let held = if plan.policy == Policy::Other { None } else { lift_throttle_for(cpus, &remark)? };
    for &cpu in cpus.as_slice() {
        sordino_shield::go_to(Some(cpu), &remark)?;
    }
    let trial = Trial { cpus, plan, sink: &options.sink, interrupts_off: options.interrupts_off };
    if options.verbose {
        trial.settings(held.is_some()).iter().for_each(|line| remark(line));
    }
    let progress = Progress::new(!has_terminal_for_errors());
    let report = trial.run(stop.as_fd(), &mut LoopProgress(progress))?;
    drop(held);
    Ok(report)
}

/// The progress of a measurement, as the loop reports it.
struct LoopProgress(Progress);

impl LoopObserver for LoopProgress {
    fn doing(&mut self, what: String) {
        self.0.doing(what);
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn remark(&self, text: &str) {
        remark(text);
    }
}

fn verdict(options: &Options, report: &NptReport) -> ExitCode {
    let Some(limit) = options.max_gap else { return ExitCode::SUCCESS };
    let mut code = ExitCode::SUCCESS;
    for (cpu, longest) in report.longest().filter(|(_, longest)| *longest > limit.as_nanos() as f64) {
        let longest = options.unit().time(longest);
        message!(
            "sordino: CPU {cpu}: the longest gap, {longest}, is longer than --max-gap {}",
            sordino_quantity::typed(limit)
        );
        code = ExitCode::from(NO);
    }
    code
}
