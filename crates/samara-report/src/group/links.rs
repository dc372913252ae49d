//! How busy uplinks and links of a group were: cells, the darker the busier.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Row;
use crate::draw::{
    Area, Axis, BELOW, Chart, Drawn, LABEL_SIZE, LEFT, MARGIN, Rows, TITLE_SIZE, chart, colour, drawn_at,
    rooms, shortened,
};
use crate::parts::Figure;
use crate::words::percent;

/// Larger groups have more links than can be told apart, and more cells than have room for numbers.
const MEMBERS_MAX: usize = 12;
const NUMBERS_MAX: usize = 16;
/// More runs are not drawn, and so many beside each other.
const RUNS_MAX: usize = 8;
const COLUMNS: usize = 4;
/// Fields of more members take twice the width.
const SMALL: usize = 6;
/// Pixels of a link's cell.
const CELL_PIXELS: (u32, u32) = (54, 36);
/// Characters of a title are wider than those of other text.
const TITLE_SHARE: f64 = 0.72;

/// An axis with a cell for each member, numbered.
fn members(count: usize, is_upright: bool, (width, height): (u32, u32)) -> Axis {
    let all = count as f64;
    let mut ticks: Vec<(f64, String)> = (0..count)
        .map(|member| {
            let middle = member as f64 + 0.5;
            (if is_upright { all - middle } else { middle }, member.to_string())
        })
        .collect();
    ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (across, upright) = rooms((width, height), LEFT);
    Axis::at(0.0..all, false, &ticks, if is_upright { upright } else { across })
}

/// A cell for each member in a row for each run.
pub(super) fn uplinks(rows: &[Row]) -> String {
    let frame = Rows::new(rows.iter().map(|row| row.label.as_str()));
    let most = rows.iter().map(|row| row.first.members.len()).max().unwrap_or(1);
    let ticks: Vec<(f64, String)> =
        (0..most).map(|member| (member as f64 + 0.5, member.to_string())).collect();
    let x = Axis::at(0.0..most as f64, false, &ticks, frame.room());
    drawn_at(frame.size(), |area| {
        let mut chart = frame.chart(area, "how busy uplinks were", (&x, "member"))?;
        for (place, row) in rows.iter().enumerate() {
            let cells: Vec<f64> = row.first.members.iter().map(|member| member.uplink_utilisation).collect();
            draw_cells(area, &mut chart, &cells, frame.middle(place) - 0.5, most <= NUMBERS_MAX)?;
        }
        Ok(())
    })
}

/// One figure with a field for each run: a line for each sender of frames, a column for each receiver.
pub(super) fn fields(rows: &[Row]) -> Option<Figure> {
    let shown: Vec<&Row> =
        rows.iter().filter(|row| row.first.members.len() <= MEMBERS_MAX).take(RUNS_MAX).collect();
    let most = shown.iter().map(|row| row.first.members.len()).max()?;
    let columns = shown.len().min(if most > SMALL { COLUMNS / 2 } else { COLUMNS });
    let lines = shown.len().div_ceil(columns);
    let field = (
        LEFT + 2 * MARGIN + CELL_PIXELS.0 * most as u32,
        BELOW + TITLE_SIZE * 3 / 2 + 2 * MARGIN + CELL_PIXELS.1 * most as u32,
    );
    let size = (field.0 * columns as u32, field.1 * lines as u32);
    let svg = drawn_at(size, |area| {
        for (row, place) in shown.iter().zip(area.split_evenly((lines, columns))) {
            draw_field(row, &place, field)?;
        }
        Ok(())
    });
    let caption = "What each link carried, as a share of its sender's uplink. A line is a member that sends, a column one that receives: direct \
                   sending fills the line of whoever sends, the ring a diagonal.";
    Some(Figure { wide: true, ..Figure::new("links", caption, svg) })
}

/// Shares of the time that the frames on each link take on the uplink of their sender.
fn shares(row: &Row) -> Vec<Vec<f64>> {
    let links = &row.first.links;
    let busy = row.first.members.iter().map(|member| member.uplink_utilisation);
    // Packets of a link are a part of all packets as its frames are of all frames.
    let of_sender = |(bytes, busy): (&Vec<u64>, f64)| {
        let all = bytes.iter().sum::<u64>().max(1) as f64;
        bytes.iter().map(|bytes| *bytes as f64 / all * busy).collect()
    };
    links.iter().zip(busy).map(of_sender).collect()
}

fn draw_field(row: &Row, area: &Area<'_>, size: (u32, u32)) -> Drawn {
    let shares = shares(row);
    let count = shares.len();
    let (x, y) = (members(count, false, size), members(count, true, size));
    let title = shortened(&row.label, f64::from(size.0) * TITLE_SHARE, TITLE_SIZE);
    let mut chart = chart(area, &title, (&x, "to member"), (&y, "from member"))?;
    for (from, cells) in shares.iter().enumerate() {
        draw_cells(area, &mut chart, cells, (count - from - 1) as f64, true)?;
    }
    Ok(())
}

/// A line of cells with shares, the darker the more.
fn draw_cells(
    area: &Area<'_>,
    chart: &mut Chart<'_, '_>,
    shares: &[f64],
    low: f64,
    with_numbers: bool,
) -> Drawn {
    let style =
        ("sans-serif", LABEL_SIZE - 2).into_text_style(area).pos(Pos::new(HPos::Center, VPos::Center));
    for (place, share) in shares.iter().enumerate() {
        let left = place as f64;
        let shade = share.clamp(0.0, 1.0);
        let corners = [(left + 0.02, low + 0.04), (left + 0.98, low + 0.96)];
        // Cells hide the lines of the chart.
        chart.draw_series([Rectangle::new(corners, WHITE.filled())])?;
        let fill = colour(1).mix(0.04 + 0.9 * shade).filled();
        chart.draw_series([Rectangle::new(corners, fill)])?;
        if with_numbers && *share >= 0.005 {
            let ink = if shade > 0.5 { &WHITE } else { &BLACK };
            let text = percent(*share, 0);
            chart.draw_series([Text::new(text, (left + 0.5, low + 0.5), style.clone().color(ink))])?;
        }
    }
    Ok(())
}
