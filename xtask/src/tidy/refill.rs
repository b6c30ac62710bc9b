//! Paragraphs of comments and documents: each line holds as many words as fit.
//!
//! Code, tables, headings, HTML, aligned text and what is indented further than its list stand as they are.

use super::code::lines;
use super::{Findings, Tree};
use std::fs;
use std::ops::Range;

/// Columns of a line of code.
const CODE: usize = 120;
/// Columns of a line of a document.
const DOCUMENT: usize = 100;
/// Documents that are as wide as the code that they are read with.
const WIDE: &[&str] = &["ARCHITECTURE.md", "STYLE.md"];
/// Bytes of a piece of code that no line breaks.
const LONGEST_CODE: usize = 40;
/// Beginnings of a comment's line that start a paragraph.
const TAGS: &[&str] = &["SAFETY:", "ORDER("];

pub(super) fn check(tree: &Tree) -> Findings {
    let place = |(file, text): (&str, String)| {
        let line = first_difference(&text, &refilled(file, &text))?;
        Some(format!("{file}:{line}: a paragraph that is not refilled: cargo run -p xtask -- refill"))
    };
    tree.texts(&["rs", "md"]).into_iter().filter_map(place).collect()
}

/// Refills the paragraphs of all files.
///
/// # Errors
/// A file that cannot be written.
pub fn write(tree: &Tree) -> Result<(), String> {
    for (file, text) in tree.texts(&["rs", "md"]) {
        let refilled = refilled(file, &text);
        if refilled != text {
            println!("{file}");
            fs::write(tree.root.join(file), refilled).map_err(|error| format!("{file}: {error}"))?;
        }
    }
    Ok(())
}

/// The number of the first line that differs.
fn first_difference(one: &str, other: &str) -> Option<usize> {
    let same = one.lines().zip(other.lines()).take_while(|(one, other)| one == other).count();
    (one != other).then_some(same + 1)
}

/// A file's text, with its paragraphs refilled.
fn refilled(file: &str, text: &str) -> String {
    let mut new = if file.ends_with(".rs") { in_comments(text) } else { in_document(file, text) }.join("\n");
    if text.ends_with('\n') {
        new.push('\n');
    }
    new
}

fn in_document(file: &str, text: &str) -> Vec<String> {
    let width = if WIDE.contains(&file) { CODE } else { DOCUMENT };
    fill(&text.lines().collect::<Vec<_>>(), width)
}

fn in_comments(text: &str) -> Vec<String> {
    let texts: Vec<&str> = text.lines().collect();
    let mut new = Vec::new();
    let mut rest = 0;
    for block in blocks(text) {
        new.extend(texts[rest..block.start].iter().map(|line| (*line).to_owned()));
        let prefix = prefix(texts[block.start]);
        let bare: Vec<&str> = texts[block.clone()].iter().map(|line| bare(line, prefix)).collect();
        let width = CODE.saturating_sub(prefix.chars().count() + 1);
        let filled = fill(&bare, width).into_iter();
        new.extend(
            filled.map(|line| if line.is_empty() { prefix.to_owned() } else { format!("{prefix} {line}") }),
        );
        rest = block.end;
    }
    new.extend(texts[rest..].iter().map(|line| (*line).to_owned()));
    new
}

/// The runs of lines that are comments of one kind at one column, with a space behind the slashes.
fn blocks(text: &str) -> Vec<Range<usize>> {
    let texts: Vec<&str> = text.lines().collect();
    let mut found: Vec<Range<usize>> = Vec::new();
    for (number, line) in lines(text).iter().enumerate() {
        let whole = texts[number];
        let prefix = prefix(whole);
        let is_spaced = whole.len() == prefix.len() || whole[prefix.len()..].starts_with(' ');
        if line.has_code() || line.comment.is_empty() || !is_spaced {
            continue;
        }
        match found.last_mut() {
            Some(block) if block.end == number && self::prefix(texts[block.start]) == prefix => {
                block.end += 1
            }
            _ => found.push(number..number + 1),
        }
    }
    found
}

/// The indentation and the slashes of a comment's line: `    //!`.
fn prefix(line: &str) -> &str {
    let mark = line.trim_start();
    let slashes = mark.len() - mark.trim_start_matches('/').len();
    let length = line.len() - mark.len() + slashes + usize::from(mark[slashes..].starts_with('!'));
    &line[..length]
}

