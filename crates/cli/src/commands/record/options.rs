//! The options of `sordino record`.

use crate::record_options::RecordOptions;
use clap::Args;
use std::path::PathBuf;

/// Record the events of programs and of the kernel
///
/// Starts COMMAND, or records running programs (those of --pid; without COMMAND and --pid all that are linked with
/// sordino), until COMMAND ends, the duration is over, or Ctrl-C. The processes that COMMAND starts, and programs that
/// it executes, are recorded too. Kernel events need root; COMMAND then runs as the user who called sudo, unless --as
/// names another.
///
/// A program writes its events to rings in memory, one for each CPU. A ring consists of sub-buffers; the recorder
/// writes each one to disk when it is full.
///
/// The recording is a directory of traces in the Common Trace Format (CTF), which 'sordino events', 'sordino explain',
/// babeltrace2 and Trace Compass read.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sordino record -- ./my-program --its-option
  sudo sordino record --kernel rt -- ./my-program
  sudo sordino record --kernel 'sched_switch if prev_prio < 100' \\
      --cpus 1 --duration 10s
  sudo sordino record --kernel sched,irq --no-user --duration 10s
  sordino record --pid 4711 --user 'motor:*' -o trace
  sudo sordino record --overwrite --kernel sched,irq -- ./runs-for-days
  sordino record -o - -- ./motor | ssh host sordino record --from - -o trace")]
pub(crate) struct Options {
    /// Directory for the recording, new or empty; '-' writes it as a stream to standard output, for --from [default:
    /// sordino-YYYYMMDD-HHMMSS in the current directory]
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
    /// Receive the stream of another 'sordino record -o -', instead of recording: from this file or, with '-', from
    /// standard input, into the directory of --output
    #[arg(long, value_name = "STREAM", conflicts_with_all = ["command", "pid", "kernel", "user", "no_user", "overwrite", "duration"])]
    pub(super) from: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) what: RecordOptions,
    /// Exit with status 1 if any event was lost
    #[arg(long)]
    pub(super) fail_on_loss: bool,
    /// Name of the recording, as 'sordino list' shows it under each program that it records
    #[arg(long, value_name = "NAME", default_value = "record")]
    pub(super) name: String,
    /// Print the summary as JSON on standard output
    #[arg(long)]
    pub(super) json: bool,
}
