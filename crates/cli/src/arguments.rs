//! The command line: its parsing, and its errors.

mod groups;

pub(crate) use groups::{GROUPS, about};

use crate::Failure;
use crate::commands::{
    become_user, check, compare, demo, disturb, events, explain, grant, list, manual, npt, record, recover,
    session, shield,
};
use crate::failure::UNUSABLE;
use crate::terminal::layout_columns;
use clap::builder::styling::{AnsiColor, Style, Styles};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use sordino_event::text::printable;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

/// Most columns of help, however wide the terminal is.
const MOST_COLUMNS: usize = 100;
/// Styles of help and of errors, in a terminal's basic colours.
const STYLES: Styles = Styles::plain()
    .header(Style::new().bold())
    .usage(Style::new().bold())
    .literal(Style::new().bold())
    .error(AnsiColor::Red.on_default())
    .valid(AnsiColor::Green.on_default())
    .invalid(AnsiColor::Yellow.on_default());

/// Low-latency tracing for multicore real-time Linux.
///
/// Records events of programs (static tracepoints in C, C++, Rust) and of the kernel together, on one clock, without a
/// daemon, a kernel module or a thread in the traced program; then names the cause of each latency peak.
///
/// Exit status: 0 fine; 1 the answer is "no" (loss with --fail-on-loss, a limit exceeded); 2 bad usage, or something is
/// missing; 'record' passes the command's own status on.
#[derive(Debug, Parser)]
#[command(name = "sordino", version, styles = STYLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Use colours: always, never, or automatically (auto): on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto, display_order = 998)]
    color: ColorChoice,
}

/// Returns the value of `--color`, or the default if there is none or it is invalid.
pub(crate) fn color(words: &[OsString]) -> ColorChoice {
    let mut own = words.iter().take_while(|word| *word != "--");
    let mut choice = None;
    while let Some(argument) = own.next() {
        let value = match argument.to_str() {
            Some("--color") => own.next().and_then(|value| value.to_str()),
            Some(argument) => argument.strip_prefix("--color="),
            None => None,
        };
        choice = value.and_then(|value| ColorChoice::from_str(value, false).ok()).or(choice);
    }
    choice.unwrap_or_default()
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Record(record::Options),
    Start(session::StartOptions),
    Status(session::StatusOptions),
    Snapshot(session::SnapshotOptions),
    Rotate(session::RotateOptions),
    /// Have a session record more tracepoints
    Enable(session::EventsOptions),
    /// Have a session record fewer tracepoints
    Disable(session::EventsOptions),
    Attach(session::AttachOptions),
    Stop(session::StopOptions),
    Destroy(session::DestroyOptions),
    List(list::Options),
    Events(events::Options),
    Explain(explain::Options),
    Npt(npt::Options),
    Shield(shield::Options),
    Check(check::Options),
    Compare(compare::Options),
    Grant(grant::GrantOptions),
    Revoke(grant::RevokeOptions),
    Recover(recover::Options),
    Disturb(disturb::Options),
    Demo(demo::Options),
    Completion(manual::CompletionOptions),
    #[command(hide = true)]
    ManPage(manual::PageOptions),
    #[command(hide = true)]
    SessionRecorder(session::StartOptions),
    #[command(hide = true)]
    DemoLoad(demo::LoadOptions),
    /// Undoes the changes of its parent when that has ended.
    #[command(hide = true)]
    UndoGuard,
    #[command(hide = true)]
    Keep(check::KeepOptions),
    #[command(hide = true)]
    JoinShield(shield::JoinOptions),
    #[command(hide = true)]
    Become(become_user::Options),
}

/// The reason why a command line was not accepted.
#[derive(Debug)]
pub(crate) enum Misunderstood {
    /// clap's message, which may also be the requested help.
    Clap(clap::Error),
    /// A message of sordino's own.
    Failure(Failure),
}

