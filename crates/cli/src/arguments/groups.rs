//! The commands in groups, as help and the manual page list them.
//!
//! clap lists subcommands without groups, so the list is made here and set as a template of the whole help.

use clap::Command;
use sordino_report::fit;
use std::fmt::Write as _;

/// The groups in their order, each with its commands. Hidden commands are in none.
pub(crate) const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Record",
        &[
            "record", "list", "start", "status", "snapshot", "rotate", "enable", "disable", "attach", "stop",
            "destroy", "recover",
        ],
    ),
    ("Understand", &["events", "watch", "explain", "query", "sql", "report", "peak", "view", "export"]),
    ("Verify", &["demo", "disturb", "npt", "check", "compare"]),
    ("Machine", &["shield", "grant", "revoke", "completion", "help"]),
];
/// The description of `help`, the command that clap adds.
const HELP: &str = "Print this help, or that of a command";
/// The columns of the longest name, with two spaces on either side.
const NAMES: usize = 14;

/// The description of a command in one line.
pub(crate) fn about(command: &Command, name: &str) -> String {
    if name == "help" {
        return HELP.to_owned();
    }
    let about = command.find_subcommand(name).and_then(Command::get_about);
    about.map(ToString::to_string).unwrap_or_default()
}

/// Returns the command with a help that lists its subcommands in groups, in lines of so many columns.
pub(super) fn grouped(command: Command, columns: usize) -> Command {
    let (header, literal) = (*command.get_styles().get_header(), *command.get_styles().get_literal());
    let mut template = String::from("{about-with-newline}\n{usage-heading} {usage}\n\n");
    // Writing to a string cannot fail.
    for (group, names) in GROUPS {
        let _ = writeln!(template, "{header}{group}:{header:#}");
        for name in names {
            let line = format!("  {name:<width$}{}", about(&command, name), width = NAMES - 2);
            let styled = format!("{literal}{name}{literal:#}");
            let _ = writeln!(template, "{}", fit(&line, columns).replacen(name, &styled, 1));
        }
        template.push('\n');
    }
    let _ = write!(template, "{header}Options:{header:#}\n{{options}}{{after-help}}");
    command.help_template(template)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    /// The long help for so many columns.
    fn help(columns: usize) -> String {
        let command = Arguments::command().term_width(columns);
        grouped(command, columns).render_long_help().to_string()
    }

    #[test]
    fn each_command_that_is_shown_is_in_one_group() {
        let mut command = Arguments::command();
        command.build();
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let shown: BTreeSet<&str> = shown.map(Command::get_name).collect();
        let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), shown);
        assert_eq!(listed.len(), shown.len(), "a command is in two groups");
        for name in listed {
            let about = about(&command, name);
            assert!(name.len() <= NAMES - 4 && !about.is_empty(), "{name}");
            assert!(!about.contains(['{', '}', '\n']), "{name}: '{about}' is no line of a template");
        }
    }

    #[test]
    fn help_lists_the_groups_within_its_columns() {
        for columns in [60, 80, 100] {
            let help = help(columns);
            let long = help.lines().find(|line| line.chars().count() > columns);
            assert_eq!(long, None, "{columns} columns");
            let place = |text: &str| help.find(text).unwrap_or_else(|| panic!("no {text:?} in {help}"));
            let places = [
                "Usage: sordino",
                "\n\nRecord:\n  record  ",
                "\n\nUnderstand:\n  events  ",
                "\n\nOptions:\n",
            ];
            assert!(places.map(place).is_sorted(), "{help}");
            assert!(!help.contains("Commands:") && !help.contains("undo-guard"), "{help}");
        }
        let wrapped = help(60);
        assert!(wrapped.lines().any(|line| line.starts_with(&" ".repeat(NAMES)) && !line.starts_with(&" ".repeat(NAMES + 1))), "{wrapped}");
    }
}
