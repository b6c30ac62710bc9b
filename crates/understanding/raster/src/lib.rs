//! Pictures as pixels: an SVG file becomes a PNG file.
//!
//! The renderer is resvg, without its part for text: a machine that records has no fonts, and the search for them would
//! be the greater part of the renderer. `text` draws each text in the outlines of a font that is part of the program
//! ([DejaVu Sans](https://dejavu-fonts.github.io), Latin, Greek and Cyrillic); a box stands for a letter that the font
//! lacks.
//!
//! | module | contents |
//! |---|---|
//! | `text` | texts to paths |
//!
//! ```
//! let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 90 20\"><text x=\"5\" y=\"15\">1.2 µs</text></svg>";
//! let png = sordino_raster::png(svg)?;
//! assert!(png.starts_with(b"\x89PNG"));
//! # Ok::<(), sordino_raster::RasterError>(())
//! ```
#![forbid(unsafe_code)]

mod text;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};
use thiserror::Error;

/// The number of pixels for a unit of the picture.
const SCALE: f32 = 2.0;
/// The maximum number of pixels of a side.
const MOST: f32 = 16_000.0;

/// The reason why a picture has no pixels.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RasterError {
    /// The picture is no SVG file.
    #[error("the picture can't be read: {0}")]
    Picture(String),
    /// The pixels could not be stored.
    #[error("no room for a picture of {0} x {1} pixels: name a file that ends with .svg")]
    Size(u32, u32),
    /// The file could not be made.
    #[error("the picture can't be encoded: {0}")]
    Encoding(String),
}

/// Returns an SVG file as a PNG file, two pixels for each of its units; at most 16,000 on a side. The text of an
/// element `text` has its `font-size` (12 unless given), and the colour of its class.
///
/// # Errors
/// The file is no SVG, or is too large.
pub fn png(svg: &str) -> Result<Vec<u8>, RasterError> {
    let invalid = |error: &dyn std::error::Error| RasterError::Picture(error.to_string());
    let outlined = text::outlined(svg)?;
    let tree = Tree::from_str(&outlined, &Options::default()).map_err(|error| invalid(&error))?;
    let size = tree.size();
    let scale = SCALE.min(MOST / size.width()).min(MOST / size.height());
    let (width, height) = ((size.width() * scale).ceil() as u32, (size.height() * scale).ceil() as u32);
    let mut pixels = Pixmap::new(width, height).ok_or(RasterError::Size(width, height))?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| RasterError::Encoding(error.to_string()))
}
