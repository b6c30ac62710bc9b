//! Timeline to findings. Pure: no I/O, no clock, no environment.
#![forbid(unsafe_code)]
