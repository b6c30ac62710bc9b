//! Source text split line by line into code, string literals and comments, for Rust and C.

/// Folders in `crates/` that contain crates and are no crates themselves.
pub(super) const GROUPS: &[&str] = &["formats", "machine", "recorder", "recording", "understanding"];
/// Endings of the files that are split.
pub(super) const ENDINGS: &[&str] = &["rs", "c", "h", "S"];

/// A source file, split into code and comments.
pub(super) struct Source<'a> {
    /// Path of the file, relative to the workspace.
    pub(super) file: &'a str,
    /// The file's lines; the first is line 1 for people.
    pub(super) lines: Vec<Line<'a>>,
}

impl<'a> Source<'a> {
    /// Splits the files of `Tree::texts`.
    pub(super) fn of(texts: &'a [(&'a str, String)]) -> Vec<Self> {
        texts.iter().map(|(file, text)| Self { file, lines: lines(text) }).collect()
    }

    /// The crate or folder that the file belongs to.
    pub(super) fn room(&self) -> &'a str {
        room(self.file)
    }

    /// Returns true for a file in Rust.
    pub(super) fn is_rust(&self) -> bool {
        self.file.ends_with(".rs")
    }

    /// Returns true for code of a crate, tests left out.
    pub(super) fn is_crate_code(&self) -> bool {
        self.is_rust()
            && self.file.starts_with("crates/")
            && self.file.contains("/src/")
            && !self.file.ends_with("/tests.rs")
    }
}

/// The crate or folder that a file belongs to: `ring` for `crates/recording/ring/src/write.rs`, `tests` for
/// `tests/tests/docs.rs`.
fn room(file: &str) -> &str {
    match file.strip_prefix("crates/") {
        Some(below) => crate_folder(below).rsplit('/').next().unwrap_or_default(),
        None => file.split('/').next().unwrap_or_default(),
    }
}

/// The folder of the crate that a file below `crates/` belongs to: `recording/ring` for `recording/ring/src/write.rs`,
/// `event` for `event/src/lib.rs`.
pub(super) fn crate_folder(below: &str) -> &str {
    let (first, rest) = below.split_once('/').unwrap_or((below, ""));
    let second = rest.split('/').next().unwrap_or_default();
    if GROUPS.contains(&first) { &below[..first.len() + 1 + second.len()] } else { first }
}

/// One line of a source file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Line<'a> {
    /// The code on the line; a string or character literal in it is empty quotes.
    pub(super) code: String,
    /// The line comment at its end, from `//` on; empty if there is none.
    pub(super) comment: &'a str,
    /// Set where a string literal goes on from the line before.
    in_text: bool,
}

impl Line<'_> {
    /// Returns true for a line that holds more than white space and comments.
    pub(super) fn has_code(&self) -> bool {
        self.in_text || !self.code.trim().is_empty()
    }
}

/// State of the scanner between two characters.
#[derive(Clone, Copy)]
enum State {
    Code,
    /// A block comment, this many deep.
    Comment(usize),
    /// A string literal; a raw one ends with this many number signs and knows no escapes.
    Text(Option<usize>),
}

/// Splits a file; `lines(text)[n]` is line `n + 1`.
pub(super) fn lines(text: &str) -> Vec<Line<'_>> {
    let mut state = State::Code;
    let take_apart = |line| {
        let mut parts = Line { in_text: matches!(state, State::Text(_)), ..Line::default() };
        let mut rest: &str = line;
        while let Some(next) = rest.chars().next() {
            let length;
            (state, length) = match state {
                State::Code if rest.starts_with("//") => {
                    parts.comment = rest;
                    break;
                }
                State::Code if rest.starts_with("/*") => (State::Comment(1), 2),
                State::Code => in_code(rest, &mut parts.code),
                State::Comment(depth) if rest.starts_with("/*") => (State::Comment(depth + 1), 2),
                State::Comment(1) if rest.starts_with("*/") => (State::Code, 2),
                State::Comment(depth) if rest.starts_with("*/") => (State::Comment(depth - 1), 2),
                State::Text(None) if next == '\\' => (state, 1 + width(&rest[1..])),
                State::Text(hashes) if next == '"' && closes(&rest[1..], hashes) => {
                    parts.code.push('"');
                    (State::Code, 1 + hashes.unwrap_or(0))
                }
                State::Comment(_) | State::Text(_) => (state, next.len_utf8()),
            };
            rest = &rest[length..];
        }
        parts
    };
    text.lines().map(take_apart).collect()
}

