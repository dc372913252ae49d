//! What each link of a group carried: one field of cells for each run.

use plotters::prelude::*;

use super::Row;
use super::figures::{Figure, draw_cells, label_rows};
use crate::draw::drawn_at;

/// Larger groups have more links than can be told apart.
const MEMBERS_MAX: usize = 12;
/// More runs are not drawn.
const RUNS_MAX: usize = 8;
/// Pixels of a cell, and of what is around all of them.
const CELL_PIXELS: (u32, u32) = (46, 30);
const AROUND_PIXELS: (u32, u32) = (150, 110);

/// A figure for each run.
pub(super) fn all(rows: &[Row]) -> Vec<Figure> {
    let small = rows.iter().filter(|row| row.first.members.len() <= MEMBERS_MAX);
    small
        .take(RUNS_MAX)
        .map(|row| {
            let caption = format!(
                "{}: what each link carried, as a share of the sender's uplink: from the member of the row to that of the column.",
                row.label
            );
            (format!("links-{}", row.run), caption, field(row))
        })
        .collect()
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

fn field(row: &Row) -> String {
    let shares = shares(row);
    let members = shares.len();
    let size =
        (AROUND_PIXELS.0 + CELL_PIXELS.0 * members as u32, AROUND_PIXELS.1 + CELL_PIXELS.1 * members as u32);
    drawn_at((size.0.max(420), size.1), |area| {
        let mut chart = ChartBuilder::on(area)
            .caption(&row.label, ("sans-serif", 17))
            .margin(10)
            .x_label_area_size(42)
            .y_label_area_size(90)
            .build_cartesian_2d(0.0..members as f64, 0.0..members as f64)?;
        chart
            .configure_mesh()
            .disable_mesh()
            .y_labels(0)
            .x_labels(2 * members + 1)
            .x_desc("to member")
            .x_label_formatter(&|at| {
                if (at.fract() - 0.5).abs() < 0.01 { format!("{:.0}", at.floor()) } else { String::new() }
            })
            .label_style(("sans-serif", 14))
            .draw()?;
        for (from, cells) in shares.iter().enumerate() {
            draw_cells(area, &mut chart, cells, (members - from - 1) as f64, true)?;
        }
        let labels: Vec<String> = (0..members).map(|member| format!("from {member}")).collect();
        label_rows(area, &chart, &labels)
    })
}
