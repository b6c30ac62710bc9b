//! The command `sordino events`.

use crate::Failure;
use crate::commands::session;
use crate::recording::{AlignOptions, Recording};
use crate::terminal::{ListingOutput, has_colors, is_read, is_terminal};
use clap::{Args, ValueEnum};
use sordino_event::Time;
use sordino_live::hand_on_in;
use sordino_reading::{AddressNames, Demand};
use sordino_report::{LastLines, Listing, ListingFormat, TimeFormat};
use sordino_selection::{EventFilter, EventOptions, EventRules, TimeOptions};
use sordino_timeline::Item;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// List the events of a recording, of programs and the kernel merged in order of time
///
/// One line for each event: time, CPU, thread, name, fields. Lost records are listed in their place, whatever events
/// are selected. Reads any CTF 1.8 trace, LTTng's too. Context fields that a tracer adds to each event ($ctx) are left
/// out of the text but not of the JSON. Events on different CPUs that are less than some 50 ns apart may have happened
/// in the other order.
///
/// Several recordings are merged: of several programs, of the kernel, of several hosts, of other tracers. Recordings of
/// one boot of a machine have one clock; others are related by their times of day, or by --align. Each event then has
/// its host before the CPU. A '~' after its time means that its order is not known: the distance to an earlier event of
/// another clock is less than the uncertainty of the two clocks.
///
/// The state dump and the time that a hypervisor took are left out unless --statedump is given, or --event names them.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sordino events | less
  sordino events --last 20
  sordino events sordino-20260131-120000 --event motor --time since
  sordino events --event 'motor:*, sched_switch' --where '$cpu == 1'
  sordino events --where 'late > 50us && $comm == \"motor*\"'
  sordino events --around 14:03:27.512384±200us --where '$cpu == 1 || $prio < 100'
  sordino events --from 1.5s --until 1.6s
  sordino events motor-recording kernel-recording
  sordino events robot arm --align net:send=net:received
  sordino events --follow motor --event 'motor:period if late > 50us'
  sordino events --json --event npt:loop | jq 'select(.type == \"event\").fields'")]
pub(crate) struct Options {
    /// Directories of the recordings, which are merged [default: the newest in the current directory]
    #[arg(value_name = "DIRECTORY")]
    directories: Vec<PathBuf>,
    #[command(flatten)]
    align: AlignOptions,
    #[command(flatten)]
    selection: EventOptions,
    #[command(flatten)]
    within: TimeOptions,
    /// List only the last N of the selected events, 1 to 1000000
    #[arg(long, value_name = "N", conflicts_with = "follow", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    last: Option<u32>,
    /// Print the events of this session while it records, some 300 ms after they happened, until it ends or Ctrl-C
    #[arg(short, long, value_name = "SESSION", conflicts_with_all = ["directories", "align", "from", "to", "around", "statedump"])]
    follow: Option<String>,
    /// Format of the times in the list
    #[arg(long, value_enum, default_value_t = TimeStyle::Clock)]
    time: TimeStyle,
    /// Print JSON, one object in each line; the first line has the version of the format
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimeStyle {
    /// Local time of day
    Clock,
    /// Local date and time
    Date,
    /// Seconds since 1970-01-01 00:00 UTC
    Seconds,
    /// Seconds since the recording began
    Since,
}

impl TimeStyle {
    pub(crate) fn format(self, begin: Time) -> TimeFormat {
        let offset_s = local_offset(begin);
        match self {
            Self::Clock => TimeFormat::Clock { offset_s },
            Self::Date => TimeFormat::Date { offset_s },
            Self::Seconds => TimeFormat::Seconds,
            Self::Since => TimeFormat::Since(begin),
        }
    }
}

/// Returns the offset of local time from UTC at that time, in seconds.
fn local_offset(at: Time) -> i32 {
    let zone = jiff::tz::TimeZone::system();
    jiff::Timestamp::from_nanosecond(at.0.into()).map_or(0, |at| zone.to_offset(at).seconds())
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let rules = options.selection.rules()?;
    if let Some(name) = &options.follow {
        return follow(name, options, &rules);
    }
    let mut recording = Recording::open_all(&options.directories, &options.align)?;
    rules.check(&recording.classes).map_err(|failure| recording.failing(failure))?;
    let format = if options.json {
        ListingFormat::Json
    } else {
        ListingFormat::Text { time: options.time.format(recording.span().0), color: has_colors() }
    };
    recording.limit(&options.within).map_err(|failure| recording.failing(failure))?;
    rules.condition().into_iter().for_each(|condition| recording.limit_to(condition));
    let mut sieve = rules.filter_of(&recording.classes, recording.facts.clone());
    if list(&mut recording, format, &mut sieve, options)? {
        sieve.report();
    }
    recording.close()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the selected events, or the last ones. Returns false if the reader closed the output early.
fn list(
    recording: &mut Recording,
    format: ListingFormat,
    sieve: &mut EventFilter,
    options: &Options,
) -> Result<bool, Failure> {
    let what = (!is_terminal() || options.last.is_some()).then_some("listing");
    // Programs that record functions have their files in their traces, so no event is needed for names.
    let names = AddressNames::new(recording);
    let listing = Listing::new(&recording.classes, format).naming(names.namer());
    let mut listing = listing.of_several(&recording.host_labels(), recording.clocks());
    let mut last = options.last.map(|most| LastLines::new(most as usize));
    let mut out = output(options);
    let mut read_on = is_read(listing.head(&mut out))?;
    let classes = &recording.classes;
    let mut demand = Demand::for_fields_of(classes, |class| sieve.chooses(class));
    if let Some(rejects) = sieve.rejects() {
        demand = demand.without(classes, Arc::new(rejects));
    }
    recording.pass_of(&demand, what, |item| {
        if sieve.passes(item) {
            read_on = is_read(match &mut last {
                None => out.add(|lines| listing.append(item, lines)),
                Some(last) => last.push(matches!(item, Item::Event(_)), |line| listing.write(item, line)),
            })?;
        }
        Ok(read_on)
    })?;
    if let Some(last) = last {
        let lacks_losses = last.write(&mut out);
        if lacks_losses.as_ref().is_ok_and(|lacks| *lacks) {
            message!("sordino: earlier losses between these events are not listed: there are too many");
        }
        read_on = is_read(lacks_losses.map(drop))?;
    }
    Ok(read_on && is_read(out.flush())?)
}

fn follow(name: &str, options: &Options, rules: &EventRules) -> Result<ExitCode, Failure> {
    let color = has_colors();
    let mut begin = None;
    // The format is chosen once for each piece, while that is there to be handed on.
    let format = |first: Time| {
        hand_on_in(name);
        match options.json {
            true => ListingFormat::Json,
            false => ListingFormat::Text { time: options.time.format(*begin.get_or_insert(first)), color },
        }
    };
    session::follow(name, format, rules, &mut output(options))?;
    Ok(ExitCode::SUCCESS)
}

fn output(options: &Options) -> ListingOutput {
    if options.json { ListingOutput::of_json() } else { ListingOutput::of_lines() }
}
