//! Checks and chores of the workspace: `cargo run -p xtask -- tidy`.

mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::run(),
        ["layout-hash"] => {
            println!("{}", tidy::contract::layout_hash());
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("usage: cargo run -p xtask -- tidy | layout-hash");
            ExitCode::from(2)
        }
    }
}