/// Reads code up to the next quote or slash, or that one: the state behind it, and its length in bytes.
fn in_code(rest: &str, code: &mut String) -> (State, usize) {
    let plain = rest.find(['"', '\'', '/']).unwrap_or(rest.len());
    if plain > 0 {
        code.push_str(&rest[..plain]);
        return (State::Code, plain);
    }
    let opening = State::Text(raw(code));
    code.push_str(&rest[..1]);
    match (rest.starts_with('"'), rest.starts_with('\'')) {
        (true, _) => (opening, 1),
        (_, true) => match character(&rest[1..]) {
            Some(length) => {
                code.push('\'');
                (State::Code, 1 + length)
            }
            None => (State::Code, 1),
        },
        _ => (State::Code, 1),
    }
}

/// Returns the number signs of a raw literal whose quote follows this code; `None` for any other literal.
fn raw(code: &str) -> Option<usize> {
    let prefix = code.trim_end_matches('#');
    let word = prefix.strip_suffix('r')?;
    let word = word.strip_suffix(['b', 'c']).unwrap_or(word);
    let is_prefix = !word.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    is_prefix.then_some(code.len() - prefix.len())
}

/// Length of a character literal behind its first quote; `None` for a lifetime.
fn character(behind: &str) -> Option<usize> {
    if let Some(escape) = behind.strip_prefix('\\') {
        let escaped = 1 + width(escape);
        return behind[escaped..].find('\'').map(|end| escaped + end + 1);
    }
    let length = width(behind);
    behind[length..].starts_with('\'').then_some(length + 1)
}

/// Length of the first character in bytes; 0 at the end.
fn width(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

/// Returns true if a quote in front of this text ends the literal.
fn closes(behind: &str, hashes: Option<usize>) -> bool {
    hashes.is_none_or(|count| behind.len() >= count && behind.bytes().take(count).all(|byte| byte == b'#'))
}

/// The lines outside of `#[cfg(test)]` items, each with its number.
pub(super) fn without_tests<'a>(lines: &'a [Line<'a>]) -> Vec<(usize, &'a Line<'a>)> {
    let mut kept = Vec::new();
    let mut numbered = lines.iter().enumerate().map(|(index, line)| (index + 1, line));
    while let Some((number, line)) = numbered.next() {
        let code = line.code.trim();
        if !code.starts_with("#[cfg(test)]") && !code.starts_with("#[cfg(all(test,") {
            kept.push((number, line));
            continue;
        }
        let mut depth = 0_usize;
        let mut ends = |line: &Line| line.code.chars().any(|c| ends_item(c, &mut depth));
        if !ends(line) {
            let _last = numbered.find(|(_, line)| ends(line));
        }
    }
    kept
}

/// Follows brackets; true at the character that ends an item.
fn ends_item(c: char, depth: &mut usize) -> bool {
    match c {
        '(' | '[' | '{' => *depth += 1,
        ')' | ']' | '}' => *depth = depth.saturating_sub(1),
        _ => {}
    }
    *depth == 0 && matches!(c, '}' | ';')
}

/// A block of `///` or `//!` lines.
#[derive(Debug, PartialEq)]
pub(super) struct Doc<'a> {
    /// Number of the block's first line in the file.
    pub(super) line: usize,
    /// The block's lines without the mark.
    pub(super) lines: Vec<&'a str>,
}

impl Doc<'_> {
    /// The words of the block, of all its lines.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().flat_map(|line| line.split_whitespace())
    }
}

