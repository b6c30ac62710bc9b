//! Text with lines of a limited width: prose and tables.

use crate::color::{ALARM, HEADLINE, OFF, WARNING};
use crate::value::bare;
use unicode_width::UnicodeWidthStr;

/// A space at which a line is broken only if no other one will do. The printed text has ordinary spaces instead.
pub const TIE: char = '\u{a0}';

/// The maximum number of columns of a name.
const NAME_MAX: usize = 32;
/// The minimum number of columns for a row's text beside the numbers; with less room, the text has lines of its own.
const TEXT_LEAST: usize = 28;
/// The indent of these lines, relative to the numbers.
const BELOW: usize = 4;
/// The maximum number of columns of a number in a table; no plausible number has more.
const CELL_MAX: usize = 12;

/// The emphasis of a line, if colours are enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Headline,
    Warning,
    Alarm,
}

/// A text that grows line by line.
#[derive(Debug)]
pub(crate) struct StyledText {
    text: String,
    width: usize,
    color: bool,
}

/// A line of a table.
#[derive(Debug)]
pub(crate) struct TableLine<const N: usize> {
    /// The numbers of the row.
    pub(crate) cells: [String; N],
    /// The text that the numbers belong to.
    pub(crate) text: String,
    /// Details, in lines of their own.
    pub(crate) below: Vec<String>,
}

impl Style {
    fn codes(self) -> (&'static str, &'static str) {
        match self {
            Self::Plain => ("", ""),
            Self::Headline => (HEADLINE, OFF),
            Self::Warning => (WARNING, OFF),
            Self::Alarm => (ALARM, OFF),
        }
    }
}

impl StyledText {
    pub(crate) fn new(width: usize, color: bool) -> Self {
        Self { text: String::new(), width, color }
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }

    /// Writes an empty line.
    pub(crate) fn gap(&mut self) {
        self.text.push('\n');
    }

    /// Writes `lead` and `text`, broken between words; continuations are indented by the width of `lead`.
    pub(crate) fn prose(&mut self, style: Style, lead: &str, text: &str) {
        let indent = lead.width();
        for (index, line) in wrap(text, self.width.saturating_sub(indent)).iter().enumerate() {
            let lead = if index == 0 { lead } else { "" };
            self.line(style, &format!("{lead:indent$}{line}"));
        }
    }

    /// Writes rows under `head`, which has the columns' names and minimum widths. `last` is the name of the rows' text,
    /// which stands below the numbers where the page is too narrow for both.
    pub(crate) fn table<const N: usize>(
        &mut self,
        indent: usize,
        head: [(&str, usize); N],
        last: &str,
        rows: &[TableLine<N>],
    ) {
        let mut widths = head.map(|(name, least)| least.max(name.len()));
        let shown: Vec<[String; N]> =
            rows.iter().map(|row| row.cells.each_ref().map(|cell| clip(cell, CELL_MAX))).collect();
        for cells in &shown {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = cell.width().max(*width);
            }
        }
        let line = |cells: &[String; N]| {
            let mut line = " ".repeat(indent);
            for (cell, width) in cells.iter().zip(widths) {
                line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.width())));
                line += cell;
                line += "  ";
            }
            line
        };
        let head = line(&head.map(|(name, _)| name.to_owned()));
        let is_narrow = head.width() + TEXT_LEAST > self.width;
        let text_at = if is_narrow { indent + BELOW } else { head.width() };
        self.row(&head, if is_narrow { "" } else { last }, text_at);
        for (row, cells) in rows.iter().zip(&shown) {
            self.row(&line(cells), &row.text, text_at);
            for text in &row.below {
                self.prose(Style::Plain, &" ".repeat(text_at + 2), text);
            }
        }
    }

    /// Writes the numbers of a row and its text: beside the numbers if the text begins where they end, or else below.
    fn row(&mut self, numbers: &str, text: &str, text_at: usize) {
        if text_at == numbers.width() {
            return self.prose(Style::Plain, numbers, text);
        }
        self.line(Style::Plain, numbers);
        if !text.is_empty() {
            self.prose(Style::Plain, &" ".repeat(text_at), text);
        }
    }

    fn line(&mut self, style: Style, line: &str) {
        let (on, off) = if self.color { style.codes() } else { Style::Plain.codes() };
        self.text += on;
        self.text += &line.trim_end_matches([' ', TIE]).replace(TIE, " ");
        self.text += off;
        self.text.push('\n');
    }
}

