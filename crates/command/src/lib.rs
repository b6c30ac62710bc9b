//! Common parts of the commands of `sordino`: their failures, and their services for the user besides the task itself.
//!
//! | module | contents |
//! |---|---|
//! | `failure` | failures: exit status and message |
//! | `output` | a file that a command writes for its user |
//! | `picture` | a picture that a command writes to a file |
//! | `privilege` | the user of the process, and the user for whom it works |
//! | `progress` | a command's progress, on a terminal |
//! | `recording` | a recording that a command reads, with progress on the terminal |
//! | `signals` | signals as descriptors that become readable |
//! | `words` | the words of a command line: quoting for a shell, and the option `--color` |
#![forbid(unsafe_code)]

pub mod failure;
pub mod output;
pub mod picture;
pub mod privilege;
pub mod progress;
pub mod recording;
pub mod signals;
pub mod words;
