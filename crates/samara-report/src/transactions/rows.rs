//! Runs below each other: what bytes they took, and how many copies.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use samara_lab::results::TransactionBytes;

use super::{Row, TransactionsReport};
use crate::draw::{
    Area, Axis, BAR, Chart, Drawn, Key, LABEL_SIZE, Mark, Rows, SIZE, Unit, colour, drawn_at_with,
    text_pixels,
};
use crate::words::fixed;

/// A kind of bytes.
type Kind = (&'static str, fn(&TransactionBytes) -> f64);

/// What bytes are, in the order in which they are stacked.
const KINDS: [Kind; 8] = [
    ("first copies", |bytes| bytes.bodies),
    ("further copies", |bytes| bytes.duplicates),
    ("announcements", |bytes| bytes.announcements),
    ("requests", |bytes| bytes.requests),
    ("compact blocks", |bytes| bytes.blocks),
    ("framing of packets", |bytes| bytes.framing),
    ("sealing and padding", |bytes| bytes.sealing),
    ("headers, acknowledgements", |bytes| bytes.headers),
];

/// What a number beside a dot takes.
const NUMBER_PIXELS: i32 = 56;

/// The bytes of a row by kind, cut where they are more than were received: what connections add is counted where it is written, which is
/// not what honest nodes receive where others are hostile.
fn stack(row: &Row) -> Vec<(f64, f64)> {
    let total = row.mean(&|m| m.bytes.total);
    let mut end = 0.0;
    let part = |(_, value): &Kind| {
        let start = end;
        end = (end + row.mean(&|m| value(&m.bytes)).max(0.0)).min(total);
        (start, end)
    };
    KINDS.iter().map(part).collect()
}

/// Whether the parts of some row are more than was received.
pub(super) fn is_cut(rows: &[Row]) -> bool {
    rows.iter().any(|row| row.mean(&|m| m.bytes.headers) < 0.0)
}

/// A bar for each run, stacked by kinds of bytes.
pub(super) fn bytes(report: &TransactionsReport) -> String {
    let frame = Rows::new(report.rows.iter().map(|row| row.label.as_str()));
    let stacks: Vec<Vec<(f64, f64)>> = report.rows.iter().map(stack).collect();
    let most = report.rows.iter().map(|row| row.mean(&|m| m.bytes.total)).fold(1.0, f64::max);
    let worth = |kind: &usize| stacks.iter().any(|stack| stack[*kind].1 - stack[*kind].0 > most * 1e-4);
    let shown: Vec<usize> = (0..KINDS.len()).filter(worth).collect();
    let key = shown.iter().enumerate().map(|(at, kind)| (Mark::Bar(colour(at)), KINDS[*kind].0.to_owned()));
    // Totals stand behind the bars.
    let x = Axis::linear(0.0..most * 1.12, Unit::Bytes, frame.room());
    drawn_at_with(frame.size(), &Key::new(key, SIZE.0), |area| {
        let mut chart = frame.chart(area, "bytes received for each node and transaction", (&x, ""))?;
        let style = ("sans-serif", LABEL_SIZE).into_text_style(area).pos(Pos::new(HPos::Left, VPos::Center));
        for (place, stack) in stacks.iter().enumerate() {
            let middle = frame.middle(place);
            let bars = shown.iter().enumerate().map(|(at, kind)| {
                let (from, until) = stack[*kind];
                let corners = [(from, middle - BAR / 2.0), (until, middle + BAR / 2.0)];
                Rectangle::new(corners, colour(at).filled())
            });
            chart.draw_series(bars)?;
            let total = report.rows[place].mean(&|m| m.bytes.total);
            let end = chart.backend_coord(&(total, middle));
            area.draw(&Text::new(format!("{:.1} kB", total / 1e3), (end.0 + 6, end.1), style.clone()))?;
        }
        Ok(())
    })
}

/// What others published or measured of a run's copies.
fn known(report: &TransactionsReport, row: &Row) -> Vec<f64> {
    let of_run = report.known.iter().filter(|known| known.run == row.run);
    of_run.filter(|known| known.metric == "duplication_factor").map(|known| known.known).collect()
}

/// A dot for each run, beside what others found and what flooding needs on its graph.
pub(super) fn copies(report: &TransactionsReport) -> String {
    let frame = Rows::new(report.rows.iter().map(|row| row.label.as_str()));
    let rows = &report.rows;
    let ours: Vec<f64> = rows.iter().map(|row| row.mean(&|m| m.duplication_factor)).collect();
    let bounds = |row: &Row| [row.mean(&|m| m.flood_least), row.mean(&|m| m.flood_most)];
    let all = || {
        let others = rows.iter().flat_map(|row| known(report, row).into_iter().chain(bounds(row)));
        ours.iter().copied().chain(others).filter(|copies| *copies > 0.0)
    };
    let (low, high) = (all().fold(1.0, f64::min) * 0.85, all().fold(1.0, f64::max) * 1.25);
    let x = Axis::powers(low..high, Unit::Number, frame.room());
    let rings = rows.iter().any(|row| !known(report, row).is_empty());
    let mut key = vec![(Mark::Dot(colour(0)), "here".to_owned())];
    if rings {
        key.push((Mark::Ring(BLACK), "published or measured by others".to_owned()));
    }
    key.push((Mark::Dashes(BLACK), "least and most of flooding".to_owned()));
    drawn_at_with(frame.size(), &Key::new(key, SIZE.0), |area| {
        let mut chart = frame.chart(area, "bodies received for each node and transaction", (&x, ""))?;
        for (place, (row, ours)) in rows.iter().zip(&ours).enumerate() {
            let middle = frame.middle(place);
            let grey = BLACK.mix(0.15).stroke_width(1);
            chart.draw_series([PathElement::new([(low, middle), (high, middle)], grey)])?;
            for bound in bounds(row) {
                let line = [(bound, middle - 0.5), (bound, middle + 0.5)];
                chart.draw_series(DashedLineSeries::new(line, 5, 4, BLACK.mix(0.6).stroke_width(1)))?;
            }
            let mut rings = known(report, row);
            rings.sort_by(f64::total_cmp);
            chart.draw_series(
                rings.iter().map(|value| Circle::new((*value, middle), 8, BLACK.stroke_width(2))),
            )?;
            chart.draw_series([Circle::new((*ours, middle), 5, colour(0).filled())])?;
            // Behind rings that would lie under the number.
            let (dot, y) = chart.backend_coord(&(*ours, middle));
            let rings = rings.iter().map(|value| chart.backend_coord(&(*value, middle)).0);
            let x = rings.fold(dot, |x, ring| if (x..x + NUMBER_PIXELS).contains(&ring) { ring } else { x });
            number(area, &chart, &fixed(*ours, 2), (x, y))?;
        }
        Ok(())
    })
}

/// A number beside a dot, on the side that has room.
fn number(area: &Area<'_>, chart: &Chart<'_, '_>, text: &str, (x, y): (i32, i32)) -> Drawn {
    let range = chart.plotting_area().get_pixel_range().0;
    let right = f64::from(x) + 12.0 + text_pixels(text, LABEL_SIZE) < f64::from(range.end);
    let (side, at) = if right { (HPos::Left, x + 12) } else { (HPos::Right, x - 12) };
    let style = ("sans-serif", LABEL_SIZE).into_text_style(area).pos(Pos::new(side, VPos::Center));
    // Lines pass behind it.
    let width = text_pixels(text, LABEL_SIZE) as i32;
    let from = if right { at - 2 } else { at - width - 2 };
    area.draw(&Rectangle::new([(from, y - 8), (from + width + 4, y + 8)], WHITE.filled()))?;
    area.draw(&Text::new(text.to_owned(), (at, y), style))?;
    Ok(())
}
