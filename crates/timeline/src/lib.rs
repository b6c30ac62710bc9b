//! Many streams to one ordered super-trace.
#![forbid(unsafe_code)]
