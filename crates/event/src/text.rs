//! Text from outside, made safe for display.
//!
//! A traced program chooses its names, its paths and the strings in its events. If they are written to a terminal
//! unchanged, they can move the cursor, fill the clipboard, imitate a line of the tracer, or show their characters in
//! another order. Files and JSON keep the original.
//!
//! ```
//! use sordino_event::text::printable;
//! assert_eq!(printable("\x1b]52;c;Y2xpcA\x07"), r"\x1b]52;c;Y2xpcA\x07");
//! assert_eq!(printable("motor\nrecorded 0 events"), r"motor\nrecorded 0 events");
//! assert_eq!(printable("Zürich"), "Zürich");
//! ```

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

/// Returns true if the text is printable ASCII, newlines and tabs. It checks several bytes at a time: listings have
/// millions of lines, and nearly all of them are plain.
pub fn is_plain(text: &[u8]) -> bool {
    let is_odd = |byte: u8| (byte < b' ') & (byte != b'\n') & (byte != b'\t') | (byte > b'~');
    !text.iter().fold(false, |odd, byte| odd | is_odd(*byte))
}

/// Returns true if a terminal shows the character in its place and does nothing else.
///
/// Characters that are not printable: control characters (C0, DEL, C1), ends of lines and paragraphs, controls of the
/// direction of writing, and characters that Unicode allows to ignore in display, tags among them. The variation
/// selectors U+FE00 to U+FE0F, which choose between two forms of an emoji, are printable.
pub fn is_printable(character: char) -> bool {
    match character {
        ' '..='~' => true,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => false,
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => false,
        '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' => false,
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => false,
        other => !other.is_control(),
    }
}

/// Returns the text in one line, with a visible escape for each character that is not printable. Allocates only if
/// there is one.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|character| Escaped(character).to_string()).collect())
}

/// Returns text for contents and attributes of HTML and XML. Unprintable characters become visible; noncharacters,
/// which XML forbids, are replaced.
///
/// ```
/// use sordino_event::text::escape_markup;
/// assert_eq!(escape_markup("<motor>\x1b"), r"&lt;motor&gt;\x1b");
/// ```
pub fn escape_markup(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(c),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped += &Escaped(c).to_string(),
        }
    }
    escaped
}

/// Returns a number with its noun in the singular or plural: `1 program`, `2 programs`, `0 processes`.
///
/// ```
/// use sordino_event::text::count;
/// assert_eq!([count(1, "event"), count(2, "event")], ["1 event", "2 events"]);
/// assert_eq!([count(1, "loss"), count(0, "loss")], ["1 loss", "0 losses"]);
/// ```
pub fn count(number: impl fmt::Display, noun: &str) -> String {
    let number = number.to_string();
    let ending = match noun {
        _ if number == "1" => "",
        _ if noun.ends_with('s') || noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{number} {noun}{ending}")
}

/// Returns the messages of an error and its causes, one behind the other.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors include the message of their cause.
        if !text.contains(&cause_text) {
            text += ": ";
            text += &cause_text;
        }
        source = cause.source();
    }
    text
}

/// A character that prints itself if it is printable, or else its escape: `\n`, `\t`, `\x1b`, `\u{202e}`.
#[derive(Clone, Copy, Debug)]
pub struct Escaped(pub char);

impl fmt::Display for Escaped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            character if is_printable(character) => write!(f, "{character}"),
            '\n' => f.write_str("\\n"),
            '\t' => f.write_str("\\t"),
            control if control.is_control() => write!(f, "\\x{:02x}", u32::from(control)),
            other => write!(f, "{}", other.escape_unicode()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        assert_eq!(
            escape_markup("<a b=\"c\">&'\u{1b}\u{202e}x\u{ffff}"),
            "&lt;a b=&quot;c&quot;&gt;&amp;&#39;\\x1b\\u{202e}x\u{fffd}"
        );
    }

    #[test]
    fn a_text_is_plain_if_each_byte_is() {
        for byte in 0..=255 {
            let expected =
                byte == b'\n' || byte == b'\t' || byte.is_ascii() && is_printable(char::from(byte));
            for place in [0, 7, 40] {
                let mut text = [b'a'; 41];
                text[place] = byte;
                assert_eq!(is_plain(&text), expected, "{byte:#x}");
            }
        }
        assert!(is_plain(b""));
    }

    #[test]
    fn all_controls_of_terminals_and_lines_become_visible() {
        for control in (0..=0x1f).chain(0x7f..=0x9f) {
            let text = format!("a{}b", char::from(control));
            let shown = printable(&text);
            assert!(shown.is_ascii() && shown.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{shown:?}");
            assert!(shown.starts_with("a\\") && shown.ends_with('b'), "{shown}");
        }
        assert_eq!(printable("a\nb\tc\rd\u{9b}e"), r"a\nb\tc\x0dd\x9be");
    }

    #[test]
    fn text_can_neither_be_turned_round_nor_hidden() {
        assert_eq!(printable("a\u{202e}b\u{2066}c\u{2028}"), r"a\u{202e}b\u{2066}c\u{2028}");
        let hidden = "\u{ad}\u{200b}\u{200c}\u{200d}\u{2060}\u{feff}\u{e0041}";
        assert!(printable(hidden).is_ascii(), "{}", printable(hidden));
    }

    #[test]
    fn what_is_printable_is_borrowed_and_stays() {
        for text in ["", "irq/24-eth0", "Zürich 日本語 e\u{301} ☀\u{fe0f} \u{fffd}", r"C:\path"] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }
}
