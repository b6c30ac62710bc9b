//! The words of a command line: quoting for a shell, and the option `--color`.

use clap::{ColorChoice, ValueEnum};
use sordino_event::text::printable;
use std::ffi::OsString;

/// Returns the value of `--color`, or the default if there is none or it is invalid.
pub fn color(words: &[OsString]) -> ColorChoice {
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

/// Returns words as a user types them into a shell.
pub fn typed(words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    quoted(words.iter().map(|word| &**word))
}

/// Returns words, quoted for a shell and printable.
pub fn quoted<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    // A word of a command line has no zero byte, the only one that can't be quoted.
    let text = shlex::try_join(words).unwrap_or_default();
    printable(&text).into_owned()
}

/// Returns the arguments without `--color`, which does not belong to a session's definition.
pub fn without_color(arguments: impl IntoIterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let (mut is_own, mut is_value) = (true, false);
    arguments.into_iter().filter(move |argument| {
        is_own &= argument != "--";
        let is_color = is_own && argument == "--color";
        let is_whole = is_own && argument.to_str().is_some_and(|argument| argument.starts_with("--color="));
        !std::mem::replace(&mut is_value, is_color) && !is_color && !is_whole
    })
}

/// Parses the id of a process, such as `4711`.
///
/// # Errors
/// The text is no such number; the message has the remedy.
pub fn pid(text: &str) -> Result<i32, String> {
    text.parse().ok().filter(|pid| *pid > 0).ok_or_else(|| {
        let name = quoted([text]);
        format!("expected the id of a process, which 'pidof {name}' or 'sordino list' prints")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
