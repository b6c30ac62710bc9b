//! Hints on fields from an event's print format.
//!
//! A format ends with `print fmt:`, a C format string and its arguments, which are C expressions. An expression that
//! mentions only one field is a hint on it: a field printed with `%x` is hexadecimal, and the values of one inside
//! `__print_symbolic` or `__print_flags` have names. An unknown expression is no hint.

use sordino_event::{MAX_NAME, Range};

/// Properties of fields beyond their types.
#[derive(Debug, Default)]
pub(crate) struct Hints<'a> {
    /// Fields printed as hexadecimal numbers or addresses.
    hexadecimal: Vec<&'a str>,
    /// Fields printed as text.
    text: Vec<&'a str>,
    /// Dynamic arrays whose content is printed as numbers.
    numbers: Vec<&'a str>,
    /// Fields with the labels of their values.
    labels: Vec<(&'a str, Vec<Range>)>,
}

impl<'a> Hints<'a> {
    /// Parses `print`, the text behind `print fmt: `.
    pub(crate) fn of(print: &'a str) -> Self {
        let mut hints = Self::default();
        let mut parts = split(print);
        let format = parts.next().unwrap_or_default();
        for (conversion, argument) in conversions(format).zip(parts) {
            let Some(field) = only_field(argument) else { continue };
            match conversion {
                b'x' | b'X' | b'p' => hints.hexadecimal.push(field),
                b's' if argument.strip_prefix(FIELD) == Some(field) => hints.text.push(field),
                b's' => hints.labels.extend(labels(argument)),
                _ => {}
            }
        }
        let arrays = print.split("__get_dynamic_array(").skip(1);
        hints.numbers.extend(arrays.filter_map(|rest| rest.split(')').next()));
        hints
    }

    pub(crate) fn is_hexadecimal(&self, field: &str) -> bool {
        self.hexadecimal.contains(&field)
    }

    pub(crate) fn is_text(&self, field: &str) -> bool {
        self.text.contains(&field)
    }

    pub(crate) fn is_numbers(&self, field: &str) -> bool {
        self.numbers.contains(&field)
    }

    pub(crate) fn labels(&self, field: &str) -> &[Range] {
        self.labels.iter().find(|(name, _)| *name == field).map_or(&[], |(_, ranges)| ranges)
    }
}

/// C expression for a field of the record, before the field's name.
const FIELD: &str = "REC->";

/// Splits at commas outside of strings, parentheses and braces.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let (mut depth, mut quoted, mut escaped) = (0u32, false, false);
    text.split(move |c| {
        match (quoted, c) {
            (true, _) if escaped => escaped = false,
            (true, '\\') => escaped = true,
            (_, '"') => quoted = !quoted,
            (false, '(' | '{' | '[') => depth += 1,
            (false, ')' | '}' | ']') => depth = depth.saturating_sub(1),
            (false, ',') => return depth == 0,
            _ => {}
        }
        false
    })
    .map(str::trim)
}

/// Returns the conversions of a C format string, one letter for each argument.
fn conversions(format: &str) -> impl Iterator<Item = u8> {
    let mut bytes = format.bytes();
    let mut inside = false;
    std::iter::from_fn(move || {
        loop {
            let byte = bytes.next()?;
            match byte {
                b'%' => inside = !inside,
                // A width or precision that is a separate argument.
                b'*' if inside => return Some(byte),
                b'a'..=b'z' | b'A'..=b'Z' if inside && !b"hlLqjzt".contains(&byte) => {
                    inside = false;
                    return Some(byte);
                }
                _ => {}
            }
        }
    })
}

/// Returns the field that an expression mentions, if it mentions exactly one.
fn only_field(expression: &str) -> Option<&str> {
    let mut fields = expression.split(FIELD).skip(1).map(identifier);
    let first = fields.next()?;
    fields.all(|field| field == first).then_some(first)
}

