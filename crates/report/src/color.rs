//! The codes that colour a terminal's text.

/// Names of the programs' events.
pub(crate) const USER: &str = "\x1b[32m";
/// Names of the kernel's events.
pub(crate) const KERNEL: &str = "\x1b[36m";
/// Headlines: bold.
pub(crate) const HEADLINE: &str = "\x1b[1m";
/// Losses, and what a trace lacks.
pub(crate) const WARNING: &str = "\x1b[33m";
/// Inversions of priorities.
pub(crate) const ALARM: &str = "\x1b[31m";
/// Ends each of them.
pub(crate) const OFF: &str = "\x1b[0m";

/// All escape sequences that listings and findings hold with colours on. Whatever else begins with ESC came from outside.
pub const COLORS: [&str; 6] = [USER, KERNEL, HEADLINE, WARNING, ALARM, OFF];
