//! Checks and chores of the workspace: `cargo run -p xtask -- tidy`.

mod tidy;

use std::process::ExitCode;
use tidy::Tree;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let command: fn(&Tree) -> ExitCode = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::run,
        ["layout-hash"] => |tree| {
            println!("{}", tidy::contract::layout_hash(tree));
            ExitCode::SUCCESS
        },
        _ => {
            eprintln!("usage: cargo run -p xtask -- tidy | layout-hash");
            return ExitCode::from(2);
        }
    };
    match Tree::here() {
        Ok(tree) => command(&tree),
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}
