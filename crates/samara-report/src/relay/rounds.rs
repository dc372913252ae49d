//! What became of every round, and what happened to nodes meanwhile.

use plotters::prelude::*;
use samara_lab::mix::measure::RoundRow;
use samara_lab::results::{MixData, Outcome};

use crate::draw::{Axis, Key, LEFT, Mark, SIZE, Unit, chart, colour, drawn_at_with, rooms};

/// Pixels of a round, and of what is around all of them.
const ROUND_PIXELS: (f64, f64) = (2.5, 9.0);
const ALL_PIXELS: f64 = 620.0;
const AROUND_PIXELS: u32 = 110;
/// Precomputation, and waiting for payloads.
const GREY: RGBColor = RGBColor(170, 178, 186);
const LIGHT: RGBColor = RGBColor(226, 230, 234);
const HARM: RGBColor = RGBColor(255, 226, 200);

/// The figure of a run: rounds of a team below each other.
pub(super) fn drawing(result: &Outcome<MixData>, title: &str) -> String {
    let mut rows: Vec<&RoundRow> = result.rounds.iter().collect();
    rows.sort_by_key(|row| (row.team, row.round));
    let count = rows.len().max(1) as f64;
    let pixels = (ALL_PIXELS / count).clamp(ROUND_PIXELS.0, ROUND_PIXELS.1) * count;
    let size = (SIZE.0, AROUND_PIXELS + pixels as u32);
    let (across, upright) = rooms(size, LEFT);
    let seconds = |at: u64| at as f64 / 1e6;
    let x = Axis::linear(0.0..seconds(result.over), Unit::Milliseconds, across);
    let y = Axis::at(0.0..count, false, &teams(&rows), upright);
    let key = Key::new(
        [
            (Mark::Bar(GREY), "precomputation".to_owned()),
            (Mark::Bar(LIGHT), "waits for payloads".to_owned()),
            (Mark::Bar(colour(1)), "real time".to_owned()),
            (Mark::Bar(colour(0)), "failed".to_owned()),
            (Mark::Bar(HARM), "something is wrong with a node".to_owned()),
        ],
        SIZE.0,
    );
    drawn_at_with(size, &key, |area| {
        let mut chart = chart(area, title, (&x, ""), (&y, ""))?;
        for harm in &result.harm {
            let corners = [(seconds(harm.from), 0.0), (seconds(harm.until.min(result.over)), count)];
            chart.draw_series([Rectangle::new(corners, HARM.mix(0.6).filled())])?;
        }
        for (place, row) in rows.iter().enumerate() {
            let top = count - place as f64;
            let end = row.ended.unwrap_or(result.over);
            let failed = row.cause.is_some() || row.ended.is_none();
            let mut part = |from: u64, to: u64, fill: RGBColor| {
                let corners = [(seconds(from), top - 0.88), (seconds(to.max(from)), top - 0.12)];
                chart.draw_series([Rectangle::new(corners, fill.filled())]).map(drop)
            };
            let opened = row.opened.unwrap_or(end).min(end);
            let entered = row.entered.unwrap_or(end).min(end);
            let out = row.exit().unwrap_or(end);
            part(row.made, opened, if failed { colour(0) } else { GREY })?;
            part(opened, entered, if failed { colour(0) } else { LIGHT })?;
            part(entered, out, if failed { colour(0) } else { colour(1) })?;
        }
        Ok(())
    })
}

/// The names of teams, and where they stand: in the middle of their rounds.
fn teams(rows: &[&RoundRow]) -> Vec<(f64, String)> {
    let most = rows.iter().map(|row| row.team).max().unwrap_or(0);
    let name = |team: usize| {
        let mut places = rows.iter().enumerate().filter(|(_, row)| row.team == team).map(|(place, _)| place);
        let first = places.next()?;
        let last = places.next_back().unwrap_or(first);
        Some((rows.len() as f64 - (first + last + 1) as f64 / 2.0, format!("team {team}")))
    };
    (0..=most).rev().filter_map(name).collect()
}
