//! A pseudo-terminal, and checks of the text that is written to it.

use crate::running::EndedProcess;
use crate::scene::Scene;
use std::process::Command;

/// Runs a shell line on a terminal of `columns` columns. Returns its output, with plain newlines in place of the
/// terminal's, and how it ended.
#[track_caller]
pub fn on_terminal(
    scene: &Scene,
    columns: usize,
    line: &str,
    change: impl FnOnce(&mut Command),
) -> EndedProcess {
    let mut command = Command::new("script");
    // The new terminal has no size of its own.
    command.args(["-qec", &format!("stty cols {columns} rows 24; {line}"), "/dev/null"]);
    command.current_dir(scene.path("")).env("TERM", "xterm").env_remove("COLUMNS").env_remove("NO_COLOR");
    command.env("LC_ALL", "C.UTF-8");
    change(&mut command);
    let mut ended = scene.run(&mut command);
    ended.output = ended.output.replace("\r\n", "\n");
    ended
}

/// Returns true if the text has an escape sequence that sets a colour.
pub fn has_colors(text: &str) -> bool {
    text.split("\x1b[")
        .skip(1)
        .any(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m'))
}

/// Returns the text's lines without escape sequences. A line that is drawn over counts as a line.
pub fn plain_lines(text: &str) -> Vec<String> {
    let mut parts = text.split("\x1b[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic()).map_or(part.len(), |end| end + 1);
        plain += &part[end..];
    }
    plain.split(['\n', '\r']).map(str::to_owned).collect()
}

/// Asserts that no line has more than `columns` columns, unless it is a single word, such as a long path.
#[track_caller]
pub fn assert_fits(text: &str, columns: usize, what: &str) {
    for line in plain_lines(text).iter().filter(|line| line.trim().contains(' ')) {
        assert!(line.chars().count() <= columns, "{what}: {} columns: {line}", line.chars().count());
    }
}

/// Returns the names of the commands that a command's help lists, in groups or not; without `help`.
pub fn commands_in(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| !line.starts_with("Usage:"));
    let lines = lines.take_while(|line| *line != "Options:").filter_map(|line| line.strip_prefix("  "));
    let rows = lines.filter(|row| row.starts_with(|c: char| c.is_ascii_lowercase()));
    rows.filter_map(|row| row.split_whitespace().next()).filter(|name| *name != "help").collect()
}

/// Nouns that sordino's outputs count.
const COUNTED: &[&str] = &[
    "chunks",
    "events",
    "gaps",
    "hits",
    "intervals",
    "lines",
    "loops",
    "losses",
    "notes",
    "processes",
    "programs",
    "records",
    "recordings",
    "rounds",
    "settings",
    "snapshots",
    "steps",
    "sub-buffers",
    "threads",
    "tracepoints",
];

/// Asserts that no plural noun follows the number 1.
#[track_caller]
pub fn assert_numbers_agree(text: &str) {
    let pairs = text.lines().flat_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.windows(2).map(|pair| [pair[0], pair[1]]).collect::<Vec<_>>()
    });
    for pair in pairs {
        let noun = pair[1].trim_end_matches([',', ';', '.', ':', ')']);
        assert!(
            pair[0].trim_start_matches('(') != "1" || !COUNTED.contains(&noun),
            "{} {}: {text}",
            pair[0],
            pair[1]
        );
    }
}
