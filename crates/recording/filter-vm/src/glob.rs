//! Patterns with `*` and `?`.

/// The dialect in words, for errors about patterns that have more.
pub const DIALECT: &str = "only * and ? stand for other characters";

/// Returns true if all of `text` matches `pattern`. In the pattern, `*` stands for any number of characters and `?` for
/// one; a backslash makes the character behind it literal. A character is a byte with the UTF-8 continuation bytes
/// behind it, so any bytes are text.
///
/// Real-time: allocates nothing. At most as many steps as the pattern has bytes for each byte of the text, because only
/// the last star is ever tried again.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut in_text) = (0, 0);
    // The offset behind the last star in the pattern, and the offset in the text that the star does not cover yet.
    let mut retry = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            retry = Some((at, in_text));
            continue;
        }
        let ends = in_text == text.len();
        if ends && at == pattern.len() {
            return true;
        }
        if let Some((next, behind)) = step(pattern, at, text, in_text) {
            (at, in_text) = (next, behind);
            continue;
        }
        // Trying a longer text for the star helps only while there is text left.
        let Some((behind_star, covered)) = retry.filter(|_| !ends) else { return false };
        (at, in_text) = (behind_star, character(text, covered));
        retry = Some((at, in_text));
    }
}

/// Matches one character of `pattern`, which is no star, at `at` with `text` at `in_text`. Returns the offsets behind
/// both.
fn step(pattern: &[u8], at: usize, text: &[u8], in_text: usize) -> Option<(usize, usize)> {
    let found = *text.get(in_text)?;
    match *pattern.get(at)? {
        b'?' => Some((at + 1, character(text, in_text))),
        b'\\' => (pattern.get(at + 1) == Some(&found)).then_some((at + 2, in_text + 1)),
        other => (other == found).then_some((at + 1, in_text + 1)),
    }
}

/// Returns the offset behind the character at `at`.
fn character(text: &[u8], at: usize) -> usize {
    let continues = |byte: &&u8| **byte & 0xc0 == 0x80;
    at + 1 + text.iter().skip(at + 1).take_while(continues).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stars_and_question_marks_match_characters() {
        let cases = [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "any", true),
            ("?", "", false),
            ("?", "é", true),
            ("??", "é", false),
            ("*??", "é", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-", false),
            ("*ab", "aab", true),
            ("ab", "abc", false),
            (r"\*\?\\", r"*?\", true),
            (r"\*", "a", false),
            (r"a\", "a", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    /// The definition of a match, by recursion.
    fn defined(pattern: &[char], text: &[char]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            (['*', rest @ ..], _) => (0..=text.len()).any(|taken| defined(rest, &text[taken..])),
            (['?', pattern @ ..], [_, text @ ..]) => defined(pattern, text),
            (['\\', a, pattern @ ..], [b, text @ ..]) => a == b && defined(pattern, text),
            ([a, pattern @ ..], [b, text @ ..]) => *a != '\\' && a == b && defined(pattern, text),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn matches_are_those_of_the_definition(pattern in "[ab*?é\\\\]{0,8}", text in "[ab*é€]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = defined(&chars(&pattern), &chars(&text));
            prop_assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected);
        }

        #[test]
        fn any_bytes_get_an_answer(
            pattern in proptest::collection::vec(any::<u8>(), 0..20),
            text in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            matches(&pattern, &text);
        }
    }
}
