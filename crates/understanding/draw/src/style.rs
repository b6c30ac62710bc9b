//! The colours of pictures, for light and dark.

/// The style sheet of pictures.
pub(crate) const PICTURES: &str = include_str!("pictures.css");

/// Returns a picture as a file of its own: with its style sheet, as XML.
pub fn standalone(picture: &str) -> String {
    let opened = picture.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1);
    let Some((tag, contents)) = opened.split_once('>') else { return opened };
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{tag}>\n<style>\n{PICTURES}</style>{contents}")
}
