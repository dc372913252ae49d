//! The files of a report.

use std::fs;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::model::Report;
use crate::{html, png, svg};

/// Why the files of a report cannot be written.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The file system says no.
    #[error("{path}: {error}")]
    Io {
        /// Where.
        path: PathBuf,
        /// What it says.
        error: std::io::Error,
    },
    /// A figure cannot be drawn.
    #[error("figure {figure}: {error}")]
    Png {
        /// Which.
        figure: String,
        /// Why.
        error: png::PngError,
    },
}

/// Pixels of a PNG file for each pixel of a figure: sharp on paper, too.
const PNG_SCALE: f32 = 2.0;

/// Writes `report.html`, and each figure as `figures/ID.svg` and `figures/ID.png`; returns the path of the page. Files of the
/// same names are replaced.
///
/// # Errors
/// The file system says no, or a figure cannot be drawn.
pub fn write(report: &Report, directory: &Path) -> Result<PathBuf, ExportError> {
    let page = directory.join("report.html");
    put(&page, html::page(report).as_bytes())?;
    let figures = directory.join("figures");
    fs::create_dir_all(&figures).map_err(|error| ExportError::Io { path: figures.clone(), error })?;
    for figure in report.figures() {
        let drawing = svg::draw(figure, svg::Use::File);
        let id = html::file_name(&figure.id);
        put(&figures.join(format!("{id}.svg")), drawing.as_bytes())?;
        let picture = png::from_svg(&drawing, PNG_SCALE)
            .map_err(|error| ExportError::Png { figure: figure.id.clone(), error })?;
        put(&figures.join(format!("{id}.png")), &picture)?;
    }
    Ok(page)
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), ExportError> {
    fs::write(path, bytes).map_err(|error| ExportError::Io { path: path.to_path_buf(), error })
}
