//! The Common Trace Format 1.8: read/ and write/.
#![forbid(unsafe_code)]
