//! Figures: for scripts, without scripts, and as tables.

use std::fmt::Write;

use super::{payload, table};
use crate::bundle::Bundle;
use crate::escape::{self, prose};
use crate::model::{
    Axis, Bars, Cdf, Cell, Column, CurvePanel, Curves, Distribution, Figure, FigureKind, HeatMap, Lines, Row,
    Table,
};
use crate::svg::{self, Use};

/// Writes the `number`-th figure.
pub(super) fn write(out: &mut String, number: usize, figure: &Figure) {
    let _ = writeln!(
        out,
        "<figure id=\"figure-{number}\" aria-labelledby=\"figure-{number}-title\">\n<figcaption><h3 \
         id=\"figure-{number}-title\">{}</h3><p>{}</p></figcaption>",
        escape::text(&figure.title),
        prose(&figure.caption)
    );
    let drawing = svg::draw(figure, Use::Page);
    match payload::of(&figure.kind) {
        // What scripts make of these is better than a still picture.
        Some(json) => {
            let _ = writeln!(
                out,
                "<div class=\"needs-script\" data-figure=\"data-{number}\"></div>\n<script type=\"application/json\" \
                 id=\"data-{number}\">{}</script>\n<noscript><div class=\"static\">{drawing}</div></noscript>",
                escape::script(&json)
            );
        }
        None => {
            let _ = writeln!(out, "<div class=\"static\">{drawing}</div>");
        }
    }
    if let Some(table) = as_table(&figure.kind) {
        out.push_str("<details><summary>Figures as a table</summary>\n");
        table::write(out, &table);
        out.push_str("</details>\n");
    }
    out.push_str("</figure>\n");
}

/// What a figure shows, in numbers.
fn as_table(kind: &FigureKind) -> Option<Table> {
    match kind {
        FigureKind::Curves(curves) => Some(of_curves(curves)),
        FigureKind::Lines(lines) => Some(of_lines(lines)),
        FigureKind::Cdf(cdf) => Some(of_cdf(cdf)),
        FigureKind::Bars(bars) => Some(of_bars(bars)),
        FigureKind::Heat(heat) => Some(of_heat(heat)),
        // Its picture shows all there is; quantiles are in a figure or table of their own where they matter.
        FigureKind::Histogram(_) => None,
    }
}

/// Shares at which bundles are cut in tables.
const CUTS: [f64; 3] = [0.5, 0.9, 1.0];

fn of_curves(curves: &Curves) -> Table {
    let mut columns = vec![Column::text("")];
    for cut in CUTS {
        for which in ["first", "median", "last"] {
            let title = format!("{} %, {which}", cut * 100.0);
            columns.push(Column::number(title, "ms", 0));
        }
    }
    let row = |panel: &CurvePanel| {
        let bundle = Bundle::new(&panel.curves);
        let mut cells: Vec<Cell> = vec![panel.title.as_str().into()];
        for cut in CUTS {
            let times = bundle.cut(cut);
            let at = |index: usize| times.get(index).copied().filter(|at| at.is_finite());
            let last = times.len().saturating_sub(1);
            cells.extend([at(0), at(last / 2), at(last)].map(Cell::from));
        }
        Row { cells, style: Some(panel.style), ..Row::default() }
    };
    let caption = format!("When the first, the median and the last {} reach a share", curves.item);
    Table { caption, columns, rows: curves.panels.iter().map(row).collect() }
}

fn of_lines(lines: &Lines) -> Table {
    let x = Column::number(
        &lines.x.label,
        &lines.x.unit,
        digits(lines.series.iter().flat_map(|series| series.points.iter().map(|point| point.x))),
    );
    let ys = lines.series.iter().flat_map(|series| series.points.iter().map(|point| point.y));
    Table::of_series(&lines.y.label, &x, &lines.y.unit, digits(ys), &lines.series)
}

/// Digits after the point that tell values apart: none for large ones and for whole numbers.
fn digits(values: impl Iterator<Item = f64> + Clone) -> usize {
    let finite = || values.clone().filter(|value| value.is_finite());
    let most = finite().map(f64::abs).fold(0.0, f64::max);
    match most {
        _ if finite().all(|value| value.fract() == 0.0) || most >= 100.0 => 0,
        _ if most >= 10.0 => 1,
        _ => 2,
    }
}

fn of_cdf(cdf: &Cdf) -> Table {
    const QUANTILES: [f64; 5] = [0.05, 0.5, 0.9, 0.95, 1.0];
    let number = |title: String| Column::number(title, &cdf.x.unit, digits_of(&cdf.x));
    let columns = std::iter::once(Column::text(""))
        .chain(QUANTILES.iter().map(|share| number(crate::number::percent(*share))))
        .collect();
    let row = |series: &Distribution| {
        let sorted = series.sorted();
        let reached = |share: f64| {
            let needed = (share * series.of as f64 - 1e-9).ceil().max(1.0) as usize;
            sorted.get(needed - 1).copied()
        };
        let cells = std::iter::once(Cell::from(series.name.as_str()))
            .chain(QUANTILES.iter().map(|share| reached(*share).into()))
            .collect();
        Row { cells, style: Some(series.style), ..Row::default() }
    };
    let caption = format!("{}: reached by this share", cdf.x.label);
    Table { caption, columns, rows: cdf.series.iter().map(row).collect() }
}

fn digits_of(axis: &Axis) -> usize {
    if axis.unit == "ms" { 0 } else { 2 }
}

fn of_bars(bars: &Bars) -> Table {
    let digits = digits_of(&bars.x);
    let has_bound = bars.rows.iter().any(|row| row.bound.is_some());
    let mut columns = vec![Column::text("")];
    columns.extend(bars.parts.iter().map(|part| Column::number(part, &bars.x.unit, digits)));
    if has_bound {
        columns.push(Column::number(&bars.bound_label, &bars.x.unit, digits));
    }
    let rows = bars.rows.iter().map(|row| {
        let mut cells: Vec<Cell> = vec![row.label.as_str().into()];
        cells.extend((0..bars.parts.len()).map(|part| row.values.get(part).copied().into()));
        if has_bound {
            cells.push(row.bound.into());
        }
        Row { cells, ..Row::default() }
    });
    Table { caption: bars.x.label.clone(), rows: rows.collect(), columns }
}

fn of_heat(heat: &HeatMap) -> Table {
    let mut columns = vec![Column::text(&heat.y_label)];
    let number = |name: &String| Column::number(name, &heat.value.unit, digits_of(&heat.value));
    columns.extend(heat.columns.iter().map(number));
    let rows = heat.rows.iter().enumerate().map(|(index, name)| {
        let values = heat.values.get(index).map_or(&[][..], Vec::as_slice);
        let cells = std::iter::once(Cell::from(name.as_str()))
            .chain((0..heat.columns.len()).map(|column| values.get(column).copied().into()))
            .collect();
        Row { cells, ..Row::default() }
    });
    Table { caption: format!("{} by {}", heat.value.label, heat.x_label), columns, rows: rows.collect() }
}
