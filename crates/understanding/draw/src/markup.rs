//! Text in HTML and SVG.

use sordino_event::Nanos;
use sordino_event::text::Escaped;
use sordino_report::{TIE, span};

/// Returns text for contents and attributes of HTML and XML. Unprintable characters become visible; noncharacters, which
/// XML forbids, are replaced.
pub(crate) fn escape(text: &str) -> String {
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

/// Returns a span of time in words: `12.3 us`.
pub(crate) fn time(time: Nanos) -> String {
    span(time).replace(TIE, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        assert_eq!(
            escape("<a b=\"c\">&'\u{1b}\u{202e}x\u{ffff}"),
            "&lt;a b=&quot;c&quot;&gt;&amp;&#39;\\x1b\\u{202e}x\u{fffd}"
        );
    }
}
