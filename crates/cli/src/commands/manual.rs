//! The commands `sordino completion` and `sordino man-page`. `make install` installs their output.

use crate::arguments::groups::{GROUPS, about};
use crate::commands::print;
use crate::{Failure, failure::UNUSABLE};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use roff::{Roff, roman};
use std::io;
use std::process::ExitCode;

/// Print the completion script for a shell
///
/// 'make install' installs the scripts where bash, zsh and fish find them.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  source <(sordino completion bash)
  sordino completion zsh > ~/.zfunc/_sordino
  sordino completion fish > ~/.config/fish/completions/sordino.fish")]
pub(crate) struct CompletionOptions {
    /// Shell for which to print the script
    shell: Shell,
}

/// Print a manual page, or the names of all pages.
#[derive(Args, Debug)]
pub(crate) struct PageOptions {
    /// Name of the page, such as sordino-shield-up
    name: Option<String>,
}

pub(crate) fn completion(options: &CompletionOptions, all: &Command) -> Result<ExitCode, Failure> {
    print(script(options.shell, all))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the completion script for a shell.
fn script(shell: Shell, all: &Command) -> Vec<u8> {
    // Hidden commands are left out, which shells would offer otherwise.
    let shown = all.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    let mut command = Command::new("sordino").version(env!("CARGO_PKG_VERSION"));
    command = command.args(all.get_arguments()).subcommands(shown);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "sordino", &mut script);
    script
}

pub(crate) fn page(options: &PageOptions, command: Command) -> Result<ExitCode, Failure> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let pages = pages(&command);
    let Some(name) = &options.name else {
        print(pages.iter().fold(String::new(), |text, (name, _)| text + name + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    };
    let page = pages.iter().find(|(page, _)| page == name);
    let (_, command) =
        page.ok_or_else(|| Failure::new(UNUSABLE, format!("there is no manual page '{name}'")))?;
    print(text_of(command)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the command and its subcommands, with the names of their pages.
fn pages(command: &Command) -> Vec<(&str, &Command)> {
    let subcommands = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    let name = command.get_display_name().unwrap_or(command.get_name());
    std::iter::once((name, command)).chain(subcommands.flat_map(pages)).collect()
}

fn text_of(command: &Command) -> io::Result<Vec<u8>> {
    let page = Man::new(command.clone()).source(concat!("sordino ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        page.render_options_section(&mut text)?;
    }
    if command.get_name() == "sordino" {
        groups_of(command).to_writer(&mut text)?;
    } else if command.get_subcommands().any(|subcommand| !subcommand.is_hide_set()) {
        page.render_subcommands_section(&mut text)?;
    }
    if let Some(examples) = command.get_after_help() {
        examples_of(&examples.to_string()).to_writer(&mut text)?;
    }
    Ok(text)
}

/// Returns the commands in the groups of help, each with the name of its page.
fn groups_of(command: &Command) -> Roff {
    let mut page = Roff::new();
    page.control("SH", ["COMMANDS"]);
    for (group, names) in GROUPS {
        page.control("SS", [group]);
        // `help` has no page: `man` is what helps there.
        for name in names.iter().filter(|name| **name != "help") {
            page.control("TP", [])
                .text([roman(format!("sordino-{name}(1)"))])
                .text([roman(about(command, name))]);
        }
    }
    page
}

/// Returns the examples of a command's help, line by line.
fn examples_of(help: &str) -> Roff {
    let mut page = Roff::new();
    page.control("SH", ["EXAMPLES"]).control("nf", []);
    let lines = help.lines().filter(|line| !matches!(*line, "Examples:" | "Example:"));
    for line in lines {
        page.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
    }
    page.control("fi", []);
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;
    use clap::{CommandFactory, ValueEnum};

    #[test]
    fn every_shell_has_a_script_that_knows_the_commands() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell, &Arguments::command())).unwrap();
            assert!(script.contains("watch") && !script.contains("undo-guard"), "{shell}");
        }
    }
}
