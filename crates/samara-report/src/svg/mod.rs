//! Figures as SVG.
//!
//! The same drawing serves three purposes: files beside the report (with all curves, in colours of their own), the source of
//! PNG files, and pictures in the page (in the colours of the page, light or dark, and with the outlines of bundles of
//! curves instead of a thousand paths).
//!
//! | file | concern |
//! |---|---|
//! | `canvas` | elements, colours, widths of texts |
//! | `frame` | axes, grids, legends |
//! | `curves`, `lines`, `bars`, `counts` | the kinds of figures |

mod bars;
mod canvas;
mod counts;
mod curves;
mod frame;
mod lines;

use crate::model::{Figure, FigureKind};
use canvas::{Canvas, Paint};

/// What a drawing is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A file: complete, with its title, on white ground.
    File,
    /// A part of the page, in its colours.
    Page,
}

/// Draws a figure.
pub fn draw(figure: &Figure, purpose: Use) -> String {
    let paint = match purpose {
        Use::File => Paint::file(),
        Use::Page => Paint::page(),
    };
    let mut canvas = Canvas::new(paint, WIDTH);
    if purpose == Use::File {
        canvas.title(&figure.title);
    }
    match &figure.kind {
        FigureKind::Curves(curves) => curves::draw(&mut canvas, curves, purpose),
        FigureKind::Lines(lines) => lines::draw(&mut canvas, lines),
        FigureKind::Cdf(cdf) => lines::draw_cdf(&mut canvas, cdf),
        FigureKind::Bars(bars) => bars::draw(&mut canvas, bars),
        FigureKind::Histogram(histogram) => counts::draw_histogram(&mut canvas, histogram),
        FigureKind::Heat(heat) => counts::draw_heat(&mut canvas, heat),
    }
    canvas.finish(&figure.title, &crate::escape::plain(&figure.caption))
}

/// Width of all figures in pixels.
const WIDTH: f64 = 960.0;