/// The text of a comment's line, without the space behind its slashes.
fn bare<'a>(line: &'a str, prefix: &str) -> &'a str {
    let text = &line[prefix.len()..];
    text.strip_prefix(' ').unwrap_or(text)
}

/// Refills the paragraphs of a text in Markdown.
fn fill(lines: &[&str], width: usize) -> Vec<String> {
    let mut new = Vec::new();
    let mut list = List::default();
    let mut rest = lines;
    while let Some(line) = rest.first() {
        let verbatim = verbatim(line).map(|end| block(rest, end));
        let paragraph = if verbatim.is_none() { list.paragraph(rest) } else { 0 };
        let (part, next) = rest.split_at(verbatim.unwrap_or(paragraph.max(1)));
        match paragraph {
            0 => new.extend(part.iter().map(|line| (*line).to_owned())),
            _ => new.extend(wrap(part, width)),
        }
        rest = next;
    }
    new
}

/// The number of lines of the block that begins `lines` and ends with a line that has `end`.
fn block(lines: &[&str], end: &str) -> usize {
    // A comment may end in its first line; a fence begins as it ends.
    let first = usize::from(end != "-->");
    let last = lines.iter().skip(first).position(|line| ends(line, end));
    last.map_or(lines.len(), |last| first + last + 1)
}

/// The end of the block of code or HTML that a line begins; an empty line is that of HTML.
fn verbatim(line: &str) -> Option<&'static str> {
    let text = line.trim_start();
    let blocks = [("```", "```"), ("~~~", "~~~"), ("<!--", "-->"), ("<", "")];
    blocks.into_iter().find(|(begin, _)| text.starts_with(begin)).map(|(_, end)| end)
}

/// Returns true for the line that ends a block.
fn ends(line: &str, end: &str) -> bool {
    match end {
        "" => line.trim().is_empty(),
        "-->" => line.contains(end),
        fence => line.trim_start().starts_with(fence),
    }
}

/// The columns at which the text of the open list items begins.
#[derive(Default)]
struct List(Vec<usize>);

impl List {
    /// The number of lines of the paragraph that begins `lines`; 0 if the first line is none of a paragraph.
    fn paragraph(&mut self, lines: &[&str]) -> usize {
        let Some(first) = lines.first().filter(|line| is_prose(line)) else { return 0 };
        let (indent, column) = (indent(first), column(first));
        self.0.retain(|open| *open <= indent);
        if indent > self.0.last().copied().unwrap_or(0) {
            return 0;
        }
        if column > indent {
            self.0.push(column);
        }
        let is_next = |line: &&&str| is_prose(line) && continues(line, column);
        let is_broken = |line: &str| line.ends_with("  ") || line.ends_with('\\');
        let mut length = 1;
        while !is_broken(lines[length - 1]) && lines.get(length).filter(is_next).is_some() {
            length += 1;
        }
        length
    }
}

