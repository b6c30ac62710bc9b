//! Text in HTML and SVG.

pub(crate) use sordino_event::text::escape_markup as escape;

use sordino_event::text::count;

/// Returns the text, cut to a number of letters.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// The number of letters of a name in a picture.
const NAME: usize = 48;

/// Returns the name of a thread, an event or another thing, as a picture has it.
pub(crate) fn named(name: &str) -> String {
    shortened(name, NAME)
}

/// Returns the text in markup of at most about so many bytes, with the number of letters that are cut.
pub(crate) fn fitting(text: &str, most: usize) -> String {
    let mut markup = String::new();
    for (index, letter) in text.char_indices() {
        markup += &escape(letter.encode_utf8(&mut [0; 4]));
        if markup.len() > most {
            let cut = text[index + letter.len_utf8()..].chars().count();
            return if cut > 0 { markup + &format!("… ({})", count(cut, "more letter")) } else { markup };
        }
    }
    markup
}

/// Returns the text in lines of at most so many letters, broken between words; a longer word is cut.
pub(crate) fn lines(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let word = shortened(word, most);
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}