/// The doc comments of a file, in order.
pub(super) fn docs<'a>(lines: &[Line<'a>]) -> Vec<Doc<'a>> {
    blocks(lines, |comment| {
        let text = comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!"))?;
        (!text.starts_with('/')).then_some(text)
    })
}

/// Returns the comments of a file that are no documentation, in order.
pub(super) fn remarks<'a>(lines: &[Line<'a>]) -> Vec<Doc<'a>> {
    blocks(lines, |comment| {
        let text = comment.strip_prefix("//")?;
        (!text.starts_with(['/', '!'])).then_some(text)
    })
}

/// Groups neighbouring lines of nothing but such a comment.
fn blocks<'a>(lines: &[Line<'a>], text: impl Fn(&'a str) -> Option<&'a str>) -> Vec<Doc<'a>> {
    let mut blocks: Vec<Doc> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let comment = if line.has_code() { "" } else { line.comment };
        let Some(text) = text(comment) else { continue };
        match blocks.last_mut() {
            Some(block) if block.line + block.lines.len() == index + 1 => block.lines.push(text),
            _ => blocks.push(Doc { line: index + 1, lines: vec![text] }),
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_belong_to_their_crate_or_folder() {
        let files = [
            "crates/recording/ring/src/lib.rs",
            "crates/event/Cargo.toml",
            "tests/tests/docs.rs",
            "README.md",
        ];
        assert_eq!(files.map(room), ["ring", "event", "tests", "README.md"]);
        let is_code = |file| Source { file, lines: Vec::new() }.is_crate_code();
        assert!(is_code("crates/recording/ring/src/read.rs") && !is_code("crates/recording/ring/src/a.h"));
        assert!(
            !is_code("crates/recording/ring/tests/golden.rs")
                && !is_code("crates/recorder/dirfd/src/tests.rs")
        );
    }

    fn code(text: &str) -> Vec<String> {
        lines(text).iter().map(|line| line.code.clone()).collect()
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        assert_eq!(code("a(\"stamp // x\"); // stamp"), ["a(\"\"); "]);
        assert_eq!(code("a /* b /* c */ d\ne */ f"), ["a ", " f"]);
        assert_eq!(
            code("r#\"a \" b\"# + br\"\\\" + c\"\\\"\" + r#type"),
            ["r#\"\" + br\"\" + c\"\" + r#type"]
        );
        assert_eq!(
            code("f::<'a>('\"', '\\'', '\\u{1f}', b'x', for_r\"y\")")[0],
            "f::<'a>('', '', '', b'', for_r\"\")"
        );
        assert_eq!(code("let x = \"one\ntwo\"; y"), ["let x = \"", "\"; y"]);
        let text = lines("let x = \"one\n  two\n\";\n\n// c\n");
        assert_eq!(text.iter().map(Line::has_code).collect::<Vec<_>>(), [true, true, true, false, false]);
        assert_eq!(lines("a; // b")[0].comment, "// b");
    }

    #[test]
    fn test_items_are_left_out_and_what_follows_them_is_kept() {
        let text = "a\n#[cfg(test)]\nmod tests {\n    x { } ;\n}\nb\n#[cfg(test)]\nmod more;\nc\n\
            #[cfg(all(test, unix))]\n#[derive(A)]\nstruct X([u8; 3]);\nd\n";
        let all = lines(text);
        let kept: Vec<&str> = without_tests(&all).iter().map(|(_, line)| line.code.as_str()).collect();
        assert_eq!(kept, ["a", "b", "c", "d"]);
        assert_eq!(without_tests(&all)[1].0, 6);
    }

    #[test]
    fn doc_comments_are_blocks_and_others_are_remarks() {
        let text = "//! a b\n//! c\n\n/// d\nfn e() {} // f\n    // g\n    // h\n//// i\n";
        let all = lines(text);
        let found = docs(&all);
        assert_eq!(found.iter().map(|doc| doc.line).collect::<Vec<_>>(), [1, 4]);
        assert_eq!(found[0].words().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(remarks(&all), [Doc { line: 6, lines: vec![" g", " h"] }]);
    }
}
