//! Attacks on a recorder with all rights, by an unprivileged user: each row of the table in docs/security.md has a
//! module here that runs the attack, with programs of our own, on a machine of its own (see
//! [`sordino_tests::Sandbox`]).

mod dump;
mod intake;
mod machine;
mod output;
mod sandbox;
mod terminal;
