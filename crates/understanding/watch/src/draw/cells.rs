//! Text in cells: harmless, and cut to its columns.

use super::TerminalSupport;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use sordino_event::text::printable;
use std::fmt::Write;
use unicode_width::UnicodeWidthChar;

/// A buffer to draw into: all text reaches it through [`text`](Self::text).
pub(super) struct Canvas<'a> {
    buffer: &'a mut Buffer,
    pub(super) support: TerminalSupport,
}

/// The alignment of a text within its columns.
#[derive(Clone, Copy)]
pub(super) enum TextAlignment {
    Left,
    Right,
}

impl<'a> Canvas<'a> {
    pub(super) fn new(buffer: &'a mut Buffer, support: TerminalSupport) -> Self {
        Self { buffer, support }
    }

    /// Draws a text over a whole row of the area, padded with blanks.
    pub(super) fn line(&mut self, area: Rect, row: u16, text: &str, style: Style) {
        if row < area.height {
            let place = Rect { y: area.y + row, height: 1, ..area };
            self.buffer.set_style(place, style);
            self.text(place, text, TextAlignment::Left, style);
        }
    }

    /// Draws a text into the first row of the area.
    pub(super) fn text(&mut self, area: Rect, text: &str, side: TextAlignment, style: Style) {
        if area.is_empty() {
            return;
        }
        let (text, width) = fit(&harmless(text, self.support.is_utf8), usize::from(area.width), self.support);
        let blank = match side {
            TextAlignment::Left => 0,
            TextAlignment::Right => area.width - width as u16,
        };
        self.buffer.set_stringn(area.x + blank, area.y, text, usize::from(area.width), style);
    }
}

/// Returns the text with escapes for all characters that control a terminal or that it cannot show.
fn harmless(text: &str, is_utf8: bool) -> String {
    let text = printable(text);
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_utf8 || character.is_ascii() {
            shown.push(character);
        } else {
            character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(shown, "\\u{unit:04x}"));
        }
    }
    shown
}

/// Cuts a text to so many columns, with a mark where it goes on. Returns its width, too.
fn fit(text: &str, columns: usize, support: TerminalSupport) -> (String, usize) {
    let width = |character: char| character.width().unwrap_or(0);
    let whole: usize = text.chars().map(width).sum();
    if whole <= columns {
        return (text.to_owned(), whole);
    }
    let (mut cut, mut used) = (String::new(), 0);
    for character in text.chars() {
        if used + width(character) + 1 > columns {
            break;
        }
        used += width(character);
        cut.push(character);
    }
    cut.push(if support.is_utf8 { '\u{2026}' } else { '~' });
    (cut, used + 1)
}

/// Returns a number with three significant digits and a unit: `0.4`, `12`, `1.23k`, `4.56M`.
pub(super) fn per_second(number: f64) -> String {
    let (scaled, unit) = match number {
        _ if number < 999.5 => (number, ""),
        _ if number < 999_500.0 => (number / 1e3, "k"),
        _ if number < 999.5e6 => (number / 1e6, "M"),
        _ => (number / 1e9, "G"),
    };
    let decimals = match scaled {
        _ if scaled == scaled.trunc() && unit.is_empty() => 0,
        _ if scaled < 9.995 && !unit.is_empty() => 2,
        _ if scaled < 9.95 || (scaled < 99.95 && !unit.is_empty()) => 1,
        _ => 0,
    };
    format!("{scaled:.decimals$}{unit}")
}

/// Returns a share in per cent.
pub(super) fn share(share: f64) -> String {
    if share < 0.0995 { format!("{:.1}%", share * 100.0) } else { format!("{:.0}%", share * 100.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        let cases = [
            (0.0, "0"),
            (0.44, "0.4"),
            (12.0, "12"),
            (12.4, "12"),
            (999.4, "999"),
            (1234.0, "1.23k"),
            (10_012.0, "10.0k"),
            (999_600.0, "1.00M"),
            (4.56e9, "4.56G"),
        ];
        for (number, text) in cases {
            assert_eq!(per_second(number), text);
        }
        assert_eq!([0.0004, 0.0123, 0.37, 1.0].map(share), ["0.0%", "1.2%", "37%", "100%"]);
    }

    proptest! {
        #[test]
        fn a_text_is_harmless_and_never_wider_than_its_columns(
            text in any::<String>(), columns in 1_usize..40, is_utf8 in any::<bool>(),
        ) {
            let support = TerminalSupport { has_colors: false, is_utf8 };
            let (shown, width) = fit(&harmless(&text, is_utf8), columns, support);
            prop_assert!(width <= columns);
            prop_assert!(shown.chars().all(|c| sordino_event::text::is_printable(c) && (is_utf8 || c.is_ascii())));
        }
    }
}
