//! Lines, columns and tables that fit a terminal.
//!
//! ```
//! use sordino_report::{columns, fit, fold};
//! assert_eq!(fit("  note: a line that is too long\n", 20), "  note: a line that\n      is too long\n");
//! assert_eq!(fit("WARN  SMT: two threads share it\n", 20), "WARN  SMT: two\n      threads share\n      it\n");
//! assert_eq!(fold("12:00 a = 1, b = 2", 12, 4), "12:00 a = 1,\n    b = 2");
//! assert_eq!(columns(&["a (1)", "b (20)", "c (3)"], 20), "  a (1)   c (3)\n  b (20)\n");
//! ```

use crate::color::COLORS;
use crate::styled_text::TIE;
use std::ops::Range;
use unicode_width::UnicodeWidthStr;

/// The additional indent of the continuation of a line, in columns.
const HANG: usize = 4;
/// The columns between two cells, and in front of the first.
const GAP: usize = 2;

/// Breaks lines that have more than `width` columns between words. A continuation stands under the line's last cell,
/// which two spaces or more separate from the one before, or is indented. [Tied](tied) words stay together. No word is
/// cut: one that is wider than `width` has a line of its own.
pub fn fit(text: &str, width: usize) -> String {
    let fitted = text.split('\n').map(|line| fold(line, width, hang(line, width)));
    fitted.collect::<Vec<_>>().join("\n").replace(TIE, " ")
}

/// Returns the text with spaces at which [`fit`] does not break a line, for a command that is to be copied.
pub fn tied(text: &str) -> String {
    text.replace(' ', &TIE.to_string())
}

/// Breaks one line between words where it has more than `width` columns. Continuations are indented by `hang`, but by
/// no more than half of the width.
pub fn fold(line: &str, width: usize, hang: usize) -> String {
    if line.len() <= width || shown(line) <= width {
        return line.to_owned();
    }
    // Spaces at the end would be a word with a line of its own.
    let (line, hang) = (line.trim_end_matches(' '), hang.min(width / 2));
    let (mut folded, mut column, mut has_word) = (String::with_capacity(line.len() + 16), 0, false);
    let mut rest = line;
    while !rest.is_empty() {
        let word_at = rest.find(|char| char != ' ').unwrap_or(rest.len());
        let end = rest[word_at..].find(' ').map_or(rest.len(), |length| word_at + length);
        let (spaces, word) = rest[..end].split_at(word_at);
        let needed = spaces.len() + shown(word);
        if has_word && column + needed > width {
            folded.push('\n');
            folded.extend(std::iter::repeat_n(' ', hang));
            folded += word;
            column = hang + shown(word);
        } else {
            folded += &rest[..end];
            column += needed;
        }
        has_word = true;
        rest = &rest[end..];
    }
    folded
}

/// Returns the indent of a line's continuations: at its last cell if that begins in the left half of the width.
fn hang(line: &str, width: usize) -> usize {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let cell = line[indent..].rfind("  ").map(|at| shown(&line[..indent + at]) + GAP);
    cell.filter(|cell| *cell <= width / 2).unwrap_or(indent + HANG)
}

/// Returns the number of columns that the text takes, without its colours.
fn shown(text: &str) -> usize {
    let colors: usize = COLORS.iter().map(|color| text.matches(color).count() * color.width()).sum();
    text.width().saturating_sub(colors)
}

