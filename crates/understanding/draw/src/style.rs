//! The colours of pictures, for light and dark.

/// The style sheet of pictures, for light and dark.
pub const PICTURES: &str = include_str!("pictures.css");

/// Returns the definition of the hatching that `--hatch: url(#ID)` names.
pub(crate) fn hatching(id: &str) -> String {
    format!(
        "<defs><pattern id=\"{id}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
         <line class=\"hatch\" x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\"/></pattern></defs>"
    )
}

/// Returns a picture as a file of its own: with its style sheet, as XML.
pub fn standalone(picture: &str) -> String {
    let opened = picture.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1);
    let Some((tag, contents)) = opened.split_once('>') else { return opened };
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{tag}>\n<style>\n{PICTURES}</style>{contents}")
}