impl Arguments {
    /// Parses a command line.
    pub(crate) fn of(words: &[OsString]) -> Result<Self, Misunderstood> {
        let columns = layout_columns().min(MOST_COLUMNS);
        let command = groups::grouped(Self::command().term_width(columns), columns);
        let matches = command.try_get_matches_from(words);
        let arguments = matches.and_then(|matches| Self::from_arg_matches(&matches));
        let arguments = arguments.map_err(|error| match with_dashes(words, &error) {
            Some(failure) => Misunderstood::Failure(failure),
            None => Misunderstood::Clap(error),
        })?;
        match arguments.lacks_command() && words.last().is_some_and(|word| word == "--") {
            true => Err(Misunderstood::Failure(nothing_behind(words))),
            false => Ok(arguments),
        }
    }

    /// Returns true if a COMMAND could be given and is not.
    fn lacks_command(&self) -> bool {
        match &self.command {
            Command::Record(options) => options.what.command.is_empty(),
            Command::Start(options) => options.what.command.is_empty(),
            _ => false,
        }
    }
}

/// Returns an error that shows the command line with a `--` in front of a stray word, if it is valid then.
fn with_dashes(words: &[OsString], error: &clap::Error) -> Option<Failure> {
    let Some(ContextValue::String(stray)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument || stray.starts_with('-') {
        return None;
    }
    let places = (2..words.len()).filter(|place| words[*place] == OsStr::new(stray));
    let mut corrected = places.map(|place| [&words[..place], &["--".into()], &words[place..]].concat());
    let corrected = corrected.find(|words| Arguments::try_parse_from(words).is_ok())?;
    let text = format!("'{}': a command follows '--': {}", printable(stray), typed(&corrected));
    Some(Failure::new(UNUSABLE, text))
}

fn nothing_behind(words: &[OsString]) -> Failure {
    let without = words.split_last().map_or(words, |(_, others)| others);
    let with = [words, &["./motor".into()]].concat();
    Failure::new(
        UNUSABLE,
        format!(
            "no command after '--': name one ({}), or leave '--' out to record every program ({})",
            typed(&with),
            typed(without)
        ),
    )
}

/// Returns words as they are typed into a shell.
fn typed(words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    quoted(words.iter().map(|word| &**word))
}

/// Returns words, quoted for a shell and printable.
pub(crate) fn quoted<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    // A word of a command line has no zero byte, the only one that can't be quoted.
    let text = shlex::try_join(words).unwrap_or_default();
    printable(&text).into_owned()
}

/// Returns the arguments without `--color`, which does not belong to a session's definition.
pub(crate) fn without_color(arguments: impl IntoIterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let (mut is_own, mut is_value) = (true, false);
    arguments.into_iter().filter(move |argument| {
        is_own &= argument != "--";
        let is_color = is_own && argument == "--color";
        let is_whole = is_own && argument.to_str().is_some_and(|argument| argument.starts_with("--color="));
        !std::mem::replace(&mut is_value, is_color) && !is_color && !is_whole
    })
}

/// Parses a duration such as `200us`, `1.5s` or `2min`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let fraction = text.find(|c: char| !c.is_ascii_digit() && c != '.').map(|end| text.split_at(end));
    if let Some((number, unit)) = fraction.filter(|(number, _)| number.contains('.')) {
        let number: f64 = number.parse().map_err(|_| format!("'{number}' is no number"))?;
        let one = humantime::parse_duration(&format!("1{unit}")).map_err(|error| error.to_string())?;
        return Duration::try_from_secs_f64(one.as_secs_f64() * number).map_err(|error| error.to_string());
    }
    humantime::parse_duration(text).map_err(|error| match error {
        humantime::DurationError::UnknownUnit { unit, .. } if unit.is_empty() => {
            format!("a time has a unit: {text}us, {text}ms, {text}s or {text}min")
        }
        error => format!("{error}; write it as 200us, 1.5s or 2min"),
    })
}

/// Parses the id of a process, such as `4711`.
pub(crate) fn pid(text: &str) -> Result<i32, String> {
    text.parse().ok().filter(|pid| *pid > 0).ok_or_else(|| {
        let name = quoted([text]);
        format!("expected the id of a process, which 'pidof {name}' or 'sordino list' prints")
    })
}

