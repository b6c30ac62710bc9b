//! The escape sequences that colour a terminal's text.

/// The colour of names of the programs' events.
pub(crate) const USER: &str = "\x1b[32m";
/// The colour of names of the kernel's events.
pub(crate) const KERNEL: &str = "\x1b[36m";
/// The bold type of headlines.
pub(crate) const HEADLINE: &str = "\x1b[1m";
/// The colour of losses and of gaps in a trace.
pub(crate) const WARNING: &str = "\x1b[33m";
/// The colour of priority inversions.
pub(crate) const ALARM: &str = "\x1b[31m";
/// The end of a colour.
pub(crate) const OFF: &str = "\x1b[0m";

/// All escape sequences that listings and findings contain with colours on. Any other text that begins with ESC came
/// from outside.
pub const COLORS: [&str; 6] = [USER, KERNEL, HEADLINE, WARNING, ALARM, OFF];
