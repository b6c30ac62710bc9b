//! The machine that evaluates compiled conditions on the payloads of records.
//!
//! [`holds`] is the only part of conditions that runs in a traced program. Everything else here is shared by the
//! machine and the compiler (`sordino-filter`), so that a byte of code, and an operator, has one meaning.
//! `docs/conditions.md` describes the code.
//!
//! | module | contents |
//! |---|---|
//! | `code` | the operations as bytes |
//! | [`glob`] | patterns with `*` and `?` |
//! | `machine` | the evaluator |
//! | `number` | arithmetic and comparisons |
//! | `payload` | numbers and texts in a payload that is not trusted |
#![forbid(unsafe_code)]

mod code;
pub mod glob;
mod machine;
mod number;
mod payload;

pub use code::{JUMP, MAX_CODE, MAX_PATTERN, Op, STACK, Sole};
pub use machine::holds;
pub use number::{Number, Operator, Relation};
pub use payload::{Encoding, UP_TO_ZERO, ValueInterval};
