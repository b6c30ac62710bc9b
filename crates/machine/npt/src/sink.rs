//! The tracer whose tracepoint the loop hits.

use sordino_peers::provider::ProviderKind;
use std::path::PathBuf;
use std::str::FromStr;

/// The tracer whose tracepoint the loop hits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sink {
    /// The tracepoint `npt:loop` of sordino.
    Sordino,
    /// The file `trace_marker` of the kernel's tracer, or another file.
    TraceMarker(Option<PathBuf>),
    /// Another tracer's tracepoint, in this library, or in one that is built if none is given.
    Provider(ProviderKind, Option<PathBuf>),
}

impl FromStr for Sink {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "sordino" => Ok(Sink::Sordino),
            None if text == "trace_marker" => Ok(Sink::TraceMarker(None)),
            None if text == "lttng" => Ok(Sink::Provider(ProviderKind::Lttng, None)),
            None if text == "usdt" => Ok(Sink::Provider(ProviderKind::Usdt, None)),
            Some(("trace_marker", file)) if !file.is_empty() => Ok(Sink::TraceMarker(Some(file.into()))),
            // --compare builds the library once and passes its path.
            Some(("lttng", file)) if !file.is_empty() => {
                Ok(Sink::Provider(ProviderKind::Lttng, Some(file.into())))
            }
            Some(("usdt", file)) if !file.is_empty() => {
                Ok(Sink::Provider(ProviderKind::Usdt, Some(file.into())))
            }
            _ => Err("expected sordino, lttng, usdt, trace_marker or trace_marker=FILE".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinks_are_read_or_refused_with_what_there_is() {
        assert_eq!("trace_marker=/x".parse(), Ok(Sink::TraceMarker(Some("/x".into()))));
        assert!("trace_marker=".parse::<Sink>().is_err() && "dtrace".parse::<Sink>().is_err());
    }
}
