//! Output formats of a report.

mod html;
mod junit;
mod plot;
mod text;

use sordino_event::text::Escaped;

pub use html::html;
pub use junit::junit;
pub use text::{step as step_text, summary as summary_text};

/// Escapes text for content and attributes of HTML and XML. Unprintable characters are escaped; noncharacters, which
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_a_tag_or_breaks_xml() {
        assert_eq!(escape("<a b=\"c\">&'\u{1b}x"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;\\x1bx");
    }
}