/// Arranges the cells in as many columns as fit `width`, filled from top to bottom; at least one.
pub fn columns(cells: &[impl AsRef<str>], width: usize) -> String {
    let widest = cells.iter().map(|cell| cell.as_ref().width()).max().unwrap_or(0);
    let across = (width / (widest + GAP)).max(1);
    let down = cells.len().div_ceil(across);
    let mut text = String::new();
    for row in 0..down {
        let mut line = String::new();
        for cell in cells.iter().skip(row).step_by(down).map(AsRef::as_ref) {
            line += &" ".repeat(GAP);
            line += cell;
            line.extend(std::iter::repeat_n(' ', widest - cell.width()));
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Returns a table of named rows under `head`. Columns that do not fit `width` stand below, beside the rows' names
/// again.
pub fn table(head: &[impl AsRef<str>], rows: &[(String, Vec<String>)], width: usize) -> String {
    let names = rows.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
    let cell = |cells: &[String], column: usize| cells.get(column).cloned().unwrap_or_default();
    let widest = |column: usize| rows.iter().map(|(_, cells)| cell(cells, column).width()).max().unwrap_or(0);
    let head: Vec<String> = head.iter().map(|title| title.as_ref().to_owned()).collect();
    let widths = head.iter().enumerate().map(|(column, title)| GAP + widest(column).max(title.width()));
    let widths: Vec<usize> = widths.collect();
    let line = |name: &str, columns: Range<usize>, cells: &[String]| {
        let mut line = format!("{:GAP$}{name}{:pad$}", "", "", pad = names - name.width());
        for column in columns {
            let cell = cell(cells, column);
            line.extend(std::iter::repeat_n(' ', widths[column] - cell.width()));
            line += &cell;
        }
        line.trim_end().to_owned() + "\n"
    };
    let block = |columns: Range<usize>| {
        let rows = rows.iter().map(|(name, cells)| line(name, columns.clone(), cells));
        line("", columns.clone(), &head) + &rows.collect::<String>()
    };
    blocks(&widths, GAP + names, width).into_iter().map(block).collect::<Vec<_>>().join("\n")
}

/// Returns the groups of columns with these widths that fit side by side, after `names`, in `width`.
fn blocks(widths: &[usize], names: usize, width: usize) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    let mut used = 0;
    for (column, needed) in widths.iter().enumerate() {
        match blocks.last_mut() {
            Some(block) if used + needed <= width => block.end = column + 1,
            _ => {
                blocks.push(column..column + 1);
                used = names;
            }
        }
        used += needed;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_continues_a_line_stands_under_its_last_cell_or_is_indented() {
        assert_eq!(fit("  name  one two three", 14), "  name  one\n      two\n      three");
        let cell = fit("  name  one two three", 18);
        assert_eq!(cell, "  name  one two\n        three");
        assert_eq!(fit("short\n\n  short, too\n", 80), "short\n\n  short, too\n");
    }

    #[test]
    fn commands_stay_in_one_line_and_no_word_is_cut() {
        let command = tied("sordino explain /a/long/path");
        assert_eq!(
            fit(&format!("read it with: {command}"), 20),
            "read it with:\n    sordino explain /a/long/path"
        );
        assert_eq!(fit("a 12345678901234567890 b", 10), "a\n    12345678901234567890\n    b");
    }

    #[test]
    fn spaces_at_the_end_are_no_line_and_no_indent_takes_more_than_half() {
        assert_eq!(fold("one      ", 5, 4), "one");
        assert_eq!(fold("one two     ", 6, 2), "one\n  two");
        assert_eq!(fold("a b c", 1, 4), "a\nb\nc");
        assert_eq!(fold("ab cd", 3, 4), "ab\n cd");
        assert_eq!(fold("a b", 0, 4), "a\nb");
    }

    #[test]
    fn colours_and_wide_characters_count_as_they_are_seen() {
        let line = "\x1b[32mone\x1b[0m two";
        assert_eq!(fold(line, 7, 2), line);
        assert_eq!(fold(line, 6, 2), "\x1b[32mone\x1b[0m\n  two");
        assert_eq!(fold("日本 語語", 8, 2), "日本\n  語語");
    }

    #[test]
    fn columns_are_filled_from_top_to_bottom() {
        let cells = ["a", "bb", "c", "d", "e"];
        assert_eq!(columns(&cells, 11), "  a   d\n  bb  e\n  c\n");
        assert_eq!(columns(&cells, 0), "  a\n  bb\n  c\n  d\n  e\n");
        assert_eq!(columns(&[""; 0], 80), "");
    }

    #[test]
    fn columns_of_a_table_that_have_no_room_stand_below() {
        let rows = [("one".to_owned(), ["1", "22", "333"]), ("three".to_owned(), ["4444", "", "6"])];
        let rows = rows.map(|(name, cells)| (name, cells.map(str::to_owned).to_vec()));
        let head = ["a", "b", "c"];
        let whole = "            a   b    c\n  one       1  22  333\n  three  4444        6\n";
        assert_eq!(table(&head, &rows, 80), whole);
        let first = "            a   b\n  one       1  22\n  three  4444\n";
        let second = "           c\n  one    333\n  three    6\n";
        assert_eq!(table(&head, &rows, 18), format!("{first}\n{second}"));
        assert_eq!(table(&head, &rows, 0).matches("three").count(), 3);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_lines_are_no_wider_than_asked_for(line in "[ a-z]{0,60}", width in 8usize..40) {
            let fitted = fit(&line, width);
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(words(&fitted), words(&line));
            for line in fitted.lines().filter(|line| line.len() > width) {
                prop_assert!(!line.trim().contains(' '), "{}", fitted);
            }
        }
    }
}
