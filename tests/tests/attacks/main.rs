//! Attacks of an unprivileged user on a privileged recorder. Each row of the table in docs/security.md has a module
//! here that runs the attack with programs of its own in a sandbox (see [`sordino_tests::Sandbox`]).

mod dump;
mod intake;
mod machine;
mod output;
mod sandbox;
mod terminal;
