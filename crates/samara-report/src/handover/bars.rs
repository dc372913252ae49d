//! What batches took, by cause, below each other.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{HandoverReport, Row, Which};
use crate::draw::{Axis, BAR, Key, LABEL_SIZE, Mark, Rows, SIZE, Unit, colour, drawn_at_with};
use crate::parts::Figure;
use crate::words::short_ms;

/// A figure for batches of each size: those of different sizes have no scale in common.
pub(super) fn all(report: &HandoverReport) -> Vec<Figure> {
    let mut sizes: Vec<u32> = report.rows.iter().filter_map(payloads).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let both = sizes.iter().flat_map(|size| [(*size, Which::First), (*size, Which::Later)]);
    both.map(|(size, which)| figure(report, size, which)).collect()
}

fn payloads(row: &Row) -> Option<u32> {
    row.metrics.first().map(|metrics| metrics.payloads)
}

fn figure(report: &HandoverReport, size: u32, which: Which) -> Figure {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| payloads(row) == Some(size)).collect();
    let (name, batches) = match which {
        Which::First => (format!("first-{size}"), "the first batch on a connection"),
        Which::Later => (format!("later-{size}"), "later batches (median)"),
    };
    let caption = format!(
        "What {batches} took from the beginning of the work on it, by cause: by how much sooner it would be there without. Rings: what others measured, \
         from the moment in which it was ready."
    );
    let title = format!("{size} payloads: {batches}");
    Figure::new(name, caption, drawing(report, &rows, &title, which))
}

fn drawing(report: &HandoverReport, rows: &[&Row], title: &str, which: Which) -> String {
    let label = |row: &Row| -> String {
        let values = row.point.iter().map(|value| format!(", {value}")).collect::<String>();
        format!("{}{values}", row.label)
    };
    let labels: Vec<String> = rows.iter().map(|row| label(row)).collect();
    let frame = Rows::new(labels.iter().map(String::as_str));
    let known = |row: &Row| -> Vec<f64> {
        let of_run =
            report.known.iter().filter(|known| known.run == row.run && known.metric == which.metric());
        let computation = row.parts(which).first().map_or(0.0, |(_, ms)| *ms);
        of_run.map(|known| known.known + computation).collect()
    };
    let total = |row: &Row| row.parts(which).iter().map(|(_, ms)| ms).sum::<f64>();
    let most = rows.iter().flat_map(|row| known(row).into_iter().chain([total(row)])).fold(1.0, f64::max);
    let names = rows.first().map(|row| row.parts(which)).unwrap_or_default();
    let mut key: Vec<(Mark, String)> = names
        .iter()
        .enumerate()
        .map(|(place, (name, _))| (Mark::Bar(colour(place)), (*name).to_owned()))
        .collect();
    if rows.iter().any(|row| !known(row).is_empty()) {
        key.push((Mark::Ring(BLACK), "measured by others".to_owned()));
    }
    let x = Axis::linear(0.0..most * 1.14, Unit::Milliseconds, frame.room());
    drawn_at_with(frame.size(), &Key::new(key, SIZE.0), |area| {
        let mut chart = frame.chart(area, title, (&x, ""))?;
        let style = ("sans-serif", LABEL_SIZE).into_text_style(area).pos(Pos::new(HPos::Left, VPos::Center));
        for (place, row) in rows.iter().enumerate() {
            let middle = frame.middle(place);
            let mut left = 0.0;
            for (part, (_, ms)) in row.parts(which).into_iter().enumerate() {
                // Taking one cause away can make another one cost a little more.
                let right = left + ms.max(0.0);
                let corners = [(left, middle - BAR / 2.0), (right, middle + BAR / 2.0)];
                chart.draw_series([Rectangle::new(corners, colour(part).filled())])?;
                left = right;
            }
            let rings = known(row);
            chart.draw_series(
                rings.iter().map(|value| Circle::new((*value, middle), 7, BLACK.stroke_width(2))),
            )?;
            let end = rings.iter().copied().fold(left, f64::max);
            let (x, y) = chart.backend_coord(&(end, middle));
            area.draw(&Text::new(short_ms(total(row)), (x + 10, y), style.clone()))?;
        }
        Ok(())
    })
}
