//! Log levels, numbered and named as in LTTng.

use std::fmt;
use std::str::FromStr;

macro_rules! levels {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        /// The importance of an event, from [`Level::Emergency`] (0) to [`Level::Debug`] (14).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "the names say it")]
        pub enum Level { $($name = $number),* }

        impl Level {
            /// Every level, most important first.
            pub const ALL: [Self; 15] = [$(Self::$name),*];

            /// Returns the level's name as a user types it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

levels! {
    Emergency = 0, "emergency";
    Alert = 1, "alert";
    Critical = 2, "critical";
    Error = 3, "error";
    Warning = 4, "warning";
    Notice = 5, "notice";
    Info = 6, "info";
    DebugSystem = 7, "debug-system";
    DebugProgram = 8, "debug-program";
    DebugProcess = 9, "debug-process";
    DebugModule = 10, "debug-module";
    DebugUnit = 11, "debug-unit";
    DebugFunction = 12, "debug-function";
    DebugLine = 13, "debug-line";
    Debug = 14, "debug";
}

impl Level {
    /// Returns the level with this number, if there is one.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns the level's number, which is part of the trace.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for a text that is no level's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLevel;

impl FromStr for Level {
    type Err = UnknownLevel;
    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        Self::ALL.into_iter().find(|level| level.name() == text).ok_or(UnknownLevel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_find_the_same_level() {
        for (number, level) in (0..).zip(Level::ALL) {
            assert_eq!(Level::from_number(number), Some(level));
            assert_eq!(level.number(), number);
            assert_eq!(level.name().parse(), Ok(level));
        }
        assert_eq!(Level::from_number(15), None);
        assert_eq!("loud".parse::<Level>(), Err(UnknownLevel));
    }
}
