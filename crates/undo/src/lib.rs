//! Changes to the machine that are taken back whatever happens.
#![forbid(unsafe_code)]
