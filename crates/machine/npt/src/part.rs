//! A part of the work of each loop, as it is typed.

use crate::Body;
use sordino_quantity::size;
use std::str::FromStr;

/// A part of the work of each loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopPart {
    /// A hit of the tracepoint.
    Tracepoint,
    /// Other work than that.
    Other(Body),
}

/// Default size that `memory` writes to: more than a first-level cache holds, less than a second-level one. Bytes.
const SWEEP: usize = 128 << 10;
/// Largest size that `memory` may write to: larger ones would leave no memory for others, or take too long for one
/// loop. Bytes.
const LARGEST_SWEEP: u64 = 1 << 30;

impl FromStr for LoopPart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "empty" => Ok(Self::Other(Body::Empty)),
            None if text == "memory" => Ok(Self::Other(Body::Memory(SWEEP))),
            None if text == "syscall" => Ok(Self::Other(Body::SystemCall)),
            None if text == "tracepoint" => Ok(Self::Tracepoint),
            Some(("memory", text)) => match size(text)? {
                size @ 1..=LARGEST_SWEEP => Ok(Self::Other(Body::Memory(size as usize))),
                _ => Err("expected a size of at least 1 byte and at most 1G".to_owned()),
            },
            _ => Err("expected empty, memory, memory=SIZE, syscall or tracepoint".to_owned()),
        }
    }
}

/// Parses a number of hits per second.
///
/// # Errors
/// The text is no number greater than 0.
pub fn frequency(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(frequency) if frequency.is_finite() && frequency > 0.0 => Ok(frequency),
        _ => Err("expected a number of hits per second greater than 0, such as 1000 or 2.5e6".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_read_or_refused_with_what_there_is() {
        assert_eq!("memory=64K".parse(), Ok(LoopPart::Other(Body::Memory(65_536))));
        assert_eq!("empty".parse(), Ok(LoopPart::Other(Body::Empty)));
        for bad in ["", "memory=", "memory=0", "memory=2G", "syscall=3", "memory=-1"] {
            assert!(bad.parse::<LoopPart>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_frequency_is_more_than_nothing() {
        assert_eq!(frequency("2.5e6"), Ok(2.5e6));
        for bad in ["0", "-1", "inf", "nan", "5k", ""] {
            assert!(frequency(bad).is_err(), "{bad}");
        }
    }
}
