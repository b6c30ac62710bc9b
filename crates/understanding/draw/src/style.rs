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
    with_style(picture, PICTURES, "")
}

/// Returns a picture as a file in the colours of a light page, for a renderer without variables and media queries. Each
/// rule about the text of a class holds for any element of this class and of the class `text`.
pub fn flat(picture: &str) -> String {
    let (light, others) = PICTURES.split_once("@media").unwrap_or((PICTURES, ""));
    let others = others.split_once("} }").map_or(others, |(_, others)| others);
    let rules = format!("{light}{others}").replace("svg text", ".text");
    let variables = light.split_once('}').map_or(light, |(variables, _)| variables).split(';');
    let hatch = picture.split_once("--hatch: ").and_then(|(_, id)| id.split_once('"')).map(|(id, _)| id);
    let named = variables.filter_map(|line| line.split_once("--")?.1.split_once(": "));
    let named = named.chain(hatch.map(|id| ("hatch", id)));
    let rules = named.fold(rules, |rules, (name, value)| rules.replace(&format!("var(--{name})"), value));
    let paper = "<rect style=\"fill: #ffffff\" width=\"100%\" height=\"100%\"/>";
    with_style(picture, &rules, paper)
}

fn with_style(picture: &str, rules: &str, begin: &str) -> String {
    let opened = picture.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1);
    let Some((tag, contents)) = opened.split_once('>') else { return opened };
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{tag}>\n<style>\n{rules}</style>{begin}{contents}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_picture_has_colours_for_all_variables() {
        let hatched =
            flat("<svg class=\"timeline\" style=\"--hatch: url(#hatch-1)\" viewBox=\"0 0 1 1\">\n</svg>\n");
        let rules = hatched.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
        assert!(!rules.contains("var(") && !rules.contains("@media"), "{rules}");
        assert!(
            rules.contains(".unknown { fill: url(#hatch-1); }") && rules.contains(".own { fill: #0969da; }")
        );
        assert!(rules.contains(".text.in { fill: #ffffff;") && !rules.contains("svg text"), "{rules}");
        assert_eq!(rules.matches('{').count(), rules.matches('}').count());
    }
}
