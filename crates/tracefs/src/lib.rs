//! The kernel's tracer: instances, event formats, raw pages.
#![forbid(unsafe_code)]
