//! PNG files of figures, with the same letters on every machine.

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};
use thiserror::Error;

/// Why a drawing cannot be turned into a PNG file.
#[derive(Debug, Error)]
pub enum PngError {
    /// It is no SVG.
    #[error("the figure is no SVG: {0}")]
    Svg(#[from] resvg::usvg::Error),
    /// It has no or too many pixels.
    #[error("a picture of {width} by {height} pixels cannot be made")]
    Size {
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
    },
    /// It cannot be packed.
    #[error("the picture cannot be packed: {0}")]
    Pack(String),
}

/// The only fonts: those of the machine would make different pictures.
static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(include_bytes!("../assets/inter/Inter-Regular.ttf").to_vec());
    fonts.load_font_data(include_bytes!("../assets/inter/Inter-SemiBold.ttf").to_vec());
    Arc::new(fonts)
});

/// Draws an SVG document with this many pixels to each of its own.
///
/// # Errors
/// It is no SVG, or has no size.
pub fn from_svg(svg: &str, scale: f32) -> Result<Vec<u8>, PngError> {
    let options =
        Options { fontdb: Arc::clone(&FONTS), font_family: "Inter".to_owned(), ..Options::default() };
    let tree = Tree::from_str(svg, &options)?;
    let (width, height) =
        ((tree.size().width() * scale).ceil() as u32, (tree.size().height() * scale).ceil() as u32);
    let mut pixels = Pixmap::new(width, height).ok_or(PngError::Size { width, height })?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| PngError::Pack(error.to_string()))
}
