//! The text of spans of time, and of shares of them.

use crate::styled_text::TIE;
use sordino_event::Nanos;

/// Returns the span as it is printed, without a line break before its unit.
pub fn span(span: Nanos) -> String {
    span.to_string().replace(' ', &TIE.to_string())
}

/// Returns `part` of `whole` in per cent, with one decimal; `<0.1%` if it would be rounded to 0. Empty if `part` is no
/// part of `whole`.
pub(crate) fn share(part: Nanos, whole: Nanos) -> String {
    let (part, whole) = (i128::from(part.0), i128::from(whole.0));
    if whole <= 0 || part < 0 || part > whole {
        return String::new();
    }
    match (part * 2000 + whole) / (whole * 2) {
        0 if part > 0 => "<0.1%".into(),
        tenths => format!("{}.{}%", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_and_never_hide_something() {
        let cases = [
            (0, 7, "0.0%"),
            (7, 7, "100.0%"),
            (1, 3, "33.3%"),
            (2, 3, "66.7%"),
            (1, 10_000, "<0.1%"),
            (1, 2000, "0.1%"),
            (i64::MAX, i64::MAX, "100.0%"),
            (1, 0, ""),
            (8, 7, ""),
            (-1, 7, ""),
        ];
        for (part, whole, text) in cases {
            assert_eq!(share(Nanos(part), Nanos(whole)), text, "{part} of {whole}");
        }
    }
}
