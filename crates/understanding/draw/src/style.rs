//! The colours of pictures, for light and dark.

/// The style sheet of pictures, for light and dark.
pub const PICTURES: &str = include_str!("pictures.css");

/// The fillings of a picture that are no colours. An id stands for one element of a page, so each picture has its own.
pub(crate) struct Fillings {
    hatch: String,
    line: String,
}

impl Fillings {
    pub(crate) fn new(id: &str) -> Self {
        Self { hatch: format!("hatch-{id}"), line: format!("line-{id}") }
    }

    /// Returns the variables that the style sheet fills with: hatching, and a thin line in the middle.
    pub(crate) fn variables(&self) -> String {
        format!("--hatch: url(#{}); --line: url(#{})", self.hatch, self.line)
    }

    /// Returns the definitions of the fillings. The user can point at every part of a stretch, the line's transparent
    /// part, too.
    pub(crate) fn definitions(&self) -> String {
        let stop = |offset: &str, opacity: u8| {
            format!("<stop class=\"line-color\" offset=\"{offset}\" stop-opacity=\"{opacity}\"/>")
        };
        format!(
            "<defs><pattern id=\"{}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
             <line class=\"hatch\" x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\"/></pattern>\
             <linearGradient id=\"{}\" x1=\"0\" y1=\"0\" x2=\"0\" y2=\"1\">{}{}{}{}</linearGradient></defs>",
            self.hatch,
            self.line,
            stop(".412", 0),
            stop(".412", 1),
            stop(".588", 1),
            stop(".588", 0)
        )
    }
}

/// The style sheet of pages, for light and dark, a phone and paper: of this crate's page, and of the check's.
pub const PAGE: &str = include_str!("page/page.css");

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
    let own = picture
        .split_once("style=\"")
        .and_then(|(_, style)| style.split_once('"'))
        .map_or("", |(own, _)| own);
    let variables = variables.chain(own.split("; "));
    let named = variables.filter_map(|line| line.split_once("--")?.1.split_once(": "));
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
    use std::collections::HashMap;

    #[test]
    fn a_flat_picture_has_colours_for_all_variables() {
        let fillings = Fillings::new("1");
        let hatched = flat(&format!(
            "<svg class=\"timeline\" style=\"{}\" viewBox=\"0 0 1 1\">\n</svg>\n",
            fillings.variables()
        ));
        let rules = hatched.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
        assert!(!rules.contains("var(") && !rules.contains("@media"), "{rules}");
        assert!(
            rules.contains(".unknown { fill: url(#hatch-1); }") && rules.contains(".own { fill: #0969da; }")
        );
        assert!(rules.contains(".idle, .asleep { fill: url(#line-1); }"), "{rules}");
        assert!(rules.contains(".text.in { fill: #0b0f14;") && !rules.contains("svg text"), "{rules}");
        assert_eq!(rules.matches('{').count(), rules.matches('}').count());
    }

    /// Returns the colours of a style sheet by their names, in light and in dark.
    fn colors(sheet: &'static str) -> [HashMap<&'static str, &'static str>; 2] {
        let (light, others) = sheet.split_once("@media").unwrap();
        let dark = others.split_once("} }").unwrap().0;
        let named = |text: &'static str| {
            let all = text.split("--").filter_map(|line| line.split_once(": #"));
            all.map(|(name, value)| (name, value.split(';').next().unwrap())).collect::<HashMap<_, _>>()
        };
        let light = named(light);
        let mut of_dark = light.clone();
        of_dark.extend(named(dark));
        [light, of_dark]
    }

    /// Returns the contrast of two colours, from 1 to 21, as the Web Content Accessibility Guidelines define it.
    fn contrast(one: &str, other: &str) -> f64 {
        let luminance = |color: &str| -> f64 {
            assert_eq!(color.len(), 6, "{color}");
            let part = |at: usize| {
                let value = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
                if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4)
        };
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn text_and_shapes_stand_out_in_light_and_dark() {
        for colors in colors(PICTURES) {
            let check = |name: &str, behind: &str, least: f64| {
                let found = contrast(colors[name], colors[behind]);
                assert!(found >= least, "{name} on {behind}: {found:.2}");
            };
            ["ink", "quiet", "own", "irq"].iter().for_each(|text| check(text, "paper", 4.5));
            let threads = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"];
            threads.iter().chain(&["runnable"]).for_each(|behind| check("in", behind, 4.5));
            check("in-own", "own", 4.5);
            let fills = ["own", "runnable", "asleep", "disk", "irq", "softirq", "several", "mark", "fault"];
            threads.iter().chain(&fills).for_each(|fill| check(fill, "paper", 3.0));
        }
        for colors in colors(PAGE) {
            for text in ["ink", "quiet", "own", "alarm", "pass", "warn", "missing"] {
                let found =
                    contrast(colors[text], colors["paper"]).min(contrast(colors[text], colors["soft"]));
                assert!(found >= 4.5, "{text}: {found:.2}");
            }
        }
    }
}
