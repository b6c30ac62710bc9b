//! A picture that a command writes to a file.

use crate::failure::Failure;
use crate::failure::UNUSABLE;
use crate::output::OutputFile;
use sordino_draw::{flat, standalone};
use sordino_raster::png;
use std::path::PathBuf;

/// A file for a picture. Its ending determines the format.
pub struct PictureFile {
    output: OutputFile,
    format: PictureFormat,
}

/// A format of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PictureFormat {
    Svg,
    Png,
}

impl PictureFile {
    /// Opens the file that `option` names, if any. Rejects a file that can't be written, and an ending that names no
    /// format.
    pub fn of(option: &'static str, path: Option<&PathBuf>) -> Result<Option<Self>, Failure> {
        let Some(path) = path else { return Ok(None) };
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        let format = match ending.as_deref() {
            // A device such as /dev/stdout has no ending.
            None | Some("svg") => PictureFormat::Svg,
            Some("png") => PictureFormat::Png,
            Some(_) => {
                let text = format!("{option} {}: a picture's file ends with .svg or .png", path.display());
                return Err(Failure::new(UNUSABLE, text));
            }
        };
        let output = OutputFile::of(option, Some(path))?;
        Ok(output.map(|output| Self { output, format }))
    }

    /// Writes the complete picture, an SVG element. Replaces a file of that name.
    pub fn write(&mut self, picture: &str) -> Result<(), Failure> {
        let bytes = match self.format {
            PictureFormat::Svg => standalone(picture).into_bytes(),
            PictureFormat::Png => {
                png(&flat(picture)).map_err(|error| Failure::new(UNUSABLE, error.to_string()))?
            }
        };
        self.output.write(&bytes)
    }
}