fn continues(line: &str, column: usize) -> bool {
    let is_tagged = TAGS.iter().any(|tag| line.trim_start().starts_with(tag));
    indent(line) == column && self::column(line) == column && !is_tagged
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// The column at which a line's text begins: behind the mark of a list item.
fn column(line: &str) -> usize {
    let text = line.trim_start_matches(' ');
    let mark = text.split(' ').next().unwrap_or_default();
    let spaces = text[mark.len()..].len() - text[mark.len()..].trim_start_matches(' ').len();
    if is_item(mark) && spaces > 0 { indent(line) + mark.len() + spaces } else { indent(line) }
}

/// Returns true for the mark of a list item: `-`, `*`, `+`, `1.`, `1)`.
fn is_item(word: &str) -> bool {
    let number = word.trim_end_matches(['.', ')']);
    let is_number = !number.is_empty() && number.len() + 1 == word.len();
    matches!(word, "-" | "*" | "+") || is_number && number.chars().all(|digit| digit.is_ascii_digit())
}

/// Returns true for a line of words: no table, heading, HTML, quotation, definition of a link, or aligned text.
fn is_prose(line: &str) -> bool {
    let text = &line[column(line)..];
    let is_definition = text.starts_with('[') && text.contains("]: ");
    let is_aligned = text.trim_end().contains("  ") || text.contains('\t');
    let is_rule = !text.contains(|c: char| c.is_alphanumeric());
    !text.starts_with(['|', '#', '<', '>']) && !is_definition && !is_aligned && !is_rule
}

/// The words of a paragraph, in lines of up to `width` columns.
fn wrap(paragraph: &[&str], width: usize) -> Vec<String> {
    let column = column(paragraph[0]);
    let mut new = vec![paragraph[0][..column].to_owned()];
    let mut used = column;
    for word in words(paragraph) {
        let line = new.last_mut().expect("begins with one line");
        let is_first = used == column;
        let length = word.chars().count() + usize::from(!is_first);
        if !is_first && used + length > width {
            new.push(format!("{}{word}", " ".repeat(column)));
            used = column + length - 1;
        } else {
            *line += if is_first { "" } else { " " };
            *line += &word;
            used += length;
        }
    }
    let last = paragraph[paragraph.len() - 1];
    if last.ends_with("  ") {
        *new.last_mut().expect("begins with one line") += "  ";
    }
    new
}

/// The words of a paragraph. One that would begin something else at the begin of a line stays with the one before, and
/// the words of a short piece of code stay together.
fn words(paragraph: &[&str]) -> Vec<String> {
    let column = column(paragraph[0]);
    let mut found: Vec<String> = Vec::new();
    for word in paragraph.iter().flat_map(|line| line[column..].split_whitespace()) {
        let starts = is_item(word) || word.starts_with(['#', '>', '|', '<']) || word.starts_with("```");
        match found.last_mut() {
            Some(before) if starts || is_open(before) => *before = format!("{before} {word}"),
            _ => found.push(word.to_owned()),
        }
    }
    found
}

/// Returns true for text that ends within a piece of code, `` `a b` ``, that is still short.
fn is_open(text: &str) -> bool {
    let ticks = text.matches('`').count();
    ticks % 2 == 1 && text.rsplit('`').next().is_some_and(|code| code.len() < LONGEST_CODE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, width: usize) -> String {
        fill(&text.lines().collect::<Vec<_>>(), width).join("\n")
    }

    #[test]
    fn a_paragraph_is_filled_and_its_neighbours_stay() {
        assert_eq!(filled("one two\nthree four five\n\nsix", 9), "one two\nthree\nfour five\n\nsix");
        assert_eq!(filled("one\ntwo\nthree", 9), "one two\nthree");
        for same in
            ["| a | b |\n| c | d |", "```\na\nb\n```", "# a\nb", "a  \nb", "a   b\nc", "<p>\na", "[a]: b\nc"]
        {
            assert_eq!(filled(same, 9), same);
        }
    }

    #[test]
    fn the_text_of_an_item_is_a_paragraph() {
        let text =
            "- one two\n  three\n- four\n  five\n\n  six\n  seven\n\n      code\n      code\n1. a\n2. b";
        let new = "- one two\n  three\n- four five\n\n  six seven\n\n      code\n      code\n1. a\n2. b";
        assert_eq!(filled(text, 12), new);
    }

    #[test]
    fn no_line_begins_with_what_would_be_something_else() {
        assert_eq!(filled("aaa bbb - ccc", 7), "aaa\nbbb -\nccc");
        assert_eq!(filled("aaa bbb\n| c", 7), "aaa bbb\n| c");
        assert_eq!(filled("aaa `b c` ddd", 7), "aaa\n`b c`\nddd");
    }

    #[test]
    fn comments_keep_their_slashes_and_columns() {
        let text = "//! One\n//! two.\n\nfn f() { // not\n    // SAFETY: a\n    // b.\n    // ORDER(x:A) c.\n    a();\n\
            \x20   let x = \"// a\n    // b\";\n    //no\n    /// Doc.\n    ///\n    /// - more\n    ///   words\n}\n";
        let new = "//! One two.\n\nfn f() { // not\n    // SAFETY: a b.\n    // ORDER(x:A) c.\n    a();\n\
            \x20   let x = \"// a\n    // b\";\n    //no\n    /// Doc.\n    ///\n    /// - more words\n}\n";
        assert_eq!(refilled("f.rs", text), new);
        assert_eq!(first_difference(text, new), Some(1));
        assert_eq!(first_difference(new, new), None);
        let long = format!("    // {}\n", "word ".repeat(40).trim_end());
        assert!(refilled("f.rs", &long).lines().all(|line| line.len() <= CODE));
    }
}
