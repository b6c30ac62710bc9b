//! Checks and chores of the workspace: `cargo run -p xtask -- tidy`.

mod tidy;

use std::process::ExitCode;
use tidy::Tree;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match Tree::here().and_then(|tree| run(&tree, &words)) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}

/// Carries out a command.
fn run(tree: &Tree, words: &[&str]) -> Result<ExitCode, String> {
    match *words {
        ["tidy"] => return Ok(tidy::run(tree)),
        ["ratchet"] => tidy::lower(tree)?,
        ["refill"] => tidy::refill(tree)?,
        ["list"] => tidy::list(tree, None, None),
        ["list", measure] => tidy::list(tree, Some(measure), None),
        ["list", measure, group] => tidy::list(tree, Some(measure), Some(group)),
        ["layout-hash"] => println!("{}", tidy::contract::layout_hash(tree)),
        _ => {
            return Err(
                "usage: cargo run -p xtask -- tidy | ratchet | refill | list [CHECK [GROUP]] | layout-hash"
                    .to_owned(),
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}
