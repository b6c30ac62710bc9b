//! `sordino-sql`: recordings as tables, for SQL and as Parquet files.
//!
//! `sordino sql` and `sordino export --to parquet` start this program, which is separate because building DataFusion
//! takes longer than building everything else.
//!
//! | module | contents |
//! |---|---|
//! | `provider` | a recording's tables for DataFusion |
//! | `functions` | functions for durations and times |
//! | `query`, `output`, `prompt` | queries, their results, and the prompt |
//! | `export`, `dataset`, `table_file` | the export, its directory and its files |
//! | `name_chunk`, `hybrid` | columns of names in a file |
//! | `progress` | the progress of both, on a terminal |

mod dataset;
mod export;
mod functions;
mod hybrid;
mod name_chunk;
mod output;
mod progress;
mod prompt;
mod provider;
mod query;
mod table_file;

use clap::{ColorChoice, Parser, Subcommand};
use query::{Destination, Tables, is_dataset};
use sordino_command::failure::{Failure, UNUSABLE};
use sordino_command::privilege::target;
use sordino_command::recording::Recording;
use sordino_event::text::count;
use sordino_selection::SqlOptions;
use sordino_tables::RecordingSource;
use sordino_terminal::{choose_color, remark, show_usage};
use std::io::{IsTerminal, Read};
use std::process::ExitCode;
use std::sync::Arc;

// The description is that of the options.
#[derive(Debug, Parser)]
#[command(name = "sordino sql", version, args_conflicts_with_subcommands = true)]
struct SqlArguments {
    #[command(subcommand)]
    command: Option<SqlCommand>,
    #[command(flatten)]
    query: SqlOptions,
    /// Use colours: always, never, or automatically (auto): on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

#[derive(Debug, Subcommand)]
enum SqlCommand {
    Export(export::ParquetOptions),
}

/// Runs the program with the arguments of its command line.
pub fn main() -> ExitCode {
    let arguments = match SqlArguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            show_usage(&error);
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    choose_color(arguments.color);
    // A write beyond the limit of a file's size fails as on a full disk then, and does not end the process. If this
    // fails, the limit ends it, which is no reason not to begin.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let result = match &arguments.command {
        Some(SqlCommand::Export(options)) => export::run(options),
        None => query(&arguments.query),
    };
    result.unwrap_or_else(|failure| failure.report())
}

fn query(options: &SqlOptions) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let dataset = options.directory.as_deref().filter(|path| is_dataset(path));
    let tables = match dataset {
        Some(path) => {
            refuse_limits(options)?;
            runtime.block_on(Tables::of_dataset(path))?
        }
        None => {
            let rules = options.selection.rules()?;
            let mut recording = Recording::open(options.directory.as_deref())?;
            recording.limit(&options.within)?;
            Tables::of_recording(RecordingSource::new(recording.into(), rules)?)?
        }
    };
    let destination = Destination {
        format: options.format,
        file: options.output.clone(),
        may_replace: options.force,
        owner: target(None)?.map(|user| user.ids()),
    };
    let run = |sql: &str| runtime.block_on(tables.run(sql, &destination));
    match &options.query {
        Some(sql) => run(sql)?,
        None if std::io::stdin().is_terminal() => ask(run)?,
        None => {
            let mut sql = String::new();
            std::io::stdin().read_to_string(&mut sql)?;
            run(&sql)?;
        }
    }
    let findings = tables.findings();
    // A pass whose rows are not needed any more, as with LIMIT, is not waited for.
    runtime.shutdown_background();
    Ok(report(findings))
}

/// Rejects options that limit the part of a recording that is read.
fn refuse_limits(options: &SqlOptions) -> Result<(), Failure> {
    let rules = options.selection.rules()?;
    if options.within.is_given() || rules.has_statedump() || !rules.selects_all() {
        let remedy = "these options are for recordings: put the condition into the query, after WHERE";
        return Err(Failure::new(
            UNUSABLE,
            format!("--event, --where, --statedump, --from, --until, --around: {remedy}"),
        ));
    }
    Ok(())
}

/// Runs the statements that are typed at the prompt.
fn ask(run: impl Fn(&str) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut prompt = prompt::Prompt::open()?;
    while let Some(statement) = prompt.statement()? {
        if let Err(failure) = run(&statement) {
            failure.report();
        }
    }
    prompt.close();
    Ok(())
}

/// Prints the losses and the problems of reading. Returns the exit status.
fn report((problems, losses): (Vec<String>, Option<(u64, u64)>)) -> ExitCode {
    if let Some((places, records)) = losses {
        let places = count(places, "place");
        remark(&format!("records are missing in {places}, {records} at least: see the table losses"));
    }
    problems.iter().for_each(|problem| remark(problem));
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(UNUSABLE) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        SqlArguments::command().debug_assert();
        let words = ["sordino sql", "export", "trace", "--to", "parquet", "-o", "out", "--until", "1s"];
        assert!(matches!(SqlArguments::parse_from(words).command, Some(SqlCommand::Export(_))));
        let query = SqlArguments::parse_from(["sordino sql", "trace", "SELECT 1", "--to", "1s"]).query;
        assert!(query.within.is_given() && query.query.as_deref() == Some("SELECT 1"));
    }
}
