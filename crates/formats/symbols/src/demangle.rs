//! Names of C++ and Rust as in their sources.

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};
use std::fmt;

/// The maximum depth of a C++ name. The name is untrusted, and the parser recurses to this depth.
const DEPTH_MAX: u32 = 96;
/// The maximum length of a demangled name, in bytes. A short C++ symbol can expand to a huge name.
const LENGTH_MAX: usize = 1 << 14;

/// Returns the name in the source of a symbol: that of C++ with its parameters' types, that of Rust without its hash;
/// any other symbol is itself.
pub fn demangled(symbol: &str) -> String {
    let known = if symbol.starts_with("_Z") && !is_rust(symbol) { of_cpp(symbol) } else { of_rust(symbol) };
    known.unwrap_or_else(|| symbol.to_owned())
}

/// Returns the path of a Rust function from the symbol of the variable that stands for the function in the recording.
pub fn named_function(name: &str) -> Option<&str> {
    name.strip_suffix("::SORDINO_FUNCTION")
}

/// Returns true for a symbol of Rust's older scheme, which is a name of C++, too.
fn is_rust(symbol: &str) -> bool {
    rustc_demangle::try_demangle(symbol).is_ok()
}

fn of_rust(symbol: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(symbol).ok()?;
    let mut short = Short::default();
    // The alternate form leaves out the hash.
    fmt::Write::write_fmt(&mut short, format_args!("{name:#}")).ok()?;
    Some(short.0)
}

fn of_cpp(symbol: &str) -> Option<String> {
    let parsing = ParseOptions::default().recursion_limit(DEPTH_MAX);
    let name = Symbol::new_with_options(symbol, &parsing).ok()?;
    let mut short = Short::default();
    name.structured_demangle(&mut short, &DemangleOptions::new().recursion_limit(DEPTH_MAX)).ok()?;
    Some(short.0)
}

/// A name that is not longer than [`LENGTH_MAX`].
#[derive(Default)]
struct Short(String);

impl fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LENGTH_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_those_of_the_source() {
        for (symbol, name) in [
            ("solve", "solve"),
            ("_ZN6Solver4stepEi", "Solver::step(int)"),
            ("_ZZN6Solver4stepEiE4here", "Solver::step(int)::here"),
            ("_ZN5motor6Solver4step17h0123456789abcdefE", "motor::Solver::step"),
            ("_RNvNtCs1234_5motor6solver4step", "motor::solver::step"),
            ("_Znot_a_name", "_Znot_a_name"),
            ("", ""),
        ] {
            assert_eq!(demangled(symbol), name, "{symbol}");
        }
    }

    proptest! {
        #[test]
        fn any_symbol_has_a_short_name(symbol in "_(Z|R)[A-Za-z0-9_]{0,200}") {
            prop_assert!(demangled(&symbol).len() <= LENGTH_MAX);
        }
    }
}
