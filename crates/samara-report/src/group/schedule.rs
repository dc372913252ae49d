//! The rounds of a schedule as the post draws them: which message reaches whom in which round.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use samara_ring::Shape;
use samara_ring::shape::{Transfer, rounds};

use super::Row;
use super::figures::{Figure, label_rows};
use crate::draw::{colour, drawn_at};

/// Schedules of more rounds, or members, are not drawn.
const ROUNDS_MAX: usize = 120;
const MEMBERS_MAX: u32 = 16;
/// Pixels of a member's line, and of what is around all of them.
const LINE_PIXELS: u32 = 26;
const AROUND_PIXELS: u32 = 110;

/// A figure for each shape that one sender used.
pub(super) fn all(rows: &[Row]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for row in rows {
        let metrics = &row.first.metrics;
        let (Some(count), Some(shape)) = (metrics.rounds_of_schedule, Shape::from_name(metrics.shape)) else {
            continue;
        };
        let name = format!("schedule-{}", shape.name());
        let is_small = count as usize <= ROUNDS_MAX && metrics.members <= MEMBERS_MAX;
        if !is_small || figures.iter().any(|(other, ..)| *other == name) {
            continue;
        }
        let caption = format!(
            "The schedule of the shape {}: {} messages from member 0 to {} others in {count} rounds. A cell is a message that a member receives.",
            shape.name(),
            metrics.messages,
            metrics.members - 1
        );
        let played = rounds(shape, metrics.messages, metrics.members as u16);
        // Messages in several chunks take more rounds than can be told apart.
        if played.len() as u64 == count {
            figures.push((name, caption, drawing(shape, &played, metrics.members)));
        }
    }
    figures
}

fn drawing(shape: Shape, played: &[Vec<Transfer>], members: u32) -> String {
    let all = f64::from(members);
    let last = played.len() as f64;
    drawn_at((880, AROUND_PIXELS + LINE_PIXELS * members), |area| {
        let mut chart = ChartBuilder::on(area)
            .caption(format!("{}: {} rounds", shape.name(), played.len()), ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(42)
            .y_label_area_size(90)
            .build_cartesian_2d(0.0..last, 0.0..all)?;
        chart
            .configure_mesh()
            .disable_mesh()
            .y_labels(0)
            .x_desc("round")
            .label_style(("sans-serif", 14))
            .draw()?;
        let style = ("sans-serif", 11).into_text_style(area).pos(Pos::new(HPos::Center, VPos::Center));
        for (round, transfers) in played.iter().enumerate() {
            for transfer in transfers {
                let (left, low) = (round as f64, all - f64::from(transfer.to) - 1.0);
                let corners = [(left, low + 0.05), (left + 0.95, low + 0.95)];
                let fill = colour(transfer.unit as usize).mix(0.75).filled();
                chart.draw_series(std::iter::once(Rectangle::new(corners, fill)))?;
                if played.len() <= 40 {
                    let at = (left + 0.5, low + 0.5);
                    let number = transfer.unit.to_string();
                    chart.draw_series(std::iter::once(Text::new(number, at, style.clone())))?;
                }
            }
        }
        let labels: Vec<String> = (0..members).map(|member| format!("member {member}")).collect();
        label_rows(area, &chart, &labels)
    })
}
