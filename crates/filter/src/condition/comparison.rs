//! Inline filters: conditions of one comparison of one field, for callers that have the field's value.

use super::layout::{Layout, encoding_of};
use sordino_event::{Schema, Type};
use sordino_filter_vm::{Op, ValueInterval};

/// An inline filter: the interval in which a field's value has to lie, if that is the whole condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlineComparison {
    /// The index of the field in the tracepoint, from 0.
    pub field: u32,
    /// The least value. A negative one is stored as its two's complement with 64 bits, like the compared value.
    pub low: u64,
    /// The greatest value less the least: a value passes if `value - low`, modulo 2^64, is at most this.
    pub span: u64,
}

impl InlineComparison {
    /// Returns the inline filter that is equivalent to [`holds`](super::holds) with `code`, if there is one.
    /// [`Expression::compile`](super::Expression::compile) has to have compiled `code` for records of `schema`.
    ///
    /// ```
    /// use sordino_filter::condition::{Condition, Context, Expression, InlineComparison};
    /// use sordino_event::{Pid, catalogue};
    /// let text = "event\t1\t6\tnpt\tloop\t\t0\nfield\tu32\tcycle\nfield\ti64\toffset\nend\n";
    /// let (tracepoints, _) = catalogue::parse(text.as_bytes())?;
    /// let (schema, context) = (&tracepoints[0].1, Context { pid: Pid(4711), procname: "motor" });
    /// let Condition::Code(code) = Expression::parse("offset >= -2")?.compile(schema, &context)? else { panic!() };
    /// let span = i64::MAX as u64 + 2;
    /// assert_eq!(InlineComparison::of(&code, schema), Some(InlineComparison { field: 1, low: -2_i64 as u64, span }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(mut code: &[u8], schema: &Schema) -> Option<Self> {
        let Some(Op::Interval(interval)) = Op::read(&mut code) else { return None };
        if !code.is_empty() {
            return None;
        }
        let ValueInterval { outside, encoding, offset, low, span } = interval;
        let is_it = |(ty, at): (&Type, Option<u16>)| match ty {
            Type::Scalar(scalar) => at == Some(offset) && encoding_of(scalar).of_bytes(0).0 == encoding,
            _ => false,
        };
        let layout = Layout::of(schema);
        let types = schema.fields.iter().map(|field| &field.ty);
        let field = types.zip(layout.fixed()).position(is_it)? as u32;
        if !outside {
            return Some(Self { field, low, span });
        }
        // The complement of the interval, if there is one.
        let rest = (u64::MAX - span).checked_sub(1)?;
        Some(Self { field, low: low.wrapping_add(span).wrapping_add(1), span: rest })
    }
}
