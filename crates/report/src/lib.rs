//! Findings to text and JSON.
#![forbid(unsafe_code)]
