//! The rounds of a schedule as the post draws them: which message reaches whom in which round.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use samara_engine::Shape;
use samara_engine::shape::{Transfer, rounds};

use super::Row;
use crate::draw::{Axis, LABEL_SIZE, LEFT, SIZE, Unit, chart, colour, drawn_at, rooms};
use crate::parts::Figure;

/// Schedules of more rounds, or members, are not drawn.
const ROUNDS_MAX: usize = 120;
const MEMBERS_MAX: u32 = 16;
/// Pixels of a member's line, and of what is around all of them.
const LINE_PIXELS: u32 = 26;
const AROUND_PIXELS: u32 = 110;
/// Cells of so many rounds have room for the number of their message.
const NUMBERS_MAX: usize = 40;

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
        if !is_small || figures.iter().any(|other| other.name == name) {
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
            figures.push(Figure::new(name, caption, drawing(shape, &played, metrics.members)));
        }
    }
    figures
}

fn drawing(shape: Shape, played: &[Vec<Transfer>], members: u32) -> String {
    let all = f64::from(members);
    let last = played.len() as f64;
    let size = (SIZE.0, AROUND_PIXELS + LINE_PIXELS * members);
    let (across, upright) = rooms(size, LEFT);
    let lines: Vec<(f64, String)> =
        (0..members).rev().map(|member| (all - f64::from(member) - 0.5, member.to_string())).collect();
    let (x, y) = (Axis::linear(0.0..last, Unit::Count, across), Axis::at(0.0..all, false, &lines, upright));
    drawn_at(size, |area| {
        let title = format!("{}: {} rounds", shape.name(), played.len());
        let mut chart = chart(area, &title, (&x, "round"), (&y, "member"))?;
        let style =
            ("sans-serif", LABEL_SIZE - 4).into_text_style(area).pos(Pos::new(HPos::Center, VPos::Center));
        for (round, transfers) in played.iter().enumerate() {
            for transfer in transfers {
                let (left, low) = (round as f64, all - f64::from(transfer.to) - 1.0);
                let corners = [(left, low + 0.05), (left + 0.95, low + 0.95)];
                let fill = colour(transfer.unit as usize).mix(0.75).filled();
                chart.draw_series([Rectangle::new(corners, fill)])?;
                if played.len() <= NUMBERS_MAX {
                    let at = (left + 0.5, low + 0.5);
                    chart.draw_series([Text::new(transfer.unit.to_string(), at, style.clone())])?;
                }
            }
        }
        Ok(())
    })
}