/// Returns the number of items to show of `count`: at most `max`, or one more if only one would be left out.
pub(crate) fn shown(count: usize, max: usize) -> usize {
    if count == max + 1 { count } else { count.min(max) }
}

/// Returns a name from a trace in printable form, clipped.
pub(crate) fn name(text: &str) -> String {
    let mut shown = Vec::new();
    bare(text.as_bytes(), &mut shown);
    clip(&String::from_utf8_lossy(&shown), NAME_MAX)
}

/// Returns the text, or its begin and `…` if it is wider than `width`.
fn clip(text: &str, width: usize) -> String {
    // The number of characters is limited, too: characters without width could go on for ever.
    let mut short: String = text.chars().take(4 * width).collect();
    if short.len() == text.len() && text.width() <= width {
        return short;
    }
    while short.width() >= width.max(1) {
        short.pop();
    }
    short.push('…');
    short
}

/// Breaks the text into lines of at most `width` columns. A word that is too wide for a line is cut.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let words = text.split(' ').flat_map(|word| {
        let is_wide = word.width() > width;
        word.split(move |char| is_wide && char == TIE)
    });
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        let word = clip(word, width);
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                *line += &word;
            }
            _ => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_words_and_at_ties_only_if_it_must() {
        let text = format!("blocked for 4.90{TIE}ms in{TIE}a{TIE}lock");
        let shown = |width| wrap(&text, width).join("|").replace(TIE, "_");
        assert_eq!(shown(40), "blocked for 4.90_ms in_a_lock");
        assert_eq!(shown(16), "blocked for|4.90_ms|in_a_lock");
        assert_eq!(shown(7), "blocked|for|4.90_ms|in a|lock");
        assert_eq!(shown(3), "bl…|for|4.…|ms|in|a|lo…");
    }

    #[test]
    fn wide_characters_count_as_they_are_seen() {
        assert_eq!(clip("日本語", 6), "日本語");
        assert_eq!(clip("日本語", 5), "日本…");
        assert_eq!(clip("日本語", 4), "日…");
        assert_eq!(clip(&"e\u{301}".repeat(3), 3), "e\u{301}".repeat(3));
        assert_eq!(clip(&"\u{301}".repeat(1000), 3), format!("{}…", "\u{301}".repeat(12)));
    }

    fn table(width: usize) -> String {
        let mut page = StyledText::new(width, false);
        let row = |cell: &str, text: &str, below: &[&str]| TableLine {
            cells: [cell.into()],
            text: text.into(),
            below: below.iter().map(|text| (*text).to_owned()).collect(),
        };
        let long = "one that is too long for what is left";
        let rows = [
            row("5", "a short one", &["below it"]),
            row("123456", long, &[]),
            row("1234567890123", "x", &[]),
        ];
        page.table(1, [("n", 3)], "what", &rows);
        page.finish()
    }

    #[test]
    fn a_table_lines_up_and_its_text_hangs() {
        let lines = [
            "            n  what",
            "            5  a short one",
            "                 below it",
            "       123456  one that is too long for",
            "               what is left",
            " 12345678901…  x",
            "",
        ];
        assert_eq!(table(43), lines.join("\n"));
    }

    #[test]
    fn a_page_that_is_too_narrow_has_a_row_s_text_below_its_numbers() {
        let lines = [
            "            n",
            "            5",
            "     a short one",
            "       below it",
            "       123456",
            "     one that is too",
            "     long for what is",
            "     left",
            " 12345678901…",
            "     x",
            "",
        ];
        assert_eq!(table(22), lines.join("\n"));
    }

    #[test]
    fn colours_do_not_change_the_text() {
        let mut page = StyledText::new(80, true);
        page.prose(Style::Alarm, "  ", "inversion");
        page.prose(Style::Plain, "", "calm");
        assert_eq!(page.finish(), "\x1b[31m  inversion\x1b[0m\ncalm\n");
    }
}