/// Parses a size such as `4096`, `64K`, `1M` or `2G`; units are powers of 1,024.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let bad = || format!("'{text}' is no size; write it as 64K, 1M or 2G");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return Err(bad()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    fn failure(words: &str) -> Option<String> {
        let words: Vec<OsString> = words.split('|').map(OsString::from).collect();
        match Arguments::of(&words) {
            Err(Misunderstood::Failure(failure)) => Some(failure.text().to_owned()),
            Ok(_) | Err(Misunderstood::Clap(_)) => None,
        }
    }

    #[test]
    fn a_command_without_dashes_is_shown_with_them() {
        for (words, corrected) in [
            ("sordino|record|./x", "sordino record -- ./x"),
            ("sordino|record|-o|./x|./x|-o|a b", "sordino record -o ./x -- ./x -o 'a b'"),
            ("sordino|record|--kernel|sched|./x|--own", "sordino record --kernel sched -- ./x --own"),
            ("sordino|start|box|--overwrite|./x", "sordino start box --overwrite -- ./x"),
            ("sordino|shield|run|./x", "sordino shield run -- ./x"),
        ] {
            let text = failure(words).expect(words);
            assert!(text.ends_with(&format!("'--': {corrected}")), "{text}");
        }
        for words in ["sordino|events|a|b", "sordino|record|--kernle|sched", "sordino|record|--|./x"] {
            assert_eq!(failure(words), None, "{words}");
        }
    }

    #[test]
    fn dashes_without_a_command_are_refused() {
        let text = failure("sordino|record|--duration|1s|--").unwrap();
        assert!(text.contains("(sordino record --duration 1s -- ./motor)"), "{text}");
        assert!(text.contains("every program (sordino record --duration 1s)"), "{text}");
        assert!(failure("sordino|start|box|--").is_some());
        assert_eq!(failure("sordino|record|--|echo|--"), None);
    }

    #[test]
    fn options_for_the_kernel_need_the_kernel() {
        for words in ["--kernel-tid|7", "--kernel-buffer|1M", "--no-user"] {
            let parse = |words: &str| Arguments::try_parse_from(words.split('|')).map(drop);
            let error = parse(&format!("sordino|record|{words}")).unwrap_err();
            assert!(error.to_string().contains("--kernel <EVENTS>"), "{error}");
            parse(&format!("sordino|record|--kernel|sched|{words}")).unwrap();
        }
        let both = ["sordino", "record", "--kernel", "sched", "--no-user", "--user", "motor"];
        assert!(Arguments::try_parse_from(both).is_err());
    }

    #[test]
    fn the_last_color_before_a_command_s_own_arguments_holds() {
        let color = |line: &str| color(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(color("sordino list"), ColorChoice::Auto);
        assert_eq!(color("sordino --color never list"), ColorChoice::Never);
        assert_eq!(color("sordino list --color=never --color always"), ColorChoice::Always);
        assert_eq!(color("sordino record -- ls --color=never"), ColorChoice::Auto);
        assert_eq!(color("sordino --color sometimes"), ColorChoice::Auto);
    }

    #[test]
    fn color_is_taken_out_of_what_describes_a_session_and_left_in_its_command() {
        let left = |line: &str| {
            let words = without_color(line.split(' ').map(OsString::from));
            words.collect::<Vec<_>>().join(" ".as_ref()).into_string().unwrap()
        };
        assert_eq!(left("motor --color never --overwrite --color=always"), "motor --overwrite");
        assert_eq!(left("motor -- ls --color always"), "motor -- ls --color always");
    }

    #[test]
    fn durations_and_sizes_are_read_as_people_write_them() {
        assert_eq!(duration("200us"), Ok(Duration::from_micros(200)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2min"), Ok(Duration::from_secs(120)));
        assert!(duration("5").is_err() && duration("x").is_err() && duration("1.5x").is_err());
        assert_eq!(
            [size("4096"), size("64K"), size("1MiB"), size("2g")],
            [Ok(4096), Ok(65_536), Ok(1 << 20), Ok(2 << 30)]
        );
        for bad in ["", "K", "-1", "1.5M", "1T", "99999999999G"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
