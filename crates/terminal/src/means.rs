//! The colours, characters and columns that an output can show.

use clap::ColorChoice;
use std::env;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::sync::OnceLock;

/// The value of `--color`, once it is set.
static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Sets the value of `--color`, once.
pub fn choose_color(choice: ColorChoice) {
    let _ = CHOICE.set(choice);
}

/// Returns true if the stream may have colours: as `--color` sets it or, by default, if it is a terminal with colours
/// and `NO_COLOR` (no-color.org) is not set.
pub(super) fn has_colors(stream: &impl IsTerminal) -> bool {
    match CHOICE.get().unwrap_or(&ColorChoice::Auto) {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            stream.is_terminal()
                && !is_set("NO_COLOR")
                && env::var_os("TERM").is_some_and(|name| name != "dumb" && !name.is_empty())
        }
    }
}

fn is_set(variable: &str) -> bool {
    env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// Returns true if output may have characters outside ASCII.
pub fn is_utf8() -> bool {
    is_utf8_locale(["LC_ALL", "LC_CTYPE", "LANG"].map(|name| env::var(name).unwrap_or_default()))
}

/// Returns true if the first variable that is set names UTF-8. If none is set, as in services and containers, the
/// locale counts as UTF-8, too: other encodings are set explicitly.
fn is_utf8_locale(variables: [String; 3]) -> bool {
    let locale =
        variables.into_iter().find(|value| !value.is_empty()).map(|value| value.to_ascii_lowercase());
    locale.is_none_or(|locale| locale.contains("utf-8") || locale.contains("utf8"))
}

/// Returns the columns of the stream: those in the variable COLUMNS, if that is a number above 0, or the terminal's.
/// `None`: lines may have any length.
pub(super) fn columns(stream: &impl AsFd) -> Option<usize> {
    let set = env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    let size = || rustix::termios::tcgetwinsize(stream).ok().map(|size| usize::from(size.ws_col));
    let is_size = |columns: &usize| *columns > 0;
    set.filter(is_size).or_else(|| size().filter(is_size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_names_the_characters() {
        let is_utf8 =
            |all, characters, language| is_utf8_locale([all, characters, language].map(String::from));
        assert!(is_utf8("", "", "") && is_utf8("", "", "de_DE.UTF-8") && is_utf8("", "C.utf8", "C"));
        assert!(is_utf8("", "", "ca_ES.UTF-8@valencia"));
        assert!(!is_utf8("", "", "C") && !is_utf8("", "POSIX", "C.UTF-8") && !is_utf8("", "", "de_DE"));
        assert!(!is_utf8("C", "C.UTF-8", "C.UTF-8") && !is_utf8("", "", "de_DE.ISO-8859-1"));
    }
}
