//! The command `sordino shield`.

mod join;
mod run;

pub(crate) use join::{JoinOptions, join};

use crate::Failure;
use crate::failure::NO;
use crate::progress::Progress;
use crate::signals::{self, Stop};
use crate::terminal::{answer, remark, show_as_message};
use clap::{Args, Subcommand};
use sordino_npt::Interruptions;
use sordino_quantity::duration;
use sordino_sched::CpuList;
use sordino_shield::{
    ChangeObserver, Knob, Machine, Shield, ShieldLevel, ShieldRequest, Store,
    advice::{self, Advice},
    boot, json, plan, text,
};
use std::process::ExitCode;
use std::time::Duration;

/// Reserve CPUs for real-time work, check the effect, and undo it
///
/// A shield is a set of CPUs that are kept free of other work. 'up' moves threads, interrupts and work of the kernel
/// away from them, reads each change back and measures the effect; 'run' starts a program there; 'down' undoes
/// everything, also the changes of an 'up' that was killed. Needs root, except for 'plan' and 'status'.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sordino shield plan --cpus 2-3
  sudo sordino shield up --cpus 2-3 --level full
  sudo sordino shield run --prio 80 -- ./my-program
  sordino shield status
  sudo sordino shield down")]
pub(crate) struct Options {
    #[command(subcommand)]
    command: ShieldCommand,
}

#[derive(Debug, Subcommand)]
enum ShieldCommand {
    /// Print the changes that 'up' would make, and the boot parameters that could do more; changes nothing
    Plan(ShieldOptions),
    /// Move other work away from CPUs, and measure the effect
    ///
    /// The CPUs stay shielded until 'sordino shield down'. Measures a real-time loop on each CPU before and after, and
    /// counts its interruptions. Exit status: 1 if a setting was changed and does not hold; 2 if the CPUs can't be
    /// shielded, and then nothing is changed.
    Up(UpOptions),
    /// Report whether CPUs are shielded, and whether all settings of the shield still hold
    ///
    /// Changes nothing. Also reports an 'up' or 'down' that was killed before it had finished; the next 'down' or 'up'
    /// undoes its changes. Exit status: 0 if CPUs are shielded and all settings hold, otherwise 1.
    Status(ShieldFormat),
    /// Run a command on the shielded CPUs
    ///
    /// The command runs as the user who called sudo, unless --as names another, and its exit status is passed on.
    Run(run::Options),
    /// Undo 'up': restore all settings, and let other work use the CPUs again
    ///
    /// Programs on the shielded CPUs continue, on all CPUs. Exit status: 1 if a setting could not be restored.
    Down(ShieldFormat),
}

#[derive(Args, Debug)]
struct ShieldOptions {
    /// CPUs to shield, such as 2-3,5
    #[arg(long, value_name = "LIST")]
    cpus: CpuList,
    /// Extent of the shield: 'basic' moves threads, interrupts and the kernel's work away from the CPUs; 'full' also
    /// changes settings of the whole machine: throttling of real-time threads, timers, statistics, power
    #[arg(long, value_name = "LEVEL", default_value = "basic", value_parser = level)]
    level: ShieldLevel,
    /// Take each CPU offline and online first: removes timers from it, and interrupts that can't be moved otherwise
    /// (managed ones, of multi-queue devices)
    #[arg(long)]
    hotplug: bool,
    #[command(flatten)]
    format: ShieldFormat,
}

#[derive(Args, Debug)]
struct UpOptions {
    #[command(flatten)]
    shield: ShieldOptions,
    /// Duration of the measurements on each CPU before and after, at most 60s; 0s for none
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = at_most_a_minute)]
    measure: Duration,
}

#[derive(Args, Clone, Copy, Debug)]
struct ShieldFormat {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Show all lines, instead of the first three of each kind
    #[arg(short, long)]
    verbose: bool,
}

/// Parses the duration of a measurement, at most a minute: the CPUs do nothing else meanwhile.
fn at_most_a_minute(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|time| {
        if time <= Duration::from_secs(60) { Ok(time) } else { Err("must be at most 60s".to_owned()) }
    })
}

fn level(text: &str) -> Result<ShieldLevel, String> {
    match text {
        "basic" => Ok(ShieldLevel::Basic),
        "full" => Ok(ShieldLevel::Full),
        _ => Err("expected basic or full".to_owned()),
    }
}