fn identifier(text: &str) -> &str {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// Parses the field and its labels in `__print_symbolic(FIELD, { 0, "HI" }, ...)`, or in `__print_flags`, which has a
/// delimiter. A masked field keeps its values; a shifted one has no labels.
fn labels(expression: &str) -> Option<(&str, Vec<Range>)> {
    let call = ["__print_symbolic(", "__print_flags("].iter().find_map(|call| expression.split_once(call))?.1;
    let mut arguments = split(call);
    let value = arguments.next()?.trim_start_matches(['(', ' ']).strip_prefix(FIELD)?;
    let field = identifier(value);
    let operator = value[field.len()..].trim_start_matches([')', ' ']);
    if !(operator.is_empty() || operator.starts_with('&')) {
        return None;
    }
    let mut ranges: Vec<Range> = Vec::new();
    for (value, label) in arguments.filter_map(label) {
        if !ranges.iter().any(|range| range.low == value) {
            ranges.push(Range { label: label.to_owned(), low: value, high: value });
        }
    }
    (!ranges.is_empty()).then_some((field, ranges))
}

/// Parses `{ 0x10, "label" }`, whose value is a literal.
fn label(pair: &str) -> Option<(i64, &str)> {
    let (value, label) = pair.strip_prefix('{')?.split_once(',')?;
    let label = label.trim_start().strip_prefix('"')?.split('"').next()?;
    let named = !label.is_empty() && label.len() <= MAX_NAME;
    if named { Some((literal(value)?, label)) } else { None }
}

/// Parses an integer literal in C, or one that is shifted left by another.
fn literal(text: &str) -> Option<i64> {
    let text = text.trim().trim_start_matches('(').trim_end_matches(')').trim();
    if let Some((one, shift)) = text.split_once("<<") {
        let factor = 1i64.checked_shl(literal(shift)?.try_into().ok()?).filter(|factor| *factor > 0)?;
        return literal(one)?.checked_mul(factor);
    }
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let digits = digits.trim_end_matches(['u', 'U', 'l', 'L']);
    let value = match digits.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => digits.parse::<i64>(),
    };
    let value = value.ok().filter(|value| *value >= 0)?;
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(hints: &Hints<'_>, field: &str) -> Vec<(i64, String)> {
        hints.labels(field).iter().map(|range| (range.low, range.label.clone())).collect()
    }

    #[test]
    fn arguments_are_split_only_outside_of_everything() {
        let parts: Vec<_> = split(r#""a, \", b" "c", f(1, 2), { 0, "x" }, g[a, b]"#).collect();
        assert_eq!(parts, [r#""a, \", b" "c""#, "f(1, 2)", r#"{ 0, "x" }"#, "g[a, b]"]);
        assert_eq!(split("a)), b").collect::<Vec<_>>(), ["a))", "b"]);
    }

    #[test]
    fn each_conversion_is_found_once() {
        let all: Vec<u8> = conversions("a=%d 100%% b=%-5.3llx %*pbl %pS %c").collect();
        assert_eq!(all, b"dx*ppc");
        assert_eq!(conversions("%").count(), 0);
    }

    #[test]
    fn hexadecimal_is_what_is_printed_so() {
        let hints = Hints::of(r#""%d %lx %p %08x", REC->a, (long)REC->b, (void *)(REC->c), REC->d + REC->e"#);
        let found = ["a", "b", "c", "d", "e"].map(|field| hints.is_hexadecimal(field));
        assert_eq!(found, [false, true, true, false, false]);
    }

    #[test]
    fn symbols_and_flags_label_values() {
        let print = r#""%s %s %s", __print_symbolic(REC->vec, { 0, "HI" }, { 1UL, "TIMER" }, { -1, "X" }),
            (REC->s & 7) ? __print_flags(REC->s & 7, "|", { 0x1, "S" }, { (1 << 4), "D" }, {0, ((void *)0)}) : "R",
            __print_symbolic((REC->shifted >> 2), { 1, "no" })"#;
        let hints = Hints::of(print);
        let label = |value, label: &str| (value, label.to_owned());
        assert_eq!(pairs(&hints, "vec"), [label(0, "HI"), label(1, "TIMER"), label(-1, "X")]);
        assert_eq!(pairs(&hints, "s"), [label(1, "S"), label(16, "D")]);
        assert_eq!(pairs(&hints, "shifted"), []);
    }

    #[test]
    fn labels_of_anything_but_literals_are_left_out() {
        let hints =
            Hints::of(r#""%s", __print_symbolic(REC->a, { MODE, "M" }, { 2, "" }, { 3, "T" }, { 3, "U" })"#);
        assert_eq!(pairs(&hints, "a"), [(3, "T".to_owned())]);
        for value in ["", "-", "0x", "1 << 64", "1 << -1", "99999999999999999999", "--1", "1 << 63", "<<"] {
            assert_eq!(literal(value), None, "{value}");
        }
        assert_eq!(literal("1 << 62"), Some(1 << 62));
    }
}
