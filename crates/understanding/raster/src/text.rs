//! The letters of texts as paths.

use crate::RasterError;
use resvg::usvg::roxmltree::{Document, Node};
use sordino_event::text::escape_markup;
use std::fmt::Write;
use std::ops::Range;
use ttf_parser::{Face, GlyphId, OutlineBuilder};

const FONT: &[u8] = include_bytes!("../font/DejaVuSans.ttf");
/// The letter that stands for letters that the font lacks.
const UNKNOWN: char = '\u{fffd}';
/// The default size of a text.
const SIZE: f32 = 12.0;

/// Returns the picture with a path in place of each text: of the same classes and of the class `text`.
pub(crate) fn outlined(svg: &str) -> Result<String, RasterError> {
    let invalid = |error: &dyn std::error::Error| RasterError::Picture(error.to_string());
    let document = Document::parse(svg).map_err(|error| invalid(&error))?;
    let face = Face::parse(FONT, 0).map_err(|error| invalid(&error))?;
    let texts = document.descendants().filter(|node| node.tag_name().name() == "text");
    let mut outlined = String::with_capacity(svg.len());
    let mut end = 0;
    for (range, path) in texts.map(|node| (node.range(), path(&node, &face))) {
        let Range { start, end: next } = range;
        // A text within a text has been replaced with it.
        if start >= end {
            outlined.push_str(svg.get(end..start).unwrap_or_default());
            outlined.push_str(&path);
            end = next;
        }
    }
    outlined.push_str(svg.get(end..).unwrap_or_default());
    Ok(outlined)
}

/// Returns the path of a text element; none if it is hidden.
fn path(text: &Node<'_, '_>, face: &Face<'_>) -> String {
    let number = |name: &str| text.attribute(name).and_then(|value| value.parse::<f32>().ok());
    if text.attribute("visibility") == Some("hidden") {
        return String::new();
    }
    let letters: String =
        text.children().filter_map(|child| child.is_text().then(|| child.text())?).collect();
    let scale = number("font-size").unwrap_or(SIZE) / f32::from(face.units_per_em());
    let glyphs: Vec<(GlyphId, f32)> = letters.chars().map(|letter| glyph(letter, face)).collect();
    let width = glyphs.iter().map(|(_, advance)| advance * scale).sum::<f32>();
    let before = match text.attribute("text-anchor") {
        Some("middle") => width / 2.0,
        Some("end") => width,
        _ => 0.0,
    };
    let (x, y) = (number("x").unwrap_or(0.0) - before, number("y").unwrap_or(0.0));
    let mut pen = Pen { path: String::new(), x, y, scale };
    for (glyph, advance) in glyphs {
        face.outline_glyph(glyph, &mut pen);
        pen.x += advance * scale;
    }
    let class = escape_markup(text.attribute("class").unwrap_or(""));
    if pen.path.is_empty() {
        String::new()
    } else {
        format!("<path class=\"text {class}\" d=\"{}\"/>", pen.path)
    }
}

/// Returns the glyph of a letter, and its width.
fn glyph(letter: char, face: &Face<'_>) -> (GlyphId, f32) {
    let glyph = face.glyph_index(letter).or_else(|| face.glyph_index(UNKNOWN)).unwrap_or_default();
    (glyph, f32::from(face.glyph_hor_advance(glyph).unwrap_or(0)))
}

/// Writes outlines of letters as a path.
struct Pen {
    path: String,
    /// The place of the letter on its line.
    x: f32,
    y: f32,
    /// The picture's units for one of the font's.
    scale: f32,
}

impl Pen {
    fn point(&mut self, command: &str, points: &[(f32, f32)]) {
        self.path.push_str(command);
        for (x, y) in points {
            // The font's axis points up.
            let _ = write!(self.path, "{:.2} {:.2} ", self.x + x * self.scale, self.y - y * self.scale);
        }
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.point("M", &[(x, y)]);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.point("L", &[(x, y)]);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.point("Q", &[(x1, y1), (x, y)]);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.point("C", &[(x1, y1), (x2, y2), (x, y)]);
    }

    fn close(&mut self) {
        self.path.push('Z');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn svg(text: &str) -> String {
        format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 9 9\">{text}</svg>")
    }

    #[test]
    fn a_text_becomes_a_path_of_its_classes_without_its_title() {
        let outlined =
            outlined(&svg("<g><text class=\"name own\" x=\"9\" y=\"3\">I<title>II</title></text></g>"))
                .unwrap();
        assert!(outlined.contains("<g><path class=\"text name own\" d=\"M"), "{outlined}");
        assert!(!outlined.contains("title") && outlined.matches('Z').count() == 1, "{outlined}");
    }

    #[test]
    fn hidden_and_empty_texts_are_not_drawn_and_unknown_letters_are_boxes() {
        let hidden = svg("<text visibility=\"hidden\">a</text><text> </text>");
        assert_eq!(outlined(&hidden).unwrap(), svg(""));
        assert_eq!(
            outlined(&svg("<text>語</text>")).unwrap(),
            outlined(&svg("<text>\u{fffd}</text>")).unwrap()
        );
        assert_ne!(outlined(&svg("<text>語</text>")).unwrap(), svg(""));
    }

    proptest! {
        #[test]
        fn no_text_adds_an_element(text in "\\PC{0,40}") {
            let escaped = escape_markup(&text);
            let outlined = outlined(&svg(&format!("<text>{escaped}</text>"))).unwrap();
            prop_assert!(Document::parse(&outlined).unwrap().descendants().count() <= 3, "{outlined}");
        }
    }
}