impl ShieldOptions {
    fn request(&self) -> ShieldRequest {
        ShieldRequest { cpus: self.cpus.clone(), level: self.level, hotplug: self.hotplug }
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    match &options.command {
        ShieldCommand::Plan(options) => show_plan(options),
        ShieldCommand::Up(options) => up(options),
        ShieldCommand::Status(format) => status(*format),
        ShieldCommand::Run(options) => run::run(options),
        ShieldCommand::Down(format) => down(*format),
    }
}

/// Returns the CPUs of the shield that is up; an empty list if there is none.
pub(crate) fn shielded() -> CpuList {
    sordino_shield::current().map_or_else(CpuList::default, |shield| shield.request.cpus)
}

fn show_plan(options: &ShieldOptions) -> Result<ExitCode, Failure> {
    let (request, machine) = (options.request(), Machine::read()?);
    if let Some(shield) = Store::default().shield()? {
        return Err(sordino_shield::Error::Up { cpus: shield.request.cpus }.into());
    }
    let planned = plan(&machine, &request)?;
    let parameters = boot::parameters(&boot::KernelConfig::read(&machine), &machine, &request);
    let advice = Advice::of(&machine, &request);
    let text = if options.format.json {
        json::plan(&machine, &request, &planned, &parameters, &advice).to_string() + "\n"
    } else {
        text::plan(&machine, &request, &planned, &parameters, &advice, options.format.verbose)
    };
    answer(&text, options.format.json)?;
    Ok(ExitCode::SUCCESS)
}

fn up(options: &UpOptions) -> Result<ExitCode, Failure> {
    let (request, format) = (options.shield.request(), options.shield.format);
    let mut store = Store::default();
    if let Some(lowered) = store.recover()? {
        show_as_message(&text::undone(&lowered));
    }
    // Reasons to refuse are reported before anything is measured, and so are services that would undo the shield.
    store.may_raise(&request)?;
    let advice = Advice::of(&Machine::read()?, &request);
    for note in &advice.notes {
        message!("sordino: {note}");
    }
    let mut watch = Raising { progress: Progress::new(false), stop: Stop::new()? };
    let measure = |watch: &mut Raising, what| -> Result<Option<Interruptions>, Failure> {
        if options.measure.is_zero() {
            return Ok(None);
        }
        watch.progress.doing(what);
        Ok(Some(Interruptions::measure(&request.cpus, options.measure, &remark)?))
    };
    let before = measure(&mut watch, "measuring without the shield")?;
    let raised = store.up(&request, &mut watch)?;
    // From here on the shield is up, even if something else fails.
    let after = measure_inside(&raised.shield, || measure(&mut watch, "measuring with the shield"));
    let after = after.unwrap_or_else(|failure| {
        message!("sordino: not measured with the shield: {}", failure.text());
        None
    });
    watch.progress.clear();
    let stays = store.status().map(|status| status.stays).unwrap_or_default();
    let effect = before.zip(after);
    let text = if format.json {
        let [before, after] = [effect.as_ref().map(|of| &of.0), effect.as_ref().map(|of| &of.1)];
        json::raised(&raised, &stays, &advice, serde_json::to_value(before)?, serde_json::to_value(after)?)
            .to_string()
            + "\n"
    } else {
        let effect = effect.map(|(before, after)| before.compared(&after)).unwrap_or_default();
        text::raised(&raised, &stays, &advice, &effect, format.verbose)
    };
    answer(&text, format.json)?;
    Ok(if raised.differing().next().is_none() { ExitCode::SUCCESS } else { ExitCode::from(NO) })
}

/// Measures from within the shield: its CPUs are not available outside of it.
fn measure_inside(
    shield: &Shield,
    measure: impl FnOnce() -> Result<Option<Interruptions>, Failure>,
) -> Result<Option<Interruptions>, Failure> {
    let own = std::process::id();
    shield.take_in(own)?;
    let measured = measure();
    shield.send_out(own)?;
    measured
}

fn status(format: ShieldFormat) -> Result<ExitCode, Failure> {
    let status = Store::default().status()?;
    // These services may have changed the settings that no longer hold.
    let rivals = match &status.shield {
        Some(shield) if !status.drift.is_empty() => advice::rivals(&Machine::read()?, &shield.request),
        _ => Vec::new(),
    };
    let text = if format.json {
        json::status(&status, &rivals).to_string() + "\n"
    } else {
        text::status(&status, &rivals, format.verbose)
    };
    answer(&text, format.json)?;
    Ok(if status.shield.is_some() && status.drift.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NO)
    })
}

fn down(format: ShieldFormat) -> Result<ExitCode, Failure> {
    // Ctrl-C must not leave the shield half lowered.
    let _stop = signals::stop()?;
    let lowered = Store::default().down()?;
    let text = if format.json { json::lowered(&lowered).to_string() + "\n" } else { text::lowered(&lowered) };
    answer(&text, format.json)?;
    let is_whole = lowered.failures.is_empty() && lowered.remaining.is_empty();
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(NO) })
}

/// Shows the change that is being made, and receives Ctrl-C.
struct Raising {
    progress: Progress,
    stop: Stop,
}

impl ChangeObserver for Raising {
    fn changing(&mut self, knob: &Knob, change: &sordino_shield::Change) {
        self.progress.doing(format!("{}: {}", knob.name, change.what));
    }

    fn is_interrupted(&self) -> bool {
        self.stop.is_requested()
    }
}
